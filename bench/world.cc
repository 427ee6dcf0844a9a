// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/world.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <thread>

#include "mountd/base/paths.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kOthers[] = "/run/bench/others";

constexpr char kConfig[] = R"(
[host_volume.volume]
path = "/run/bench/volume"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.plain]
path = "/run/bench/plain"
propagation = ["private", "host-to-task", "bidirectional"]
[network.default]
ipv4 = "10.88.0.0/16"
ipv6 = "fd88::/64"
[[rule]]
users = ["agent"]
host_volumes = ["volume", "plain"]
plugins = ["local", "hostpath"]
register_plugins = ["local", "hostpath"]
bidirectional = true
networks = ["default"]
host_ports = ["20000-60000"]
cgroups = ["/mountd-bench"]
alloc_roots = ["/run/bench/agent"]
[limits]
allocations_per_uid = 10000
mounts_per_allocation = 10000
namespaces_per_uid = 10000
network_file_bytes_per_uid = 64000000
)";

Result<void> Mount(const char* type, const std::string& from,
                   const std::string& at, unsigned long flags) {
  if (::mount(from.c_str(), at.c_str(), type, flags, nullptr) != 0) {
    return ErrnoError(errno, "mount", at);
  }
  return Ok();
}

std::string Numbered(const char* directory, int i) {
  return std::string(directory) + "/" + std::to_string(i);
}

Result<void> Bind(const std::string& source, const std::string& at) {
  fs::create_directory(at);
  return Mount(nullptr, source, at, MS_BIND);
}

// Connects as mountd's user, because the executor's socket accepts only that
// user.
Result<UniqueFd> ConnectAsMountd() {
  Result<UniqueFd> connection = MakeError(Code::kInternal, "connect", "");
  std::thread([&] {
    const auto user = static_cast<uid_t>(testing::kMountdUid);
    // The bare call changes this thread only; glibc's setresuid changes all
    // threads (nptl(7)).
    ::syscall(SYS_setresuid, user, user, user);
    connection = exec::ExecutorPool::ConnectTo(paths::kExecSocket)();
  }).join();
  return connection;
}

}  // namespace

Result<std::unique_ptr<World>> World::Make(const std::string& programs) {
  if (::unshare(CLONE_NEWNS) != 0) {
    return ErrnoError(errno, "unshare", "");
  }
  // Private first, so that no mount of the bench reaches the host.
  MOUNTD_TRY(Mount(nullptr, "", "/", MS_REC | MS_PRIVATE));
  MOUNTD_TRY(Mount("tmpfs", "run", "/run", 0));
  MOUNTD_TRY(Mount(nullptr, "", "/", MS_REC | MS_SHARED));
  for (const char* path : {kVolume, kPlain, kPoints, kOthers, kNaive}) {
    fs::create_directories(path);
  }
  fs::permissions("/run", fs::perms(0755));
  MOUNTD_TRY(Mount("tmpfs", "volume", kVolume, 0));
  MOUNTD_TRY(Mount("tmpfs", "naive", kNaive, 0));
  fs::create_directory(std::string(kNaive) + "/volume");
  std::unique_ptr<World> world(new World);
  MOUNTD_ASSIGN(world->node_, testing::Node::Start(kConfig, programs));
  world->executors_ = std::make_unique<exec::ExecutorPool>(
      ConnectAsMountd, exec::ExecutorPool::Options{});
  return world;
}

Result<void> World::EmptyPlan() {
  MOUNTD_TRY(executors_->Hello());
  return Ok();
}

Result<void> World::FirstPlan() {
  exec::ExecutorPool executors(ConnectAsMountd, exec::ExecutorPool::Options{});
  MOUNTD_TRY(executors.Hello());
  return Ok();
}

Result<void> World::HaveMounts(int count) {
  for (; mounts_ < count; ++mounts_) {
    MOUNTD_TRY(Bind(kVolume, Numbered(kOthers, mounts_)));
    MOUNTD_TRY(Mount(nullptr, "", Numbered(kOthers, mounts_), MS_PRIVATE));
  }
  for (; mounts_ > count; --mounts_) {
    ::umount2(Numbered(kOthers, mounts_ - 1).c_str(), MNT_DETACH);
  }
  return Ok();
}

Result<void> World::HaveNaiveMounts(int count) {
  for (; naive_mounts_ < count; ++naive_mounts_) {
    MOUNTD_TRY(
        Bind(std::string(kNaive) + "/volume", Numbered(kNaive, naive_mounts_)));
  }
  for (; naive_mounts_ > count; --naive_mounts_) {
    ::umount2(Numbered(kNaive, naive_mounts_ - 1).c_str(), MNT_DETACH);
  }
  return Ok();
}

Result<void> World::HaveNamespaces(int count) {
  for (const pid_t child : namespaces_) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  namespaces_.clear();
  for (int i = 0; i < count; ++i) {
    std::array<int, 2> ready{};
    if (::pipe(ready.data()) != 0) {
      return ErrnoError(errno, "pipe", "");
    }
    const pid_t child = ::fork();
    if (child == 0) {
      // No child outlives the bench.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool done =
          ::unshare(CLONE_NEWNS) == 0 &&
          ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
      (void)!::write(ready[1], done ? "1" : "0", 1);
      ::pause();
      ::_exit(0);
    }
    namespaces_.push_back(child);
    char answer = '0';
    (void)!::read(ready[0], &answer, 1);
    ::close(ready[0]);
    ::close(ready[1]);
    if (answer != '1') {
      return MakeError(Code::kInternal, "unshare", "namespace");
    }
  }
  return Ok();
}

Result<void> EmptyCall(agent::Client& client) {
  MOUNTD_ASSIGN(const std::string version, client.Version());
  return version.empty()
             ? Result<void>(MakeError(Code::kInternal, "call", "Version"))
             : Ok();
}

}  // namespace mountd::bench
