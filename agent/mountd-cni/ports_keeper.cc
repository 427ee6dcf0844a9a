// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/ports_keeper.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace mountd::cni_plugin {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

bool IsOwn(const fs::path& process) {
  struct stat facts {};
  return ::stat(process.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

// True for "conmon" with the arguments "-c ID" or "--cid ID" in a row
// (conmon(8)).
bool IsConmonOf(const fs::path& process, const std::string& container_id) {
  if (TextOf(process / "comm") != "conmon\n") {
    return false;
  }
  std::istringstream arguments(TextOf(process / "cmdline"));
  std::string before;
  for (std::string one; std::getline(arguments, one, '\0'); before = one) {
    if (one == container_id && (before == "-c" || before == "--cid")) {
      return true;
    }
  }
  return false;
}

bool HasEnded(int pidfd) {
  pollfd ended = {pidfd, POLLIN, 0};
  return ::poll(&ended, 1, 0) != 0;
}

// Opens the pidfd first, so that all that is read afterwards is of this
// process, if it has not ended.
UniqueFd KeeperAt(const fs::path& process, pid_t pid,
                  const std::string& container_id) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid() || !IsOwn(process) || !IsConmonOf(process, container_id) ||
      HasEnded(pidfd.get())) {
    return UniqueFd();
  }
  return pidfd;
}

}  // namespace

UniqueFd FindPortsKeeper(const std::string& container_id) {
  std::error_code error;
  fs::directory_iterator entries("/proc", error);
  while (!error && entries != fs::directory_iterator()) {
    const std::string name = entries->path().filename();
    pid_t pid = 0;
    const auto [end, wrong] =
        std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong == std::errc() && end == name.data() + name.size()) {
      UniqueFd keeper = KeeperAt(entries->path(), pid, container_id);
      if (keeper.valid()) {
        return keeper;
      }
    }
    entries.increment(error);
  }
  return UniqueFd();
}

}  // namespace mountd::cni_plugin
