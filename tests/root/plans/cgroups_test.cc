// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/root/cgroup_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;

class Cgroups : public CgroupFixture {
 protected:
  Reply Inspect(std::uint64_t id) {
    return Call(PlanKind::kInspectCgroup,
                [&](PlanBody* body) { body->cgroup = {id}; });
  }
  Reply InspectTask(int fd) {
    fds_.clear();
    fds_.emplace_back(::dup(fd));
    const Reply reply = Call(PlanKind::kInspectTask);
    fds_.clear();
    return reply;
  }
};

TEST_F(Cgroups, AreKnownByTheirIds) {
  const std::uint64_t id = MakeCgroup("web");
  const Reply reply = Inspect(id);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.cgroup.id, id);
  EXPECT_EQ(reply.body.cgroup.path.data(), top() + "/web");
}

TEST_F(Cgroups, OnHybridHostsAreFoundAsWell) {
  const std::uint64_t id = MakeCgroup("web");
  // The tmpfs covers the hierarchy, so the fixture finds its cgroup again
  // later.
  ASSERT_EQ(::mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(CodeOf(Inspect(id)), "NotSupported");
  MakeDirectories("/sys/fs/cgroup/unified");
  EXPECT_EQ(CodeOf(Inspect(id)), "NotSupported");
  ASSERT_EQ(::mount("cgroup2", "/sys/fs/cgroup/unified", "cgroup2", 0, nullptr),
            0);
  const Reply reply = Inspect(id);
  EXPECT_EQ(reply.body.cgroup.path.data(), top() + "/web") << ErrorOf(reply);
  ASSERT_EQ(::umount2("/sys/fs/cgroup/unified", 0), 0);
  ASSERT_EQ(::umount2("/sys/fs/cgroup", 0), 0);
}

TEST_F(Cgroups, MustBeGrantedByComponents) {
  EXPECT_EQ(ErrorOf(Inspect(IdOf(""))), "");
  const std::uint64_t id = MakeCgroup("web");
  config_.rules.back().cgroups = {top() + "/we", top() + "/web/x"};
  EXPECT_EQ(CodeOf(Inspect(id)), "PermissionDenied");
  config_.rules.back().cgroups = {top() + "/x", top() + "/web"};
  EXPECT_EQ(ErrorOf(Inspect(id)), "");
}

TEST_F(Cgroups, ThatAreGoneOrNoneAreRefused) {
  const std::uint64_t id = MakeCgroup("web");
  ASSERT_EQ(::rmdir(("/sys/fs/cgroup" + top() + "/web").c_str()), 0);
  EXPECT_EQ(CodeOf(Inspect(id)), "NotFound");
  EXPECT_EQ(CodeOf(Inspect(0x7777777777777777)), "NotFound");
  struct stat file = {};
  ASSERT_EQ(::stat(("/sys/fs/cgroup" + top() + "/cgroup.procs").c_str(), &file),
            0);
  EXPECT_EQ(CodeOf(Inspect(file.st_ino)), "InvalidArgument");
}

TEST_F(Cgroups, OfATaskAreToldByItsPidfd) {
  const std::uint64_t id = MakeCgroup("web");
  Child& task = Spawn("web", [] { return true; });
  const Reply reply = InspectTask(task.pidfd.get());
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.cgroup.id, id);
  EXPECT_EQ(reply.body.cgroup.path.data(), top() + "/web");
  Child& other = SpawnOutside([] { return true; });
  EXPECT_EQ(CodeOf(InspectTask(other.pidfd.get())), "PermissionDenied");
  End(task);
  EXPECT_EQ(CodeOf(InspectTask(task.pidfd.get())), "FailedPrecondition");
}

TEST_F(Cgroups, ATaskIsNothingButAPidfd) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(CodeOf(InspectTask(null.get())), "InvalidArgument");
  const UniqueFd path(::open("/proc/self", O_PATH | O_CLOEXEC));
  EXPECT_EQ(CodeOf(InspectTask(path.get())), "InvalidArgument");
  // pidfd_send_signal(2) accepts an fd of /proc/PID, but the executor does not.
  const UniqueFd directory(::open("/proc/self", O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(CodeOf(InspectTask(directory.get())), "FailedPrecondition");
}

}  // namespace
}  // namespace mountd::testing
