// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

#include "tests/root/networks/network_fixture.h"
#include "tests/support/naive.h"

// Another program has an object at an allocation's name in /run/netns.
namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;

class NetworkNames : public Networks {
 protected:
  // Pins another program's network namespace at /run/netns/<name>.
  void PinForeign(const std::string& name) {
    const std::string pin = "/run/netns/" + name;
    WriteFile(pin, "");
    auto other = real_.NewNetNamespace();
    ASSERT_TRUE(other.has_value());
    const std::string path = "/proc/self/fd/" + std::to_string(other->fd.get());
    ASSERT_EQ(::mount(path.c_str(), pin.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  // Deletes by the name, as a naive daemon does. True if that removed
  // something.
  static bool NaiveDeleteTakes(const std::string& name) {
    const std::string pin = "/run/netns/" + name;
    ::umount2(pin.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    return ::unlink(pin.c_str()) == 0 || ::rmdir(pin.c_str()) == 0;
  }
};

TEST_F(NetworkNames, AForeignNamespaceAtTheNameIsLeftAlone) {
  PinForeign("web");
  const Inventory before = Inventory::Take();
  NetworkPlan plan = Plan("web", 2, 18080);
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, plan)), "FailedPrecondition");
  EXPECT_EQ(DifferenceWithin(before, 20), "");
  plan.netns_inode = 1;
  EXPECT_EQ(CodeOf(Do(PlanKind::kDeleteNetwork, plan)), "FailedPrecondition");
  // The namespace's inode in the plan does not make it ours.
  plan.netns_inode = StateOf(plan).netns_inode;
  EXPECT_EQ(CodeOf(Do(PlanKind::kDeleteNetwork, plan)), "FailedPrecondition");
  // mountd rolls back a refused create without an inode.
  plan.netns_inode = 0;
  EXPECT_EQ(CodeOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_NAIVE(NaiveDeleteTakes("web"));
}

TEST_F(NetworkNames, AForeignNamespaceAtTheNameOfALostOneIsLeftAlone) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  Unmount("/run/netns/web");
  ASSERT_EQ(::unlink("/run/netns/web"), 0);
  PinForeign("web");
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_NE(StateOf(plan).netns_inode, 0U);
  EXPECT_EQ(StateOf(plan).elements_present, 0U);
  EXPECT_NAIVE(NaiveDeleteTakes("web"));
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(NetworkNames, AFileAtTheNameIsLeftAlone) {
  WriteFile("/run/netns/web", "");
  const Inventory before = Inventory::Take();
  const NetworkPlan plan = Plan("web", 2, 18080);
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, plan)), "FailedPrecondition");
  EXPECT_EQ(DifferenceWithin(before, 20), "");
  EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_NAIVE(NaiveDeleteTakes("web"));
}

TEST_F(NetworkNames, ConnectionsAreForgottenOnlyOfAnAddressThatIsProvenOurs) {
  const auto sends = [&](const NetworkPlan& plan) {
    kernel_.FailAt(0, 0);
    EXPECT_EQ(ErrorOf(Do(PlanKind::kDeleteNetwork, plan)), "");
    return std::count(kernel_.calls().begin(), kernel_.calls().end(), "Send");
  };
  const NetworkPlan plan = Plan("web", 2, 18080);
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  sends(plan);
  sends(plan);
  EXPECT_EQ(sends(plan), 3);  // for the link, its IPv6 address, the elements
}

TEST_F(NetworkNames, SomethingElseMountedAtTheNameIsLeftAlone) {
  MountTmpfs("/run/netns/web");
  const Inventory before = Inventory::Take();
  const NetworkPlan plan = Plan("web", 2, 18080);
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, plan)), "FailedPrecondition");
  EXPECT_EQ(CodeOf(Do(PlanKind::kDeleteNetwork, plan)), "FailedPrecondition");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_NAIVE(NaiveDeleteTakes("web"));
}

}  // namespace
}  // namespace mountd::testing
