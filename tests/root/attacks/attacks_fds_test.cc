// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of fds and namespaces, as in attacks_test.cc.
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

class FdAttacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    for (const char* path :
         {"/run/host/allocs/web/data", "/run/host/secret", "/run/place"}) {
      MakeDirectories(path);
    }
    Give("/run/host/allocs/web");
    Give("/run/host/allocs/web/data");
    RuleConfig rule;
    rule.uids = {kAttacker};
    rule.alloc_roots = {"/run/host/allocs"};
    config_.rules.push_back(rule);
  }

  Reply OpenTree(const std::string& volume, Propagation propagation,
                 std::uint32_t attributes) {
    return Call(PlanKind::kOpenTree, [&](PlanBody* body) {
      body->open_tree = exec::OpenTreePlan{};
      body->open_tree.allocation = exec::ToWire("web");
      body->open_tree.source.host_volume = exec::ToWire(volume);
      body->open_tree.propagation = propagation;
      body->open_tree.attributes = attributes;
    });
  }
  Reply AttachTo(UniqueFd directory) {
    Request request = AttachRequest("data", Propagation::kPrivate);
    request.body.attach.target_kind = exec::TargetKind::kDirectory;
    request.body.attach.caller.uid = kAttacker;
    fds_.push_back(std::move(directory));
    const Reply reply = Send(request);
    fds_.clear();
    return reply;
  }
};

// Returns a clone with these attributes, as a naive daemon hands it out.
UniqueFd NaiveTree(const char* path, std::uint64_t attributes) {
  UniqueFd tree(
      ::open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  struct mount_attr change = {};
  change.attr_set = attributes;
  EXPECT_EQ(
      ::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &change, sizeof(change)),
      0);
  return tree;
}

// Attaches a tree in the attacker's own namespaces.
bool AttachHere(int tree) {
  return ::move_mount(tree, "", AT_FDCWD, kPlace, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

TEST_F(FdAttacks, AReadOnlyTreeIsNotHandedOutAsItsHolderCouldWriteToIt) {
  ASSERT_EQ(::chmod("/run/host/ro", 0777), 0);
  ASSERT_EQ(::chmod("/run/host/data", 0777), 0);
  EXPECT_EQ(CodeOf(OpenTree("ro", Propagation::kPrivate, 0)),
            "FailedPrecondition");
  EXPECT_NE(CodeOf(OpenTree("data", Propagation::kPrivate, exec::kReadOnly)),
            "");
  EXPECT_FALSE(last_fd_.valid());

  const UniqueFd tree = NaiveTree("/run/host/ro", MOUNT_ATTR_RDONLY);
  EXPECT_EQ(AsRootOfOwnNamespaces([&] {
              struct mount_attr change = {};
              change.attr_clr = MOUNT_ATTR_RDONLY;
              return AttachHere(tree.get()) &&
                             ::mount_setattr(AT_FDCWD, kPlace, 0, &change,
                                             sizeof(change)) == 0 &&
                             ::creat("/run/place/pwned", 0600) >= 0
                         ? 0
                         : errno;
            }),
            0);
  EXPECT_NAIVE(Exists("/run/host/ro/pwned"));
}

// Tries each way to clear nodev. Returns whether the attacker then opens the
// device `name` of the tree.
bool OpensDevice(int tree, const std::string& name) {
  return AsRootOfOwnNamespaces([&] {
           struct mount_attr change = {};
           change.attr_clr = MOUNT_ATTR_NODEV;
           const auto clear = [&change](int mount) {
             ::mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &change,
                             sizeof(change));
           };
           const auto opens = [&name](int mount) {
             return UniqueFd(
                        ::openat(mount, name.c_str(), O_RDONLY | O_CLOEXEC))
                 .valid();
           };
           clear(tree);
           const bool opened = opens(tree);
           if (!AttachHere(tree)) {
             return 126;
           }
           clear(tree);
           const std::string top =
               std::string(kPlace) + "/" + name.substr(0, name.rfind('/') + 1);
           ::mount(nullptr, top.c_str(), nullptr, MS_REMOUNT | MS_BIND,
                   nullptr);
           const UniqueFd clone(
               ::open_tree(AT_FDCWD, kPlace,
                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
           clear(clone.get());
           return opened || opens(tree) || opens(clone.get()) ? 0 : 1;
         }) == 0;
}

// The holder is root of a user namespace of its own, and any user can get one.
// Only the kernel's lock on the tree's flags holds there.
TEST_F(FdAttacks, AHolderOfATreeOpensNoDeviceInIt) {
  // /dev/zero
  ASSERT_EQ(::mknod("/run/host/data/zero", S_IFCHR | 0600, ::makedev(1, 5)), 0);
  ASSERT_EQ(::chmod("/run/host/data/zero", 0666), 0);
  const auto task = [](PlanBody* body) {
    body->task = {exec::ToWire("web"), exec::ToWire("app")};
  };
  ASSERT_EQ(ErrorOf(OpenTree("data", Propagation::kPrivate, 0)), "");
  EXPECT_FALSE(OpensDevice(last_fd_.get(), "zero"));
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kOpenInbox, task)), "");
  EXPECT_FALSE(OpensDevice(last_fd_.get(), "data/zero"));

  const UniqueFd tree =
      NaiveTree("/run/host/data", MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
  EXPECT_EQ(AsAttacker([&] {
              return ::openat(tree.get(), "zero", O_RDONLY) < 0 ? 0 : 1;
            }),
            0);
  EXPECT_NAIVE(OpensDevice(tree.get(), "zero"));
}

TEST_F(FdAttacks, AReadOnlyMountInAnInboxIsNotMadeWritable) {
  ASSERT_EQ(::chmod("/run/host/ro", 0777), 0);
  const auto writes = [](int tree, const std::string& name) {
    return AsRootOfOwnNamespaces([&] {
             struct mount_attr change = {};
             change.attr_clr = MOUNT_ATTR_RDONLY;
             const std::string mount = std::string(kPlace) + name;
             if (!AttachHere(tree)) {
               return 126;
             }
             ::mount_setattr(AT_FDCWD, mount.c_str(), 0, &change,
                             sizeof(change));
             return ::creat((mount + "/pwned").c_str(), 0600) >= 0 ? 0 : 1;
           }) == 0;
  };
  const auto task = [](PlanBody* body) {
    body->task = {exec::ToWire("web"), exec::ToWire("app")};
  };
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
  ASSERT_EQ(ErrorOf(Attach("ro", Propagation::kPrivate)), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kOpenInbox, task)), "");
  EXPECT_FALSE(writes(last_fd_.get(), "/data"));
  EXPECT_FALSE(Exists("/run/host/ro/pwned"));
  const UniqueFd naive(
      ::open_tree(AT_FDCWD, "/run/mountd/base/a/web/app",
                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  EXPECT_NAIVE(writes(naive.get(), "/data"));
  EXPECT_TRUE(Exists("/run/host/ro/pwned"));
}

TEST_F(FdAttacks, ATreeThatIsHandedOutMountsNothingOnTheHost) {
  const auto mount_in = [](int tree) {
    return AsRootOfOwnNamespaces([tree] {
      return AttachHere(tree) && ::mount("tmpfs", "/run/place/sub", "tmpfs", 0,
                                         nullptr) == 0
                 ? 0
                 : errno;
    });
  };
  const auto is_hit = [] {
    struct statx stx = {};
    EXPECT_EQ(
        ::statx(AT_FDCWD, "/run/host/data/sub", 0, STATX_BASIC_STATS, &stx), 0);
    return (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  };
  ASSERT_EQ(
      ::mount("/run/host/data", "/run/host/data", nullptr, MS_BIND, nullptr),
      0);
  ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr, MS_SHARED, nullptr), 0);
  EXPECT_EQ(CodeOf(OpenTree("data", Propagation::kBidirectional, 0)),
            "InvalidArgument");
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask}) {
    ASSERT_EQ(ErrorOf(OpenTree("data", mode, 0)), "");
    EXPECT_EQ(mount_in(last_fd_.get()), 0);
    EXPECT_FALSE(is_hit());
  }
  const UniqueFd tree = NaiveTree("/run/host/data", MOUNT_ATTR_NOSUID);
  EXPECT_EQ(mount_in(tree.get()), 0);
  EXPECT_NAIVE(is_hit());
}

// SECURITY.md says so of `detached`, because the kernel cannot revoke a tree.
TEST_F(FdAttacks, ATreeThatIsHandedOutOutlivesTheRelease) {
  ASSERT_EQ(ErrorOf(OpenTree("data", Propagation::kPrivate, 0)), "");
  const UniqueFd handed_out = std::move(last_fd_);
  ASSERT_EQ(ErrorOf(Call(PlanKind::kRemoveAllocation,
                         [](PlanBody* body) {
                           body->allocation = {exec::ToWire("web"), kAttacker};
                         })),
            "");
  EXPECT_FALSE(Exists("/run/mountd/base/a/web"));
  const int tree = handed_out.get();
  EXPECT_EQ(AsRootOfOwnNamespaces([tree] {
              return AttachHere(tree) && ::access("/run/place/file", R_OK) == 0
                         ? 0
                         : errno;
            }),
            0);
}

// O_PATH needs only search permission on the way, none on the directory, so the
// executor checks the owner.
TEST_F(FdAttacks, ADirectoryOfAnothersIsNoTarget) {
  const auto pass = [] {
    return UniqueFd(::open("/run/host/secret", O_PATH | O_CLOEXEC));
  };
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(AttachTo(pass())), "PermissionDenied");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  const UniqueFd fd = pass();
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  ASSERT_EQ(::mount("/run/host/data", path.c_str(), nullptr, MS_BIND, nullptr),
            0);
  EXPECT_NAIVE(Exists("/run/host/secret/file"));
}

// Fact: a runtime without root can neither clone, attach nor enter the host's
// mounts, even as root of a user namespace of its own. mountd mounts for it.
TEST_F(FdAttacks, ARuntimeWithoutRootIsGivenWhatItCannotMount) {
  static constexpr char kData[] = "/run/host/allocs/web/data";
  const auto mount_itself = [] {
    EXPECT_EQ(::open_tree(AT_FDCWD, "/run/host/data",
                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC),
              -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(::mount("/run/host/data", kData, nullptr, MS_BIND, nullptr), -1);
    EXPECT_EQ(errno, EPERM);
    const UniqueFd network(::open("/proc/thread-self/ns/net", O_RDONLY));
    EXPECT_EQ(::setns(network.get(), CLONE_NEWNET), -1);
    EXPECT_EQ(errno, EPERM);
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EQ(AsAttacker(mount_itself), 0);
  EXPECT_EQ(AsAttacker([&] {
              return ::unshare(CLONE_NEWUSER) == 0 ? mount_itself() : 126;
            }),
            0);
  // Mounts that the runtime makes in namespaces of its own are visible nowhere
  // else.
  EXPECT_EQ(AsRootOfOwnNamespaces([] {
              return ::mount("/run/host/data", kData, nullptr, MS_BIND,
                             nullptr) == 0 &&
                             Exists("/run/host/allocs/web/data/file")
                         ? 0
                         : errno;
            }),
            0);
  EXPECT_FALSE(Exists("/run/host/allocs/web/data/file"));

  const UniqueFd directory(::open(kData, O_PATH | O_CLOEXEC));
  const Reply reply = AttachTo(UniqueFd(::dup(directory.get())));
  ASSERT_EQ(ErrorOf(reply), "");
  const auto sees = [] {
    return Exists("/run/host/allocs/web/data/file") ? 0 : 1;
  };
  EXPECT_EQ(AsAttacker(sees), 0);
  EXPECT_EQ(AsRootOfOwnNamespaces(sees), 0);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

// The caller passes the directory as another mount namespace shows it, in which
// the caller is root.
TEST_F(FdAttacks, ADirectoryOfAForeignNamespaceIsNoTarget) {
  const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  UniqueFd foreign(::open("/run/host/allocs/web/data", O_PATH | O_CLOEXEC));
  const UniqueFd other(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  const UniqueFd again(::dup(foreign.get()));
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(AttachTo(std::move(foreign))), "FailedPrecondition");
  // A naive daemon trusts the path that the kernel prints for the fd.
  std::array<char, 256> path{};
  ASSERT_GT(::readlink(("/proc/self/fd/" + std::to_string(again.get())).c_str(),
                       path.data(), path.size() - 1),
            0);
  EXPECT_STREQ(path.data(), "/run/host/allocs/web/data");
  ASSERT_EQ(::mount("/run/host/data", path.data(), nullptr, MS_BIND, nullptr),
            0);
  EXPECT_NAIVE(Exists("/run/host/allocs/web/data/file"));
  Unmount(path.data());
}

TEST_F(FdAttacks, FdsOfOtherKindsAreRefused) {
  constexpr char kWeb[] = "/run/host/allocs/web/data";
  WriteFile("/run/host/allocs/web/file", "");
  Give("/run/host/allocs/web/file");
  MakeDirectories("/run/host/allocs/web/gone");
  Give("/run/host/allocs/web/gone");
  std::vector<std::pair<const char*, UniqueFd>> fds;
  const auto add = [&](const char* name, long fd) {
    ASSERT_GE(fd, 0) << name;
    fds.emplace_back(name, UniqueFd(static_cast<int>(fd)));
  };
  add("file", ::open("/run/host/allocs/web/file", O_RDONLY | O_CLOEXEC));
  add("device", ::open("/dev/null", O_RDWR | O_CLOEXEC));
  add("memfd", ::memfd_create("attack", MFD_CLOEXEC));
  add("eventfd", ::eventfd(0, EFD_CLOEXEC));
  add("socket", ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  add("namespace", ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  add("pidfd", ::syscall(SYS_pidfd_open, ::getpid(), 0));
  add("fsopen", ::fsopen("tmpfs", FSOPEN_CLOEXEC));
  add("detached tree",
      ::open_tree(AT_FDCWD, kWeb, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  add("magic link to the root", ::open("/proc/self/root", O_PATH | O_CLOEXEC));
  add("link itself", ::open("/proc/self/cwd", O_PATH | O_NOFOLLOW | O_CLOEXEC));
  add("removed directory",
      ::open("/run/host/allocs/web/gone", O_PATH | O_CLOEXEC));
  ASSERT_EQ(::rmdir("/run/host/allocs/web/gone"), 0);
  for (auto& [name, fd] : fds) {
    const UniqueFd kept(::dup(fd.get()));
    const Inventory before = Inventory::Take();
    const std::string code = CodeOf(AttachTo(std::move(fd)));
    EXPECT_TRUE(code == "InvalidArgument" || code == "PermissionDenied" ||
                code == "FailedPrecondition")
        << name << ": " << code;
    EXPECT_EQ(Difference(before, Inventory::Take()).find("+ "),
              std::string::npos)
        << name;
  }
  // A naive daemon follows the path that the kernel prints for the fd, even if
  // the path is the caller's link.
  ASSERT_EQ(::symlink("/run/host/secret", "/run/host/allocs/web/link"), 0);
  const UniqueFd link(
      ::open("/run/host/allocs/web/link", O_PATH | O_NOFOLLOW | O_CLOEXEC));
  EXPECT_NE(CodeOf(AttachTo(UniqueFd(::dup(link.get())))), "");
  EXPECT_FALSE(IsMountPoint("/run/host/secret"));
  ASSERT_EQ(::mount("/run/host/data", "/run/host/allocs/web/link", nullptr,
                    MS_BIND, nullptr),
            0);
  EXPECT_NAIVE(IsMountPoint("/run/host/secret"));
  Unmount("/run/host/secret");
  // An fd of the right kind is accepted.
  const Reply reply = AttachTo(UniqueFd(::open(kWeb, O_PATH | O_CLOEXEC)));
  EXPECT_EQ(ErrorOf(reply), "");
}

}  // namespace
}  // namespace mountd::testing
