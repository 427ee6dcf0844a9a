// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Mounts of directories that callers pass (propagation/directory_source.h), and
// attacks by way of them.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr std::uint32_t kSourceCaller = 1234;
constexpr std::uint32_t kStranger = 1235;
constexpr char kAllocRoots[] = "/run/host/allocs";
constexpr char kImage[] = "/run/host/allocs/web/image";
constexpr char kElsewhere[] = "/run/host/elsewhere";

std::string SourceOwnerOf(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0
             ? std::to_string(st.st_uid) + ":" + std::to_string(st.st_gid)
             : "none";
}

void MakeOf(const std::string& path, std::uint32_t uid) {
  MakeDirectories(path);
  ASSERT_EQ(::chown(path.c_str(), uid, uid), 0) << path;
}

// Clones the whole tree to /run/naive, as a naive daemon does. Private, because
// the unmount of a peer would take the source's own mounts with it.
bool NaiveClone() {
  MakeDirectories("/run/naive");
  return ::mount(kImage, "/run/naive", nullptr, MS_BIND | MS_REC, nullptr) ==
             0 &&
         ::mount(nullptr, "/run/naive", nullptr, MS_PRIVATE | MS_REC,
                 nullptr) == 0;
}

class DirectorySource : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MoveHostToExt4();
    MakeOf("/run/host/allocs/web", kSourceCaller);
    MakeOf(kImage, kSourceCaller);
    WriteFile(std::string(kImage) + "/file", "content");
    ASSERT_EQ(
        ::chown((std::string(kImage) + "/file").c_str(), kSourceCaller, 0), 0);
    MakeOf(kElsewhere, kSourceCaller);
    RuleConfig rule;
    rule.uids = {kSourceCaller};
    rule.alloc_roots = {kAllocRoots};
    config_.rules.push_back(rule);
    PrepareBase();
    before_ = Inventory::Take();
  }

  static Request OfDirectory(Propagation propagation = Propagation::kPrivate) {
    Request request;
    request.kind = PlanKind::kAttach;
    exec::AttachPlan& plan = request.body.attach = exec::AttachPlan{};
    plan.target = exec::Target("web", "app", "data");
    plan.source.kind = exec::SourceKind::kDirectory;
    plan.propagation = propagation;
    plan.caller.uid = kSourceCaller;
    plan.caller.gid_count = 1;
    plan.caller.gids[0] = kSourceCaller;
    return request;
  }
  Reply SendWith(const Request& request, const std::string& path) {
    fds_.clear();
    fds_.emplace_back(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const Reply reply = Send(request);
    fds_.clear();
    return reply;
  }
  Reply MountOf(const std::string& path,
                Propagation propagation = Propagation::kPrivate) {
    return SendWith(OfDirectory(propagation), path);
  }
  Reply Inspect() {
    return Call(PlanKind::kInspectTarget, [](PlanBody* body) {
      body->target = exec::Target("web", "app", "data");
    });
  }
  std::string UndoAll(std::uint64_t mount_id) {
    const std::string errors = ErrorOf(Detach(mount_id));
    return errors + Difference(before_, Inventory::Take());
  }

  Inventory before_;
};

TEST_F(DirectorySource, IsMountedWithoutSetuidAndDevices) {
  ASSERT_EQ(::chmod((std::string(kImage) + "/file").c_str(), 04755), 0);
  const Reply reply = MountOf(kImage);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  struct statvfs facts = {};
  ASSERT_EQ(::statvfs(kTarget, &facts), 0);
  EXPECT_EQ(facts.f_flag & (ST_NOSUID | ST_NODEV),
            static_cast<unsigned>(ST_NOSUID | ST_NODEV));
  // A repeated plan, whose first answer was lost, finds the mount.
  const Reply again = MountOf(kImage);
  EXPECT_EQ(ErrorOf(again), "");
  EXPECT_EQ(again.body.mount.mount_id, reply.body.mount.mount_id);
  EXPECT_EQ(CodeOf(MountOf("/run/host/allocs/web")), "AlreadyExists");
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
}

TEST_F(DirectorySource, LaterMountsComeIfTheyAreAskedFor) {
  ASSERT_EQ(::mount(nullptr, "/run/host", nullptr, MS_SHARED, nullptr), 0);
  MakeDirectories(std::string(kImage) + "/sub");
  before_ = Inventory::Take();
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask}) {
    const Reply reply = MountOf(kImage, mode);
    ASSERT_EQ(ErrorOf(reply), "");
    MountTmpfs(std::string(kImage) + "/sub");
    EXPECT_EQ(Exists(std::string(kTarget) + "/sub/mark"),
              mode == Propagation::kHostToTask);
    Unmount(std::string(kImage) + "/sub");
    MountTmpfs(std::string(kTarget) + "/sub");
    EXPECT_FALSE(Exists(std::string(kImage) + "/sub/mark"));
    Unmount(std::string(kTarget) + "/sub");
    EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
  }
  EXPECT_EQ(CodeOf(MountOf(kImage, Propagation::kBidirectional)),
            "InvalidArgument");
}

// Mounts a FUSE file system of the caller's own, as fusermount does. Returns
// the server's fd.
UniqueFd MountUsersFuse(const std::string& path) {
  UniqueFd server(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  const std::string options = "fd=" + std::to_string(server.get()) +
                              ",rootmode=40000,user_id=1234,group_id=1234";
  EXPECT_EQ(::mount("user", path.c_str(), "fuse", MS_NOSUID | MS_NODEV,
                    options.c_str()),
            0);
  return server;
}

// The kernel shows root no file of such a mount. The user makes it on the host,
// below its directory, and the copy in the inbox goes with the mount.
TEST_F(DirectorySource, ALaterFuseMountOfTheUsersGoesWithTheMount) {
  ASSERT_EQ(::mount(nullptr, "/run/host", nullptr, MS_SHARED, nullptr), 0);
  const std::string sub = std::string(kImage) + "/sub";
  MakeDirectories(sub);
  before_ = Inventory::Take();
  const Reply reply = MountOf(kImage, Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  UniqueFd server = MountUsersFuse(sub);
  struct stat st = {};
  EXPECT_NE(::stat((std::string(kTarget) + "/sub").c_str(), &st), 0);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_FALSE(Exists(kTarget));
  Unmount(sub);
  server.reset();
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

// Returns the file systems that fusermount compares with its mount_max before
// it mounts one more.
std::size_t CountAsFusermount() {
  std::ifstream mounts("/proc/self/mounts");
  std::size_t number = 0;
  std::string source;
  std::string place;
  std::string type;
  for (std::string rest;
       mounts >> source >> place >> type && std::getline(mounts, rest);) {
    number += type == "fuse" || type.starts_with("fuse.") ? 1U : 0U;
  }
  return number;
}

// So the limit on such mounts (limits.propagated_directories_per_uid) is also
// the limit on the copies, and none is hidden from fusermount.
TEST_F(DirectorySource, ALaterFuseMountIsCopiedOnceForEachMount) {
  ASSERT_EQ(::mount(nullptr, "/run/host", nullptr, MS_SHARED, nullptr), 0);
  const std::string sub = std::string(kImage) + "/sub";
  MakeDirectories(sub);
  before_ = Inventory::Take();
  std::vector<std::uint64_t> ids;
  for (const char* name : {"a", "b", "c"}) {
    Request request = OfDirectory(Propagation::kHostToTask);
    request.body.attach.target = exec::Target("web", "app", name);
    const Reply reply = SendWith(request, kImage);
    ASSERT_EQ(ErrorOf(reply), "");
    ids.push_back(reply.body.mount.mount_id);
  }
  UniqueFd server = MountUsersFuse(sub);
  EXPECT_EQ(CountAsFusermount(), 1 + ids.size());
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(ErrorOf(Detach(ids.front(), name)), "");
    ids.erase(ids.begin());
  }
  EXPECT_EQ(CountAsFusermount(), 1U);
  Unmount(sub);
  server.reset();
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(DirectorySource, AFuseMountOfTheUsersCoversTheMount) {
  ASSERT_EQ(::mount(nullptr, "/run/host", nullptr, MS_SHARED, nullptr), 0);
  before_ = Inventory::Take();
  const Reply reply = MountOf(kImage, Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  UniqueFd server = MountUsersFuse(kImage);
  const Reply covered = Inspect();
  EXPECT_EQ(ErrorOf(covered), "");
  EXPECT_NE(covered.body.mount.mount_id, 0U);
  EXPECT_NE(covered.body.mount.mount_id, reply.body.mount.mount_id);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  Unmount(kImage);
  server.reset();
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
}

TEST_F(DirectorySource, TheCallersOwnIdsAreMapped) {
  Request request = OfDirectory();
  request.body.attach.ids.count = 1;
  request.body.attach.ids.extents[0] = {kSourceCaller, 100999, 1};
  const Reply reply = SendWith(request, kImage);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(SourceOwnerOf(kTarget), "100999:100999");
  EXPECT_EQ(SourceOwnerOf(std::string(kTarget) + "/file"), "100999:65534")
      << "root's group shows as nobody's";
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  // A rule that shows root's files does so in volumes alone.
  config_.rules.back().root_as_caller = true;
  config_.rules.back().host_volumes = {"*"};
  config_.rules.back().plugins = {"*"};
  request.body.attach.ids.extents[0] = {0, kSourceCaller, 1};
  EXPECT_EQ(CodeOf(SendWith(request, kImage)), "InvalidArgument");
}

TEST_F(DirectorySource, NothingElseIsTaken) {
  MakeOf("/run/host/allocs/strangers", kStranger);
  MakeOf("/run/host/allocs/roots", 0);
  WriteFile("/run/host/allocs/web/plain", "");
  ASSERT_EQ(::chown("/run/host/allocs/web/plain", kSourceCaller, kSourceCaller),
            0);
  before_ = Inventory::Take();
  for (const char* path :
       {kElsewhere, "/run/host/allocs/strangers", "/run/host/allocs/roots",
        kAllocRoots, "/run/host/data", "/"}) {
    EXPECT_EQ(CodeOf(MountOf(path)), "PermissionDenied") << path;
  }
  EXPECT_EQ(CodeOf(MountOf("/run/host/allocs/web/plain")), "InvalidArgument");
  Request request = OfDirectory();
  EXPECT_EQ(CodeOf(Send(request)), "InvalidArgument") << "without an fd";
  request.body.attach.replaces = 1;
  EXPECT_EQ(CodeOf(SendWith(request, kImage)), "InvalidArgument");
  request = OfDirectory();
  request.body.attach.target_kind = exec::TargetKind::kDirectory;
  EXPECT_EQ(CodeOf(SendWith(request, kImage)), "InvalidArgument");
  request = OfDirectory();
  request.body.attach.caller.uid = kStranger;
  EXPECT_EQ(CodeOf(SendWith(request, kImage)), "PermissionDenied")
      << "of a caller without a rule";
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

// The executor believes mountd who is in a group, so a rule that names a group
// bounds where the directory lies and not whose it is.
TEST_F(DirectorySource, OfAnybodyWhoIsSaidToBeInTheGroup) {
  constexpr std::uint32_t kCallersGroup = 4321;
  MakeOf("/run/host/allocs/strangers", kStranger);
  before_ = Inventory::Take();
  config_.rules.back().gids = {kCallersGroup};
  Request request = OfDirectory();
  request.body.attach.caller.uid = kStranger;
  request.body.attach.caller.gids[0] = kStranger;
  EXPECT_EQ(CodeOf(SendWith(request, "/run/host/allocs/strangers")),
            "PermissionDenied")
      << "outside the group";
  request.body.attach.caller.gids[0] = kCallersGroup;
  EXPECT_EQ(CodeOf(SendWith(request, kImage)), "PermissionDenied")
      << "of another user";
  const Reply reply = SendWith(request, "/run/host/allocs/strangers");
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
}

// Naively, by the path alone, the task would get what the link leads to.
TEST_F(DirectorySource, ALinkLeadsToNoOthersDirectory) {
  MakeOf("/run/host/allocs/strangers/secret", kStranger);
  const std::string link = "/run/host/allocs/web/link";
  ASSERT_EQ(::symlink("/run/host/allocs/strangers/secret", link.c_str()), 0);
  EXPECT_EQ(CodeOf(MountOf(link)), "PermissionDenied");
  fds_.emplace_back(::open(link.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  EXPECT_EQ(CodeOf(Send(OfDirectory())), "InvalidArgument")
      << "the link itself";
  fds_.clear();
  MakeDirectories("/run/naive");
  EXPECT_NAIVE(link.starts_with(kAllocRoots) &&
               ::mount(link.c_str(), "/run/naive", nullptr, MS_BIND, nullptr) ==
                   0 &&
               SourceOwnerOf("/run/naive") == "1235:1235");
  Unmount("/run/naive");
}

// Another file system below the directory is root's, and not what the caller
// may give to its tasks. Naively the clone has it.
TEST_F(DirectorySource, AMountBelowItIsRefused) {
  MakeDirectories(std::string(kImage) + "/sub");
  ASSERT_EQ(::mount("proc", (std::string(kImage) + "/sub").c_str(), "proc", 0,
                    nullptr),
            0);
  EXPECT_EQ(CodeOf(MountOf(kImage)), "FailedPrecondition");
  EXPECT_FALSE(Exists(kTarget));
  EXPECT_NAIVE(NaiveClone() && Exists("/run/naive/sub/self"));
  ASSERT_EQ(::umount2("/run/naive", MNT_DETACH), 0);
  Unmount(std::string(kImage) + "/sub");
  // A directory in a mount below an alloc_roots shows another source's files.
  MountTmpfs("/run/host/allocs/web/other");
  ASSERT_EQ(::chown("/run/host/allocs/web/other", kSourceCaller, kSourceCaller),
            0);
  EXPECT_EQ(CodeOf(MountOf("/run/host/allocs/web/other")), "PermissionDenied");
  Unmount("/run/host/allocs/web/other");
}

TEST_F(DirectorySource, AMountThatComesBelowMeanwhileIsNotInIt) {
  const std::string sub = std::string(kImage) + "/sub";
  MakeDirectories(sub);
  bool mounted = false;
  kernel_.Before([&](const std::string& call) {
    if (call == "CloneTree" && !mounted) {
      mounted = ::mount("proc", sub.c_str(), "proc", 0, nullptr) == 0;
    }
  });
  EXPECT_EQ(ErrorOf(MountOf(kImage)), "");
  kernel_.Before(nullptr);
  ASSERT_TRUE(mounted);
  EXPECT_FALSE(Exists(std::string(kTarget) + "/sub/self"));
  EXPECT_NAIVE(NaiveClone() && Exists("/run/naive/sub/self"));
  ASSERT_EQ(::umount2("/run/naive", MNT_DETACH), 0);
  Unmount(sub);
}

// Another user has a mount in a directory that moved out of the bind mount that
// shows it, so the kernel knows no path of the mount.
TEST_F(DirectorySource, AMountOfOthersWithoutAPathDoesNotCount) {
  const std::string outer = std::string(kElsewhere) + "/outer";
  MakeDirectories(outer + "/in/x");
  MakeDirectories("/run/host/bound");
  ASSERT_EQ(
      ::mount(outer.c_str(), "/run/host/bound", nullptr, MS_BIND, nullptr), 0);
  MountTmpfs("/run/host/bound/in/x");
  const std::string away = std::string(kElsewhere) + "/away";
  ASSERT_EQ(::rename((outer + "/in").c_str(), away.c_str()), 0);
  before_ = Inventory::Take();
  const Reply reply = MountOf(kImage);
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
  ASSERT_EQ(::rename(away.c_str(), (outer + "/in").c_str()), 0);
  Unmount("/run/host/bound/in/x");
  Unmount("/run/host/bound");
}

// The owner moves the directory out of alloc_roots between the check and the
// mount.
TEST_F(DirectorySource, OneThatIsMovedAwayMeanwhileIsNotMounted) {
  for (const bool old_kernel : {false, true}) {
    if (old_kernel) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
    }
    bool naive = false;
    kernel_.Before([&](const std::string& call) {
      if (call == "AttachTree") {
        ASSERT_EQ(::rename("/run/host/allocs/web", "/run/host/elsewhere/web"),
                  0);
      }
      naive = naive || Exists(std::string(kTarget) + "/file");
    });
    EXPECT_EQ(CodeOf(MountOf(kImage)), "PermissionDenied");
    kernel_.Before(nullptr);
    EXPECT_NAIVE(naive);
    EXPECT_FALSE(Exists(kTarget));
    ASSERT_EQ(::rename("/run/host/elsewhere/web", "/run/host/allocs/web"), 0);
    EXPECT_EQ(Inspect().body.mount.mount_id, 0U);
    EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  }
}

TEST_F(DirectorySource, AFailureOrAKillAnywhereLeavesNothing) {
  for (const int error : exec::kEndOrErrorsOfAnyCall) {
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                   std::to_string(error));
      kernel_.FailOrDieAt(k, error);
      MountOf(kImage);
      reached = kernel_.calls().size() >= k;
      kernel_.FailAt(0, 0);
      ASSERT_EQ(ErrorOf(Detach(Inspect().body.mount.mount_id)), "");
      ASSERT_EQ(Difference(before_, Inventory::Take()), "");
    }
  }
}

}  // namespace
}  // namespace mountd::testing
