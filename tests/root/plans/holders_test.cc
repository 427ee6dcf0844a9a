// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "tests/root/cgroup_fixture.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

using exec::Holder;
using exec::HolderKind;
using exec::HolderScope;
using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;

class Holders : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    cgroup_ = MakeCgroup("web");
    PrepareBase();
    const Reply attached = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(attached), "");
    mount_id_ = attached.body.mount.mount_id;
  }

  Reply Find(HolderScope scope = HolderScope::kCgroup,
             std::uint32_t budget_ms = 10'000) {
    return Call(PlanKind::kFindHolders, [&](PlanBody* body) {
      body->holders = {mount_id_, scope, budget_ms, cgroup_};
    });
  }
  // Returns the only holder.
  Holder Only(HolderScope scope = HolderScope::kCgroup) {
    const Reply reply = Find(scope);
    EXPECT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(reply.body.holders.count, 1U);
    // The node may have processes that this test may not inspect.
    if (scope == HolderScope::kCgroup) {
      EXPECT_EQ(reply.body.holders.incomplete, 0U);
    }
    return reply.body.holders.holders[0];
  }
  std::uint32_t Count(HolderScope scope = HolderScope::kCgroup) {
    const Reply reply = Find(scope);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.holders.count;
  }

  std::uint64_t cgroup_ = 0;
  std::uint64_t mount_id_ = 0;
};

TEST_F(Holders, AreNoneWhereNobodyUsesTheMount) {
  Spawn("web", [] { return ::chdir("/run/host/data") == 0; });
  EXPECT_EQ(Count(), 0U);
  EXPECT_EQ(Count(HolderScope::kNode), 0U);
}

TEST_F(Holders, ByTheirWorkingDirectory) {
  const Child& task = Spawn("web", [] {
    return ::chdir("/run/mountd/base/a/web/app/data/sub") == 0 &&
           ::setresuid(1234, 1234, 1234) == 0;
  });
  const Holder holder = Only();
  EXPECT_EQ(holder.pid, static_cast<std::uint32_t>(task.pid));
  EXPECT_EQ(holder.uid, 1234U);
  EXPECT_EQ(holder.kind, HolderKind::kCwd);
  EXPECT_EQ(holder.in_cgroup, 1);
  EXPECT_EQ(holder.is_copy, 0);
  EXPECT_STREQ(holder.comm.data(), "exec_root_test");
}

TEST_F(Holders, ByTheirRoot) {
  Spawn("web", [] { return ::chroot(kTarget) == 0 && ::chdir("/") == 0; });
  // The search looks at the working directory before the root.
  EXPECT_EQ(Only().kind, HolderKind::kCwd);
  Spawn("web", [] { return ::chroot(kTarget) == 0; });
  const Reply reply = Find();
  ASSERT_EQ(reply.body.holders.count, 2U);
  EXPECT_EQ(reply.body.holders.holders[1].kind, HolderKind::kRoot);
}

TEST_F(Holders, ByAnOpenFile) {
  Spawn("web", [] {
    const int fd = ::open((std::string(kTarget) + "/file").c_str(), O_PATH);
    return fd >= 0 && ::dup2(fd, 77) == 77 && ::close(fd) == 0;
  });
  const Holder holder = Only();
  EXPECT_EQ(holder.kind, HolderKind::kFd);
  EXPECT_EQ(holder.fd, 77);
}

TEST_F(Holders, ByAMappedFile) {
  Spawn("web", [] {
    const UniqueFd fd(
        ::open((std::string(kTarget) + "/file").c_str(), O_RDONLY));
    return ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, fd.get(), 0) != MAP_FAILED;
  });
  EXPECT_EQ(Only().kind, HolderKind::kMap);
}

TEST_F(Holders, ByTheProgramTheyRun) {
  std::filesystem::copy_file("/bin/sleep", "/run/host/data/program");
  Spawn("web", [] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl((std::string(kTarget) + "/program").c_str(), "sleep", "10",
              nullptr);
      ::_exit(127);
    }
    // The child runs the new program once its exe link names it.
    const std::string exe = "/proc/" + std::to_string(child) + "/exe";
    for (int i = 0; i < 10000; ++i) {
      std::error_code ignored;
      if (std::filesystem::read_symlink(exe, ignored).filename() == "program") {
        return true;
      }
      ::usleep(1000);
    }
    return false;
  });
  const Holder holder = Only();
  EXPECT_EQ(holder.kind, HolderKind::kExe);
  EXPECT_STREQ(holder.comm.data(), "program");
  ::kill(static_cast<pid_t>(holder.pid), SIGKILL);
}

TEST_F(Holders, OfAMountThatIsDetachedAreStillFound) {
  const Child& task = Spawn("web", [] { return ::chdir(kTarget) == 0; });
  ASSERT_EQ(CodeOf(Detach(mount_id_)), "Busy");
  ASSERT_EQ(::umount2(kTarget, MNT_DETACH), 0);
  EXPECT_EQ(Only().pid, static_cast<std::uint32_t>(task.pid));
  EXPECT_EQ(Only(HolderScope::kNode).pid, static_cast<std::uint32_t>(task.pid));
}

// A process in a copy that follows our mount makes our mount busy, because
// umount(2) checks all copies.
TEST_F(Holders, OfACopyInAnotherMountNamespace) {
  Spawn("web", [] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
           ::chdir(kTarget) == 0;
  });
  EXPECT_EQ(CodeOf(Detach(mount_id_)), "Busy");
  const Holder holder = Only();
  EXPECT_EQ(holder.kind, HolderKind::kCwd);
  EXPECT_EQ(holder.is_copy, 1);
}

TEST_F(Holders, OutsideTheCgroupAreFoundOnTheNodeAlone) {
  MakeCgroup("web/task");
  Spawn("web/task", [] { return ::chdir(kTarget) == 0; });
  const Child& other = SpawnOutside([] { return ::chdir(kTarget) == 0; });
  EXPECT_NE(Only().pid, static_cast<std::uint32_t>(other.pid));
  const Reply reply = Find(HolderScope::kNode);
  ASSERT_EQ(reply.body.holders.count, 2U);
  for (const Holder& holder : std::span(reply.body.holders.holders).first(2)) {
    EXPECT_EQ(holder.in_cgroup == 0,
              holder.pid == static_cast<std::uint32_t>(other.pid));
  }
}

// The search opens neither the held file nor the process's other files, so a
// server that hangs does not hang the search.
TEST_F(Holders, OfAFileSystemThatHangsAreFoundAllTheSame) {
  MakeDirectories("/run/host/fuse");
  FuseServer server("/run/host/fuse");
  ASSERT_TRUE(server.valid());
  config_.host_volumes["fuse"] = {
      "/run/host/fuse", false, {Propagation::kPrivate}};
  const Reply attached = Attach("fuse", Propagation::kPrivate, "fuse");
  ASSERT_EQ(ErrorOf(attached), "");
  const std::string path = "/run/mountd/base/a/web/app/fuse";
  const Child& task = Spawn("web", [&] {
    const int fd = ::open((path + "/file").c_str(), O_RDONLY);
    return fd >= 0 && ::chdir(kTarget) == 0;
  });
  server.Hang();
  mount_id_ = attached.body.mount.mount_id;
  const Reply reply = Find();
  EXPECT_EQ(reply.body.holders.incomplete, 0U);
  ASSERT_EQ(reply.body.holders.count, 1U) << ErrorOf(reply);
  EXPECT_EQ(reply.body.holders.holders[0].pid,
            static_cast<std::uint32_t>(task.pid));
  EXPECT_EQ(reply.body.holders.holders[0].kind, HolderKind::kFd);
  server.Die();
  EXPECT_EQ(Only().kind, HolderKind::kFd);
}

TEST_F(Holders, ThatAreMoreThanFitAreSaidToBe) {
  for (std::size_t i = 0; i < exec::kMaxHolders; ++i) {
    Spawn("web", [] { return ::chdir(kTarget) == 0; });
  }
  Reply reply = Find();
  EXPECT_EQ(reply.body.holders.count, exec::kMaxHolders);
  EXPECT_EQ(reply.body.holders.more, 0U);
  Spawn("web", [] { return ::chdir(kTarget) == 0; });
  reply = Find();
  EXPECT_EQ(reply.body.holders.count, exec::kMaxHolders);
  EXPECT_EQ(reply.body.holders.more, 1U);
}

TEST_F(Holders, AreLookedForNoLongerThanAsked) {
  Spawn("web", [] { return ::chdir(kTarget) == 0; });
  kernel_.Before([](const std::string& call) {
    if (call == "OpenKernfs") {
      ::usleep(20'000);
    }
  });
  const Reply reply = Find(HolderScope::kCgroup, 10);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.holders.count, 0U);
  EXPECT_EQ(reply.body.holders.incomplete, 1U);
}

TEST_F(Holders, OfCgroupsThatAreNotGrantedAreNotTold) {
  Spawn("web", [] { return ::chdir(kTarget) == 0; });
  config_.rules.back().cgroups = {top() + "/other"};
  EXPECT_EQ(CodeOf(Find()), "PermissionDenied");
  EXPECT_EQ(CodeOf(Find(HolderScope::kNode)), "PermissionDenied");
}

// A search that cannot read something leaves it out, and says so.
TEST_F(Holders, EachCallThatFailsIsAnErrorOrAnIncompleteAnswer) {
  // The holder is in a copy of the mount.
  Spawn("web",
        [] { return ::unshare(CLONE_NEWNS) == 0 && ::chdir(kTarget) == 0; });
  kernel_.FailAt(0, 0);
  ASSERT_EQ(Count(), 1U);
  const std::vector<std::string> calls = kernel_.calls();
  const Inventory before = Inventory::Take();
  for (const int error : exec::kErrorsOfAnyCall) {
    for (std::size_t k = 1; k <= calls.size(); ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ": " + calls[k - 1] +
                   ", errno " + std::to_string(error));
      kernel_.FailAt(k, error);
      const Reply reply = Find();
      kernel_.FailAt(0, 0);
      const exec::HoldersState& found = reply.body.holders;
      EXPECT_TRUE(reply.code != 0 || found.incomplete == 1 || found.count == 1);
      EXPECT_EQ(Difference(before, Inventory::Take()), "");
    }
  }
  ExpectFailed({"LinkedMountId"});
}

// ---- Mounts that were handed out ----

bool AttachAt(const char* place, const UniqueFd& tree) {
  return ::move_mount(tree.get(), "", AT_FDCWD, place,
                      MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

class HandedOutHolders : public Holders {
 protected:
  void SetUp() override {
    Holders::SetUp();
    MakeDirectories(kPlace);
  }
  // Hands out the mount; its fd is `last_fd_`.
  exec::HandedOutMount Open() {
    const Reply reply = Call(PlanKind::kOpenTree, [](PlanBody* body) {
      body->open_tree = exec::OpenTreePlan{};
      body->open_tree.allocation = exec::ToWire("web");
      body->open_tree.source.host_volume = exec::ToWire("data");
    });
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.handed_out;
  }
  exec::HandedOutMount OpenInbox() {
    const auto task = [](PlanBody* body) {
      body->task = {exec::ToWire("web"), exec::ToWire("app")};
    };
    EXPECT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
    const Reply reply = Call(PlanKind::kOpenInbox, task);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.handed_out;
  }
  Reply FindThose(const std::vector<exec::HandedOutMount>& mounts) {
    return Call(PlanKind::kFindHolders, [&](PlanBody* body) {
      body->holders = {0, HolderScope::kNode, 10'000, 0};
      for (const exec::HandedOutMount& mount : mounts) {
        body->holders.handed_out.at(body->holders.count++) = mount;
      }
    });
  }
  static bool HasUniqueIds(const exec::HandedOutMount& mount) {
    return mount.mount_id != 0;
  }
};

#define SKIP_WITHOUT_UNIQUE_IDS(mount)                            \
  if (!HasUniqueIds(mount)) {                                     \
    GTEST_SKIP() << "mounts have no unique ids before Linux 6.8"; \
  }

TEST_F(HandedOutHolders, AreFoundByTheirFdsOfEachMount) {
  const exec::HandedOutMount first = Open();
  SKIP_WITHOUT_UNIQUE_IDS(first);
  UniqueFd tree = std::move(last_fd_);
  const exec::HandedOutMount second = OpenInbox();
  UniqueFd inbox = std::move(last_fd_);
  EXPECT_NE(first.mount_id, second.mount_id);
  Child& both = SpawnOutside([] { return true; });
  inbox.reset();
  const Child& one = SpawnOutside([] { return ::setuid(1234) == 0; });
  tree.reset();
  const Reply reply = FindThose({first, second});
  ASSERT_EQ(ErrorOf(reply), "");
  const exec::HoldersState& found = reply.body.holders;
  EXPECT_EQ(found.held, 3U);
  ASSERT_EQ(found.count, 3U);
  int of_both = 0;
  for (const Holder& holder : std::span(found.holders).first(found.count)) {
    EXPECT_EQ(holder.kind, HolderKind::kFd);
    const bool is_one = holder.pid == static_cast<std::uint32_t>(one.pid);
    of_both += is_one ? 0 : 1 << holder.mount;
    EXPECT_TRUE(!is_one || (holder.mount == 0 && holder.uid == 1234U));
  }
  EXPECT_EQ(of_both, 3);
  End(both);
  EXPECT_EQ(FindThose({first, second}).body.holders.held, 1U);
  EXPECT_EQ(FindThose({second, first}).body.holders.held, 2U);
}

TEST_F(HandedOutHolders, AreFoundByTheNamespaceThatAMountIsAttachedIn) {
  for (const bool is_inbox : {false, true}) {
    const exec::HandedOutMount mount = is_inbox ? OpenInbox() : Open();
    SKIP_WITHOUT_UNIQUE_IDS(mount);
    UniqueFd tree = std::move(last_fd_);
    Child& runtime = SpawnOutside([&] {
      const bool attached =
          ::unshare(CLONE_NEWNS) == 0 &&
          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
          AttachAt(kPlace, tree);
      tree.reset();
      return attached;
    });
    tree.reset();
    const Reply reply = FindThose({mount});
    EXPECT_EQ(reply.body.holders.held, 1U);
    ASSERT_EQ(reply.body.holders.count, 1U) << ErrorOf(reply);
    EXPECT_EQ(reply.body.holders.holders[0].pid,
              static_cast<std::uint32_t>(runtime.pid));
    EXPECT_EQ(reply.body.holders.holders[0].kind, HolderKind::kMount);
    End(runtime);
    EXPECT_EQ(FindThose({mount}).body.holders.held, 0U);
  }
}

TEST_F(HandedOutHolders, AreNotNeededOfWhatIsAttachedOnTheHost) {
  const exec::HandedOutMount mount = Open();
  SKIP_WITHOUT_UNIQUE_IDS(mount);
  UniqueFd tree = std::move(last_fd_);
  ASSERT_TRUE(AttachAt(kPlace, tree)) << errno;
  tree.reset();
  const Reply reply = FindThose({mount});
  EXPECT_EQ(reply.body.holders.held, 1U);
  EXPECT_EQ(reply.body.holders.count, 0U);
  Unmount(kPlace);
  EXPECT_EQ(FindThose({mount}).body.holders.held, 0U);
}

TEST_F(HandedOutHolders, OfEachMountAreNotedHoweverManyThereAre) {
  const exec::HandedOutMount first = Open();
  SKIP_WITHOUT_UNIQUE_IDS(first);
  UniqueFd tree = std::move(last_fd_);
  for (std::size_t i = 0; i <= exec::kMaxHolders; ++i) {
    SpawnOutside([] { return true; });
  }
  tree.reset();
  const exec::HandedOutMount last = Open();
  tree = std::move(last_fd_);
  SpawnOutside([] { return true; });
  tree.reset();
  const Reply reply = FindThose({first, last});
  EXPECT_EQ(reply.body.holders.count, exec::kMaxHolders);
  EXPECT_EQ(reply.body.holders.more, 1U);
  EXPECT_EQ(reply.body.holders.held, 3U);
}

// The executor must not report a mount as free because it did not see the
// mount's holder.
TEST_F(HandedOutHolders, EachCallThatFailsIsAnErrorOrAnIncompleteAnswer) {
  const exec::HandedOutMount open = Open();
  SKIP_WITHOUT_UNIQUE_IDS(open);
  UniqueFd tree = std::move(last_fd_);
  SpawnOutside([] { return true; });
  tree.reset();
  const exec::HandedOutMount attached = Open();
  tree = std::move(last_fd_);
  SpawnOutside([&] {
    const bool done =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        AttachAt(kPlace, tree);
    tree.reset();
    return done;
  });
  tree.reset();
  kernel_.FailAt(0, 0);
  ASSERT_EQ(FindThose({open, attached}).body.holders.held, 3U);
  const std::vector<std::string> calls = kernel_.calls();
  // The search repeats the same calls for each process of the machine, so the
  // test samples the later calls.
  for (std::size_t k = 1; k <= calls.size(); k += 1 + k / 32) {
    SCOPED_TRACE("call " + std::to_string(k) + ": " + calls[k - 1]);
    kernel_.FailAt(k, EIO);
    const Reply reply = FindThose({open, attached});
    kernel_.FailAt(0, 0);
    const exec::HoldersState& found = reply.body.holders;
    EXPECT_TRUE(reply.code != 0 || found.incomplete == 1 || found.held == 3);
  }
}

// ---- Live processes of an allocation ----

class LiveProcesses : public Holders {
 protected:
  Reply Find(std::uint64_t cgroup, std::uint64_t netns_inode = 0,
             std::uint32_t budget_ms = 10'000) {
    return Call(PlanKind::kFindProcesses, [&](PlanBody* body) {
      body->processes = {cgroup, netns_inode, budget_ms};
    });
  }
  // Spawns a process in a network namespace of its own. Returns that
  // namespace's inode.
  std::uint64_t SpawnInNetwork() {
    const Child& child =
        SpawnOutside([] { return ::unshare(CLONE_NEWNET) == 0; });
    network_pid_ = static_cast<std::uint32_t>(child.pid);
    struct stat st = {};
    const std::string path = "/proc/" + std::to_string(child.pid) + "/ns/net";
    EXPECT_EQ(::stat(path.c_str(), &st), 0);
    return st.st_ino;
  }

  std::uint32_t network_pid_ = 0;
};

TEST_F(LiveProcesses, AreThoseInTheCgroupAndBeneathIt) {
  EXPECT_EQ(Find(cgroup_).body.holders.count, 0U);
  MakeCgroup("web/task");
  Child& task = Spawn("web/task", [] { return true; });
  SpawnOutside([] { return true; });
  const exec::HoldersState found = Find(cgroup_).body.holders;
  ASSERT_EQ(found.count, 1U);
  EXPECT_EQ(found.holders[0].pid, static_cast<std::uint32_t>(task.pid));
  EXPECT_EQ(found.holders[0].kind, HolderKind::kMember);
  EXPECT_EQ(found.holders[0].in_cgroup, 1);
  EXPECT_STREQ(found.holders[0].comm.data(), "exec_root_test");
  EXPECT_EQ(found.incomplete, 0U);
  End(task);
  EXPECT_EQ(Find(cgroup_).body.holders.count, 0U);
}

TEST_F(LiveProcesses, AreThoseInTheNetworkNamespace) {
  const std::uint64_t netns = SpawnInNetwork();
  Spawn("web", [] { return true; });
  exec::HoldersState found = Find(0, netns).body.holders;
  ASSERT_EQ(found.count, 1U);
  EXPECT_EQ(found.holders[0].pid, network_pid_);
  EXPECT_EQ(found.holders[0].kind, HolderKind::kNetwork);
  EXPECT_EQ(found.incomplete, 0U);
  found = Find(cgroup_, netns).body.holders;
  ASSERT_EQ(found.count, 2U);
  EXPECT_EQ(found.holders[0].kind, HolderKind::kMember);
  EXPECT_EQ(found.holders[1].kind, HolderKind::kNetwork);
}

TEST_F(LiveProcesses, AreNotToldOfACgroupThatIsGoneOrNotGranted) {
  Spawn("web", [] { return true; });
  config_.rules.back().cgroups = {top() + "/other"};
  EXPECT_EQ(CodeOf(Find(cgroup_)), "PermissionDenied");
  config_.rules.back().cgroups = {top()};
  EXPECT_EQ(CodeOf(Find(cgroup_ + 1'000'000)), "NotFound");
}

// A fence whose rule root has removed must learn that nobody is left.
TEST_F(LiveProcesses, NoneInACgroupNeedNoRule) {
  const std::uint64_t netns = SpawnInNetwork();
  MakeCgroup("web/task");
  config_.rules.clear();
  exec::HoldersState found = Find(cgroup_).body.holders;
  EXPECT_EQ(ErrorOf(Find(cgroup_)), "");
  EXPECT_EQ(found.count, 0U);
  EXPECT_EQ(found.more, 0U);
  EXPECT_EQ(found.incomplete, 0U);
  found = Find(cgroup_, netns).body.holders;
  ASSERT_EQ(found.count, 1U);
  EXPECT_EQ(found.holders[0].pid, network_pid_);
  // A process beneath it counts, and so do those of the root cgroup, which has
  // no cgroup.events.
  Child& task = Spawn("web/task", [] { return true; });
  EXPECT_EQ(CodeOf(Find(cgroup_)), "PermissionDenied");
  EXPECT_EQ(CodeOf(Find(cgroup_, netns)), "PermissionDenied");
  struct stat root = {};
  ASSERT_EQ(::stat("/sys/fs/cgroup", &root), 0);
  EXPECT_EQ(CodeOf(Find(root.st_ino)), "PermissionDenied");
  End(task);
  EXPECT_EQ(ErrorOf(Find(cgroup_)), "");
  // The id of a cgroup's file, and an id of no cgroup, tell nothing.
  struct stat file = {};
  ASSERT_EQ(
      ::stat(("/sys/fs/cgroup" + top() + "/web/cgroup.procs").c_str(), &file),
      0);
  EXPECT_EQ(CodeOf(Find(file.st_ino)), "InvalidArgument");
  EXPECT_EQ(CodeOf(Find(cgroup_ + 1'000'000)), "NotFound");
}

TEST_F(LiveProcesses, WithoutARuleEachCallThatFailsIsAnError) {
  Spawn("web", [] { return true; });
  config_.rules.clear();
  kernel_.FailAt(0, 0);
  ASSERT_EQ(CodeOf(Find(cgroup_)), "PermissionDenied");
  const std::size_t calls = kernel_.calls().size();
  for (const int error : exec::kErrorsOfAnyCall) {
    for (std::size_t k = 1; k <= calls; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                   std::to_string(error));
      kernel_.FailAt(k, error);
      EXPECT_NE(Find(cgroup_).code, 0U);
      kernel_.FailAt(0, 0);
    }
  }
}

TEST_F(LiveProcesses, AreLookedForNoLongerThanAsked) {
  const std::uint64_t netns = SpawnInNetwork();
  kernel_.Before([](const std::string& call) {
    if (call == "OpenKernfs") {
      ::usleep(20'000);
    }
  });
  const Reply reply = Find(cgroup_, netns, 10);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.holders.incomplete, 1U);
}

// Whatever call fails, the executor must not report that a live process is
// gone.
TEST_F(LiveProcesses, EachCallThatFailsIsAnErrorOrAnIncompleteAnswer) {
  Spawn("web", [] { return true; });
  kernel_.FailAt(0, 0);
  ASSERT_EQ(Find(cgroup_).body.holders.count, 1U);
  const std::size_t calls = kernel_.calls().size();
  for (const int error : exec::kErrorsOfAnyCall) {
    for (std::size_t k = 1; k <= calls; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                   std::to_string(error));
      kernel_.FailAt(k, error);
      const Reply reply = Find(cgroup_);
      kernel_.FailAt(0, 0);
      const exec::HoldersState& found = reply.body.holders;
      EXPECT_TRUE(reply.code != 0 || found.incomplete == 1 || found.more == 1 ||
                  found.count == 1);
    }
  }
}

}  // namespace
}  // namespace mountd::testing
