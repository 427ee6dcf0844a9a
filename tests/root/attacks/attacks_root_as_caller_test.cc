// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes whose files of root's show as the caller's, and attacks by way of
// them, as in attacks_test.cc.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/root/attacker.h"
#include "tests/root/attacks/attacks_test.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr char kData[] = "/run/host/data";
constexpr char kShownMount[] = "/run/mountd/base/a/open/app/data";
constexpr std::uint64_t kSafe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

std::string OwnerOf(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0
             ? std::to_string(st.st_uid) + ":" + std::to_string(st.st_gid)
             : "none";
}

void ChangeMount(const std::string& path, std::uint64_t set,
                 std::uint64_t clear) {
  struct mount_attr change = {};
  change.attr_set = set;
  change.attr_clr = clear;
  ASSERT_EQ(::mount_setattr(AT_FDCWD, path.c_str(), 0, &change, sizeof(change)),
            0);
}

// The attacker's rule grants "data" with root_as_caller. The host mounts the
// disk nosuid and nodev.
class RootAsCaller : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MoveHostToExt4();
    ChangeMount("/run/host", kSafe, 0);
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(PlanKind::kPrepareAllocation,
                     [](PlanBody* body) {
                       body->allocation = {exec::ToWire("open"), kAttacker};
                     })),
        "");
    MakeDirectories(kNaiveTarget);
    config_.rules[0].uids = {kAttacker};
    config_.rules[0].host_volumes = {"data"};
    config_.rules[0].root_as_caller = true;
  }

  Request RootRequest() const {
    Request request = AttachRequest("data", Propagation::kPrivate);
    exec::AttachPlan& plan = request.body.attach;
    plan.target = exec::Target("open", "app", "data");
    plan.caller.uid = kAttacker;
    plan.caller.gid_count = 1;
    plan.caller.gids[0] = kAttacker;
    plan.ids.count = 1;
    plan.ids.extents[0] = {0, kAttacker, 1};
    return request;
  }
  // Clones the whole tree with the same map, as a naive daemon does.
  void MountNaively() {
    UniqueFd tree(::open_tree(
        AT_FDCWD, kData, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
    const UniqueFd map =
        real_.NewUserNamespace("0 1234 1\n", "0 1234 1\n").value();
    exec::MountChange change;
    // Private, because the unmount of a peer would take the source's own mounts
    // with it.
    change.propagation = MS_PRIVATE;
    change.set = MOUNT_ATTR_IDMAP;
    change.user_namespace = map.get();
    ASSERT_TRUE(real_.SetMount(tree.get(), true, change));
    const UniqueFd point(::open(kNaiveTarget, O_PATH | O_CLOEXEC));
    ASSERT_TRUE(real_.AttachTree(tree.get(), point.get()));
  }
};

bool AttackerWrites(const std::string& path) {
  return AsAttacker([&] {
           return ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >=
                          0
                      ? 0
                      : 1;
         }) == 0;
}

// True if the attacker becomes effectively root by the setuid program there.
bool AttackerIsRootBy(const std::string& program) {
  return AsAttacker([&] {
           ::execl(program.c_str(), "test", "-O", "/proc/1", nullptr);
           return 127;
         }) == 0;
}

TEST_F(RootAsCaller, RootsFilesAreTheCallersInTheVolume) {
  ASSERT_EQ(ErrorOf(Send(RootRequest())), "");
  EXPECT_EQ(OwnerOf(kShownMount), "1234:1234");
  EXPECT_TRUE(AttackerWrites(std::string(kShownMount) + "/new"));
  EXPECT_EQ(OwnerOf("/run/host/data/new"), "0:0");
  EXPECT_FALSE(AttackerWrites("/run/host/data/other")) << "beside the mount";
  struct statvfs facts = {};
  ASSERT_EQ(::statvfs(kShownMount, &facts), 0);
  EXPECT_EQ(facts.f_flag & (ST_NOSUID | ST_NODEV), ST_NOSUID | ST_NODEV);
}

TEST_F(RootAsCaller, OfTheGroupToo) {
  Request request = RootRequest();
  exec::AttachPlan& plan = request.body.attach;
  plan.caller.gids[0] = 4321;
  plan.ids.gid_count = 1;
  plan.ids.gids[0] = {0, 4321, 1};
  ASSERT_EQ(ErrorOf(Send(request)), "");
  EXPECT_EQ(OwnerOf(kShownMount), "1234:4321");
}

TEST_F(RootAsCaller, OfAPublishedVolumeToo) {
  ASSERT_EQ(ErrorOf(Call(
                PlanKind::kPreparePlugin,
                [](PlanBody* body) { body->plugin = {exec::ToWire("csi")}; })),
            "");
  const std::string published = "/run/mountd/base/p/csi/publish/open/" +
                                std::string(VolumeKey::kHexDigits, 'a');
  MakeDirectories(published);
  ASSERT_EQ(::mount(kData, published.c_str(), nullptr, MS_BIND, nullptr), 0);
  Request request = RootRequest();
  request.body.attach.source = exec::SourcePlan{};
  request.body.attach.source.kind = exec::SourceKind::kPublishedVolume;
  request.body.attach.source.plugin = exec::ToWire("csi");
  request.body.attach.source.volume.fill('a');
  EXPECT_EQ(CodeOf(Send(request)), "InvalidArgument") << "not its plugin";
  config_.rules[0].plugins = {"csi"};
  ASSERT_EQ(ErrorOf(Send(request)), "");
  EXPECT_EQ(OwnerOf(kShownMount), "1234:1234");
  Unmount(published);
}

TEST_F(RootAsCaller, IsNothingButWhatTheRuleSays) {
  const auto with = [&](auto change) {
    Request request = RootRequest();
    change(request.body.attach);
    return CodeOf(Send(request));
  };
  using Plan = exec::AttachPlan;
  EXPECT_EQ(with([](Plan& plan) { plan.ids.extents[0].shown = 1235; }),
            "InvalidArgument")
      << "as another's";
  EXPECT_EQ(with([](Plan& plan) { plan.ids.extents[0].count = 2; }),
            "InvalidArgument")
      << "and the next user's";
  EXPECT_EQ(with([](Plan& plan) { plan.caller.gids[0] = 1235; }),
            "InvalidArgument")
      << "as a group of others";
  EXPECT_EQ(with([](Plan& plan) {
              plan.caller.uid = 1235;
              plan.caller.gids[0] = 1235;
              plan.ids.extents[0].shown = 1235;
            }),
            "InvalidArgument")
      << "of another caller";
  EXPECT_EQ(
      with([](Plan& plan) { plan.source.host_volume = exec::ToWire("file"); }),
      "InvalidArgument")
      << "another volume";
  for (const Propagation mode :
       {Propagation::kHostToTask, Propagation::kBidirectional}) {
    EXPECT_EQ(with([&](Plan& plan) { plan.propagation = mode; }),
              "InvalidArgument");
  }
  config_.rules[0].host_volumes = {"data:ro"};
  EXPECT_EQ(with([](Plan& /*plan*/) {}), "InvalidArgument") << "for writing";
  config_.rules[0].root_as_caller = false;
  config_.rules[0].host_volumes = {"data"};
  EXPECT_EQ(with([](Plan& /*plan*/) {}), "InvalidArgument");
  // A rule that grants another volume does not count.
  RuleConfig& other = config_.rules.emplace_back();
  other.uids = {kAttacker};
  other.host_volumes = {"ro"};
  other.root_as_caller = true;
  EXPECT_EQ(with([](Plan& /*plan*/) {}), "InvalidArgument");
  EXPECT_FALSE(Exists(kShownMount));
}

TEST_F(RootAsCaller, AProgramThatTheCallerMakesSetuidMakesNobodyRoot) {
  ASSERT_EQ(ErrorOf(Send(RootRequest())), "");
  const std::string program = std::string(kShownMount) + "/test";
  ASSERT_EQ(AsAttacker([&] {
              std::error_code error;
              std::filesystem::copy_file("/usr/bin/test", program, error);
              return !error && ::chmod(program.c_str(), 04755) == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(OwnerOf("/run/host/data/test"), "0:0");
  EXPECT_FALSE(AttackerIsRootBy(program));
  EXPECT_FALSE(AttackerIsRootBy("/run/host/data/test"));
  // A naive daemon mounts it for the task nosuid, and leaves the host's own
  // mount of the disk as it is.
  ASSERT_TRUE(NaiveBind(kData, kNaiveTarget));
  ChangeMount(kNaiveTarget, 0, MOUNT_ATTR_NOSUID);
  EXPECT_NAIVE(AttackerIsRootBy(std::string(kNaiveTarget) + "/test"));
}

TEST_F(RootAsCaller, AVolumeThatTheHostMountsWithSetuidOrDevicesIsRefused) {
  for (const std::uint64_t flag :
       std::array<std::uint64_t, 2>{MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV}) {
    ChangeMount("/run/host", kSafe, 0);
    ChangeMount("/run/host", 0, flag);
    const Inventory before = Inventory::Take();
    EXPECT_EQ(CodeOf(Send(RootRequest())), "FailedPrecondition");
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
    // An anchor of another mount does not hide the host's flags.
    const Reply plain = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(plain), "");
    EXPECT_EQ(CodeOf(Send(RootRequest())), "FailedPrecondition");
    ASSERT_EQ(ErrorOf(Detach(plain.body.mount.mount_id)), "");
    ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  }
}

// The directory with root's secrets is on the host below the volume, but root
// did not declare it as a volume.
TEST_F(RootAsCaller, AMountBelowTheVolumeIsNotTheCallers) {
  ASSERT_EQ(::mount("/run/host/real", "/run/host/data/sub", nullptr, MS_BIND,
                    nullptr),
            0);
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Send(RootRequest())), "FailedPrecondition");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  MountNaively();
  EXPECT_NAIVE(AttackerWrites(std::string(kNaiveTarget) + "/sub/pwned") &&
               OwnerOf("/run/host/real/pwned") == "0:0");
  Unmount(std::string(kNaiveTarget) + "/sub");
  Unmount(kNaiveTarget);
  Unmount("/run/host/data/sub");
}

TEST_F(RootAsCaller, AMountThatComesBelowMeanwhileIsNotTheCallers) {
  bool mounted = false;
  kernel_.Before([&](const std::string& call) {
    // The volume's anchor is the first clone, so it is attached at the second.
    if (call == "CloneTree" && !mounted && IsMountPoint(kData)) {
      mounted = ::mount("/run/host/real", "/run/host/data/sub", nullptr,
                        MS_BIND, nullptr) == 0;
    }
  });
  EXPECT_EQ(ErrorOf(Send(RootRequest())), "");
  kernel_.Before(nullptr);
  ASSERT_TRUE(mounted);
  const std::string sub = std::string(kShownMount) + "/sub";
  EXPECT_FALSE(IsMountPoint(sub));
  EXPECT_TRUE(AttackerWrites(sub + "/file"));
  EXPECT_FALSE(Exists("/run/host/real/file"));
  MountNaively();
  EXPECT_NAIVE(AttackerWrites(std::string(kNaiveTarget) + "/sub/pwned") &&
               Exists("/run/host/real/pwned"));
  Unmount(std::string(kNaiveTarget) + "/sub");
  Unmount(kNaiveTarget);
  Unmount("/run/host/data/sub");
}

}  // namespace
}  // namespace mountd::testing
