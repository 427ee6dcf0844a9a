// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/container_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace mountd::testing {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

namespace {

bool WriteTo(const char* path, const char* text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

}  // namespace

bool BecomeContainer(bool user_namespace, const std::string& shared) {
  if (user_namespace && (::unshare(CLONE_NEWUSER) != 0 ||
                         !WriteTo("/proc/self/setgroups", "deny") ||
                         !WriteTo("/proc/self/uid_map", "0 0 1") ||
                         !WriteTo("/proc/self/gid_map", "0 0 1"))) {
    return false;
  }
  const std::string root = kContainersRoot;
  const unsigned long all = shared.empty() ? MS_REC : 0;
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_PRIVATE | all, nullptr) != 0 ||
      ::mount("rootfs", root.c_str(), "tmpfs", 0, nullptr) != 0) {
    return false;
  }
  for (const char* path : {"/data", "/data2", "/old", "/proc", "/shared"}) {
    MakeDirectories(root + path);
  }
  WriteFile(root + "/file", "");
  return (shared.empty() || ::mount(shared.c_str(), (root + "/shared").c_str(),
                                    nullptr, MS_BIND, nullptr) == 0) &&
         ::symlink("data", (root + "/link").c_str()) == 0 &&
         ::syscall(SYS_pivot_root, root.c_str(), (root + "/old").c_str()) ==
             0 &&
         ::chdir("/") == 0 && ::umount2("/old", MNT_DETACH) == 0;
}

void ContainerFixture::SetUp() {
  CgroupFixture::SetUp();
  if (IsSkipped() || HasFatalFailure()) {
    return;
  }
  config_.rules.back().containers = true;
  caller_ = static_cast<std::uint32_t>(::getpid());
  cgroup_ = MakeCgroup("web");
  MakeDirectories(kContainersRoot);
  PrepareBase();
  container_ = &SpawnContainer("web");
}

Child& ContainerFixture::SpawnContainer(const std::string& cgroup,
                                        const std::string& shared) {
  return Spawn(
      cgroup, [&] { return BecomeContainer(false, shared); }, CLONE_NEWPID);
}

Request ContainerFixture::InContainer(Propagation propagation,
                                      const std::string& path,
                                      const std::string& volume) const {
  Request request = AttachRequest(volume, propagation);
  request.body.attach.target_kind = exec::TargetKind::kContainer;
  request.body.attach.container = exec::Container(cgroup_, path, caller_);
  return request;
}

Reply ContainerFixture::SendFor(const Child& child, const Request& request) {
  fds_.clear();
  fds_.emplace_back(::fcntl(child.pidfd.get(), F_DUPFD_CLOEXEC, 3));
  const Reply reply = Send(request);
  fds_.clear();
  return reply;
}

Reply ContainerFixture::AttachTo(const Child& child, Propagation propagation,
                                 const std::string& path,
                                 const std::string& volume) {
  return SendFor(child, InContainer(propagation, path, volume));
}

Reply ContainerFixture::Inspect() {
  return Call(PlanKind::kInspectTarget, [](PlanBody* body) {
    body->target = exec::Target("web", "app", "data");
  });
}

int ContainerFixture::Do(const Child& child, const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(::setns(child.pidfd.get(), CLONE_NEWNS) == 0 ? body() : 255);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

bool ContainerFixture::Sees(const Child& child, const std::string& path) {
  return Do(child, [&] { return Exists(path) ? 1 : 0; }) == 1;
}

std::string ContainerFixture::MountsOf(const Child& child) {
  std::ifstream file("/proc/" + std::to_string(child.pid) + "/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

void ContainerFixture::ExpectNothingLeft(std::uint64_t mount_id) {
  EXPECT_EQ(ErrorOf(Detach(mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
}

}  // namespace mountd::testing
