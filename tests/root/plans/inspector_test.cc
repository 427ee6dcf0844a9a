// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mount.h>

#include <map>

#include "mountd/plan/attributes.h"
#include "propagation/ground/mount_inspector.h"
#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using propagation::MountFacts;
using propagation::MountinfoInspector;
using propagation::StatmountInspector;

class Inspectors : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (!HasUniqueMountIds()) {
      GTEST_SKIP() << "this kernel has no statmount (Linux 6.8)";
    }
    PrepareBase();
    ASSERT_EQ(ErrorOf(Attach("data", exec::Propagation::kHostToTask)), "");
    MountTmpfs("/run/host/data/sub");
  }
};

void ExpectSame(const MountFacts& a, const MountFacts& b) {
  EXPECT_EQ(a.device, b.device);
  for (const exec::AttributeRow& row : exec::kAttributes) {
    EXPECT_EQ(a.attributes & row.flag, b.attributes & row.flag) << row.word;
  }
  EXPECT_EQ(a.peer_group, b.peer_group);
  EXPECT_EQ(a.master, b.master);
  EXPECT_EQ(a.type, b.type);
  if (!a.source.empty()) {  // empty before Linux 6.13
    EXPECT_EQ(a.source, b.source);
  }
  EXPECT_EQ(a.root, b.root);
  EXPECT_EQ(a.point, b.point);
}

TEST_F(Inspectors, BothCountWhatIsBelowAtAnyDepth) {
  const StatmountInspector modern(real_);
  const MountinfoInspector old(kernel_);
  MountTmpfs("/run/host/data/sub/deep");
  MountTmpfs("/run/host/data/sub");
  for (const auto& [path, count] :
       {std::pair("/run/host/data", 3U), std::pair("/run/host/data/sub", 0U)}) {
    const auto file = real_.Stat(-1, path);
    ASSERT_TRUE(file.has_value());
    const auto by_listmount = modern.CountBelow(file->mount_id);
    ASSERT_TRUE(by_listmount) << by_listmount.error().Message();
    EXPECT_EQ(*by_listmount, count) << path;
    const auto by_mountinfo = old.CountBelow(ReusableId(path));
    ASSERT_TRUE(by_mountinfo) << by_mountinfo.error().Message();
    EXPECT_EQ(*by_mountinfo, count) << path;
  }
  const auto root = real_.Stat(-1, "/");
  EXPECT_EQ(modern.CountBelow(root->mount_id).value(),
            old.CountBelow(ReusableId("/")).value());
}

TEST_F(Inspectors, StatmountAndMountinfoSayTheSame) {
  const StatmountInspector modern(real_);
  const MountinfoInspector old(kernel_);
  for (const char* path : {"/", "/run", "/run/mountd/base", "/run/host/data",
                           "/run/host/data/sub", kTarget, "/proc"}) {
    SCOPED_TRACE(path);
    const auto file = real_.Stat(-1, path);
    ASSERT_TRUE(file.has_value());
    const Result<MountFacts> a = modern.Facts(file->mount_id);
    const Result<MountFacts> b = old.Facts(ReusableId(path));
    ASSERT_TRUE(a.has_value() && b.has_value());
    ExpectSame(*a, *b);
    const auto children_a = modern.Children(file->mount_id);
    const auto children_b = old.Children(ReusableId(path));
    ASSERT_TRUE(children_a.has_value() && children_b.has_value());
    std::multimap<std::string, MountFacts> by_point;
    for (const MountFacts& child : *children_b) {
      by_point.emplace(child.point, child);
    }
    ASSERT_EQ(children_a->size(), children_b->size());
    for (const MountFacts& child : *children_a) {
      EXPECT_TRUE(by_point.contains(child.point)) << child.point;
    }
  }
}

TEST_F(Inspectors, AMountThatIsGoneIsNotFound) {
  const auto file = real_.Stat(-1, "/run/host/data/sub");
  const std::uint64_t reusable = ReusableId("/run/host/data/sub");
  ASSERT_EQ(::umount2("/run/host/data/sub", 0), 0);
  const auto a = StatmountInspector(real_).Facts(file->mount_id);
  const auto b = MountinfoInspector(kernel_).Facts(reusable);
  ASSERT_FALSE(a.has_value() || b.has_value());
  EXPECT_EQ(a.error().code, Code::kNotFound);
  EXPECT_EQ(b.error().code, Code::kNotFound);
}

TEST_F(Inspectors, DescendantsComeBeforeWhatTheyAreMountedOn) {
  MountTmpfs("/run/host/data/sub/deep");
  const auto anchor = real_.Stat(-1, "/run/host/data");
  const auto below =
      propagation::Descendants(StatmountInspector(real_), anchor->mount_id);
  ASSERT_TRUE(below.has_value());
  ASSERT_EQ(below->size(), 2U);
  EXPECT_EQ(below->at(0).point, "/run/host/data/sub/deep");
  EXPECT_EQ(below->at(1).point, "/run/host/data/sub");
}

class OldKernel : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
      PrepareBase();
    }
  }
};

TEST_F(OldKernel, EveryModeIsAttachedVerifiedAndTakenBackWithoutStatmount) {
  EXPECT_EQ(Call(exec::PlanKind::kHello).body.hello.has_unique_mount_ids, 0U);
  const Inventory before = Inventory::Take();
  for (const exec::Propagation mode :
       {exec::Propagation::kPrivate, exec::Propagation::kHostToTask,
        exec::Propagation::kBidirectional}) {
    const exec::Reply reply = Attach("data", mode);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(reply.body.mount.mount_id, ReusableId(kTarget));
    EXPECT_EQ(ErrorOf(Attach("data", mode)), "");
    MountTmpfs("/run/host/data/sub");
    EXPECT_EQ(Exists(std::string(kTarget) + "/sub/mark"),
              mode != exec::Propagation::kPrivate);
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    Unmount("/run/host/data/sub");
    EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)),
              "");
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
  }
}

TEST_F(OldKernel, PluginsAreMadeAndRemovedWithoutStatmount) {
  const Inventory before = Inventory::Take();
  const auto plugin = [&](exec::PlanKind kind) {
    return Call(kind, [](exec::PlanBody* body) {
      body->plugin = {exec::ToWire("csi")};
    });
  };
  EXPECT_EQ(ErrorOf(plugin(exec::PlanKind::kPreparePlugin)), "");
  EXPECT_EQ(ErrorOf(plugin(exec::PlanKind::kPreparePlugin)), "");
  EXPECT_EQ(ErrorOf(plugin(exec::PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

}  // namespace
}  // namespace mountd::testing
