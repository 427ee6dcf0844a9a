// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/private_namespaces.h"

#include <fcntl.h>
#include <net/if.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/network_inventory.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

void AddLines(const char* path, const std::string& label,
              std::set<std::string>* items) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    items->insert(label + " " + line);
  }
}

void AddLinks(std::set<std::string>* items) {
  struct if_nameindex* links = ::if_nameindex();
  for (auto* link = links; link != nullptr && link->if_index != 0; ++link) {
    items->insert("link " + std::string(link->if_name));
  }
  ::if_freenameindex(links);
}

void AddRuleset(std::set<std::string>* items) {
  nft_ctx* nft = ::nft_ctx_new(NFT_CTX_DEFAULT);
  ::nft_ctx_buffer_output(nft);
  ::nft_ctx_buffer_error(nft);
  ::nft_run_cmd_from_buffer(nft, "list ruleset");
  std::istringstream lines(::nft_ctx_get_output_buffer(nft));
  for (std::string line; std::getline(lines, line);) {
    int repeated = 0;
    while (!items->insert("nft " + line + " #" + std::to_string(repeated))
                .second) {
      ++repeated;
    }
  }
  ::nft_ctx_free(nft);
}

void AddFiles(std::set<std::string>* items) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator
           it("/run", fs::directory_options::skip_permission_denied, ignored),
       end;
       it != end; it.increment(ignored)) {
    items->insert("file " + it->path().string());
    // A node's copy of /etc has a thousand files, and no daemon writes there.
    if (it->path() == "/run/node") {
      it.disable_recursion_pending();
    }
  }
}

// Names a file by its path at the open. ctest's log, which each test inherits,
// may be removed meanwhile, because a test may run another ctest. Counts
// sockets, because code that keeps a socket opens another one after a failed
// call.
void AddOpenFds(std::set<std::string>* items) {
  constexpr std::string_view kRemoved = " (deleted)";
  std::error_code ignored;
  std::set<std::string> found;
  int sockets = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::string target = fs::read_symlink(entry.path(), ignored).string();
    if (target.ends_with(kRemoved)) {
      target.resize(target.size() - kRemoved.size());
    }
    if (target.starts_with("socket:[")) {
      found.insert("fd socket " + std::to_string(++sockets));
      continue;
    }
    if (!target.starts_with("/proc/")) {
      found.insert("fd " + entry.path().filename().string() + " " + target);
    }
  }
  items->insert(found.begin(), found.end());
}

void BringLoopbackUp() {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  std::strcpy(&request.ifr_name[0], "lo");
  request.ifr_flags = IFF_UP;
  ASSERT_EQ(::ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
}

}  // namespace

void PrivateNamespaces::SetUp() {
  mounts_.reset(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  network_.reset(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) {
    const std::string reason = std::strerror(errno);
    mounts_.reset();
    network_.reset();
    GTEST_SKIP() << "cannot unshare mount and network namespaces: " << reason;
  }
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(::mount("tmpfs", "/run", "tmpfs", 0, "mode=755"), 0);
  ::umask(0);
  BringLoopbackUp();
}

void PrivateNamespaces::TearDown() {
  if (mounts_.valid()) {
    ASSERT_EQ(::setns(network_.get(), CLONE_NEWNET), 0);
    // setns(2) refuses while a thread shares the working directory, and a
    // joined thread may still be at its end.
    ASSERT_TRUE(Eventually([this] {
      return ::setns(mounts_.get(), CLONE_NEWNS) == 0;
    })) << std::strerror(errno);
  }
}

Inventory Inventory::Take() {
  Inventory inventory;
  AddLines("/proc/self/mountinfo", "mount", &inventory.items);
  AddLines("/proc/net/fib_trie", "route", &inventory.items);
  AddLinks(&inventory.items);
  AddNetworkInventory(&inventory.items);
  AddRuleset(&inventory.items);
  AddFiles(&inventory.items);
  AddOpenFds(&inventory.items);
  return inventory;
}

std::string Difference(const Inventory& before, const Inventory& after,
                       Counted counted) {
  const auto counts = [&](const std::string& item) {
    return counted == Counted::kAll || !item.starts_with("connection ");
  };
  std::string text;
  for (const std::string& item : after.items) {
    if (!before.items.contains(item) && counts(item)) {
      text += "+ " + item + "\n";
    }
  }
  // A socket that was kept and is closed is no leak.
  const auto is_closed = [](const std::string& item) {
    return item.starts_with("fd socket ");
  };
  for (const std::string& item : before.items) {
    if (!after.items.contains(item) && counts(item) && !is_closed(item)) {
      text += "- " + item + "\n";
    }
  }
  return text;
}

std::string DifferenceWithin(const Inventory& before, int seconds,
                             Counted counted) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    std::string difference = Difference(before, Inventory::Take(), counted);
    if (difference.empty() || std::chrono::steady_clock::now() > deadline) {
      return difference;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int RunInNetns(const std::string& path, int (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::_exit(fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0 ? body() : 127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace mountd::testing
