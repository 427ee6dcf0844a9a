// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/namespaces.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "bench/raw_netlink.h"

namespace mountd::bench {
namespace {

constexpr char kDirectory[] = "/var/run/netns";
constexpr char kOwn[] = "/proc/thread-self/ns/net";

Result<UniqueFd> OpenOwn() {
  UniqueFd fd(::open(kOwn, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(errno, "open", kOwn);
  }
  return fd;
}

// Runs `call` in a new namespace.
template <typename F>
Result<void> InNewNamespace(const F& call) {
  Result<void> result = Ok();
  // unshare moves only the calling thread (unshare(2)), so this process stays
  // in its own namespace.
  std::thread([&] {
    result = ::unshare(CLONE_NEWNET) == 0
                 ? call()
                 : Result<void>(ErrnoError(errno, "unshare", "network"));
  }).join();
  return result;
}

void BeQuiet() {
  for (const char* setting :
       {"accept_dad", "router_solicitations", "accept_ra"}) {
    std::ofstream("/proc/sys/net/ipv6/conf/default/" + std::string(setting))
        << "0";
  }
}

Result<Namespace> MakeWith(bool quiet) {
  Namespace made;
  MOUNTD_TRY(InNewNamespace([&]() -> Result<void> {
    MOUNTD_ASSIGN(made.fd, OpenOwn());
    MOUNTD_ASSIGN(made.route, OpenNetlink(NETLINK_ROUTE));
    if (quiet) {
      BeQuiet();
    }
    return RaiseLoopback(made.route);
  }));
  return made;
}

// Shares the directory, so that a pin in it shows in every mount namespace.
Result<void> ShareDirectory() {
  if (::mkdir(kDirectory, 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", kDirectory);
  }
  if (::mount("", kDirectory, "none", MS_SHARED | MS_REC, nullptr) == 0) {
    return Ok();
  }
  // EINVAL: the directory is no mount point yet.
  if (errno != EINVAL ||
      ::mount(kDirectory, kDirectory, "none", MS_BIND | MS_REC, nullptr) != 0 ||
      ::mount("", kDirectory, "none", MS_SHARED | MS_REC, nullptr) != 0) {
    return ErrnoError(errno, "mount", kDirectory);
  }
  return Ok();
}

class Alone final : public NetworkWay {
 public:
  std::string name() const override { return "namespace"; }
  Result<void> Prepare(const std::vector<std::uint16_t>& /*ports*/) override {
    return Ok();
  }
  Result<void> SetUp() override { return namespace_.Make(); }
  Result<void> TearDown() override { return namespace_.Remove(); }
  Result<void> CleanUp() override { return Ok(); }

 private:
  NomadNamespace namespace_{"alone"};
};

}  // namespace

Result<Namespace> MakeNamespace() { return MakeWith(false); }
Result<Namespace> MakeQuietNamespace() { return MakeWith(true); }

Result<Inside> Inside::Enter(const Namespace& target) {
  MOUNTD_ASSIGN(UniqueFd before, OpenOwn());
  if (::setns(target.fd.get(), CLONE_NEWNET) != 0) {
    return ErrnoError(errno, "setns", "network");
  }
  return Inside(std::move(before));
}

Inside::~Inside() {
  if (before_.valid()) {
    ::setns(before_.get(), CLONE_NEWNET);
  }
}

NomadNamespace::NomadNamespace(const std::string& name)
    : path_(std::string(kDirectory) + "/" + name) {}

Result<void> NomadNamespace::Make() {
  MOUNTD_TRY(ShareDirectory());
  const UniqueFd file(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) {
    return ErrnoError(errno, "open", path_);
  }
  return InNewNamespace([this]() -> Result<void> {
    if (::mount(kOwn, path_.c_str(), "none", MS_BIND, nullptr) != 0) {
      return ErrnoError(errno, "mount", path_);
    }
    return Ok();
  });
}

Result<void> NomadNamespace::Remove() {
  if (::umount2(path_.c_str(), MNT_DETACH) != 0 ||
      ::unlink(path_.c_str()) != 0) {
    return ErrnoError(errno, "umount2", path_);
  }
  return Ok();
}

std::unique_ptr<NetworkWay> NomadNamespaceAlone() {
  return std::make_unique<Alone>();
}

}  // namespace mountd::bench
