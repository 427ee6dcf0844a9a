// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/root/attacker.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/root/unshared.h"
#include "tests/support/net_probe.h"

// Networks in given and existing namespaces, and repairs: every kernel call
// fails once, or is the last that the executor makes.
namespace mountd::testing {
namespace {

using exec::NamespaceOrigin;
using exec::NetworkPlan;
using exec::PlanKind;
using exec::Reply;

class NetworkFailurePoints : public Networks {
 protected:
  // Runs `try_it` again and again. Each time the k-th kernel call fails, or is
  // the last; `after` then checks what is left.
  void AtEachCall(const std::function<Reply()>& try_it, bool killed,
                  const std::function<void(const Reply&)>& after) {
    if (killed) {
      return CutOffEach(try_it, 0, after);
    }
    for (const int error : exec::kErrorsOfAnyCall) {
      CutOffEach(try_it, error, after);
    }
  }
  // Makes each call fail with `error`; 0 kills the executor there.
  void CutOffEach(const std::function<Reply()>& try_it, int error,
                  const std::function<void(const Reply&)>& after) {
    bool reached = true;
    for (std::size_t k = 1; reached && !HasFailure(); ++k) {
      error == 0 ? kernel_.DieAt(k) : kernel_.FailAt(k, error);
      const Reply reply = try_it();
      reached = kernel_.calls().size() >= k;
      SCOPED_TRACE((error == 0 ? "killed" : "errno " + std::to_string(error)) +
                   " at call " + std::to_string(k) + ": " +
                   (reached ? kernel_.calls()[k - 1] : "none"));
      kernel_.FailAt(0, 0);
      after(reply);
    }
  }
  void ExpectTraffic(const char* address) {
    const Server server(kWebNetns, 80, "hello");
    EXPECT_EQ(Ask(address, 80), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
  }
  // Deletes what a refused or interrupted plan has left. The second plan
  // deletes the link at once.
  void DeleteTwice(const NetworkPlan& plan) {
    Delete(plan);
    Delete(plan);
  }
};

// ---- List ----

TEST_F(NetworkFailurePoints, AListIsWholeOrAnError) {
  const auto list = [&]() -> std::vector<exec::FoundNetwork> {
    std::vector<exec::FoundNetwork> rows(8);
    const ssize_t size =
        ::pread(last_fd_.get(), rows.data(), sizeof(rows[0]) * rows.size(), 0);
    rows.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)) /
                sizeof(rows[0]));
    return rows;
  };
  NetworkPlan alone;
  alone.allocation = exec::ToWire("db");
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, alone)), "");
  ASSERT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, Plan("web", 2, 18080))), "");
  AtEachCall([this] { return Call(PlanKind::kListNetworks); }, false,
             [&](const Reply& reply) {
               if (reply.code == 0) {
                 EXPECT_EQ(list().size(), 2U);
               }
             });
  ASSERT_EQ(ErrorOf(Call(PlanKind::kListNetworks)), "");
  EXPECT_EQ(list().size(), 2U);
}

// ---- Hand out ----

TEST_F(NetworkFailurePoints, ANamespaceIsHandedOutOrAnError) {
  NetworkPlan open;
  open.allocation = exec::ToWire("web");
  open.origin = NamespaceOrigin::kExisting;
  open.netns_inode = Create(Plan("web", 2, 18080)).netns_inode;
  const Inventory before = Inventory::Take();
  AtEachCall(
      [&] {
        last_fd_.reset();
        return Do(PlanKind::kOpenNamespace, open);
      },
      false,
      [&](const Reply& reply) {
        EXPECT_EQ(reply.code == 0, last_fd_.valid());
        last_fd_.reset();
        EXPECT_EQ(Difference(before, Inventory::Take()), "");
      });
  EXPECT_EQ(ErrorOf(Do(PlanKind::kOpenNamespace, open)), "");
}

// ---- Prepare ----

TEST_F(NetworkFailurePoints, APreparationIsFinishedByTheNext) {
  const auto prepare = [this] {
    return Call(PlanKind::kPrepareNetworks,
                [](exec::PlanBody* body) { body->prepare_networks = {1}; });
  };
  const auto forget = [] { Shell("sysctl -qw net.ipv4.ip_forward=0"); };
  for (const bool killed : {false, true}) {
    forget();
    AtEachCall(prepare, killed, [&](const Reply&) {
      EXPECT_EQ(ErrorOf(prepare()), "");
      EXPECT_EQ(DifferenceWithin(before_, 20), "");
      forget();
    });
  }
  EXPECT_EQ(ErrorOf(prepare()), "");
  Create(Plan("web", 2, 18080));
  ExpectTraffic("10.88.0.2");
  ExpectFailed({"ReadSetting", "RunNft", "WriteSetting"});
}

// ---- Delete ----

// An element whose deletion got no answer may still exist.
TEST_F(NetworkFailurePoints, ADeleteThatLosesAnAnswerIsNotDone) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  Create(plan);
  CutOffEach([&] { return Do(PlanKind::kDeleteNetwork, plan); }, EAGAIN,
             [&](const Reply& reply) {
               if (reply.code == 0) {
                 EXPECT_EQ(DifferenceWithin(before_, 20), "");
               }
               DeleteTwice(plan);
               EXPECT_EQ(DifferenceWithin(before_, 20), "");
               Create(plan);
             });
  DeleteTwice(plan);
}

// ---- Create ----

// The way in which a plan gets its namespace.
struct Home {
  const char* name;
  NamespaceOrigin origin;
  bool alone;
};

class NetworkCreateFailurePoints : public NetworkFailurePoints,
                                   public ::testing::WithParamInterface<Home> {
 protected:
  void SetUp() override {
    NetworkFailurePoints::SetUp();
    if (IsSkipped()) {
      return;
    }
    plan_ = GetParam().alone ? Alone() : Plan("web", 2, 18080);
    plan_.origin = GetParam().origin;
    if (plan_.origin == NamespaceOrigin::kGiven) {
      Give();
    } else if (plan_.origin == NamespaceOrigin::kExisting) {
      plan_.netns_inode = Create(Alone()).netns_inode;
    }
    before_ = Inventory::Take();
  }

  static NetworkPlan Alone() {
    NetworkPlan plan;
    plan.allocation = exec::ToWire("web");
    return plan;
  }
  void Give() {
    given_ = UsersNetns(kAttacker);
    if (!given_.valid()) {
      GTEST_SKIP() << "an ordinary user may make no user namespaces";
    }
    plan_.netns_inode = real_.Stat(given_.get(), "")->inode;
    plan_.owner_uid = kAttacker;
  }
  Reply TryCreate() {
    if (given_.valid()) {
      fds_.emplace_back(::fcntl(given_.get(), F_DUPFD_CLOEXEC, 0));
    }
    Reply reply = Do(PlanKind::kCreateNetwork, plan_);
    fds_.clear();
    return reply;
  }
  void ExpectNothingLeft() { EXPECT_EQ(DifferenceWithin(before_, 20), ""); }
  void ExpectItWorks() {
    if (!GetParam().alone) {
      ExpectTraffic("10.88.0.2");
    }
  }
  NetworkPlan plan_;
  UniqueFd given_;
};

TEST_P(NetworkCreateFailurePoints,
       AFailureLeavesNothingAndTheSamePlanSucceeds) {
  ASSERT_EQ(ErrorOf(TryCreate()), "");
  ExpectItWorks();
  DeleteTwice(plan_);
  ExpectNothingLeft();
  AtEachCall(
      [this] { return TryCreate(); }, false,
      [this](const Reply& first) {
        if (first.code != 0) {
          ExpectNothingLeft();
          // No errno of the machine's is a word about the caller's file.
          EXPECT_NE(static_cast<Code>(first.code), Code::kInvalidArgument)
              << ErrorOf(first);
          EXPECT_EQ(ErrorOf(TryCreate()), "");
        }
        ExpectItWorks();
        DeleteTwice(plan_);
        ExpectNothingLeft();
      });
  if (GetParam().origin == NamespaceOrigin::kGiven) {
    ExpectFailed({"NamespaceTypeOf", "OpenNetlinkIn", "OwnerOf", "OwnerUidOf"});
  }
}

TEST_P(NetworkCreateFailurePoints, AKillLeavesWhatTheNextDeleteTakes) {
  AtEachCall([this] { return TryCreate(); }, true,
             [this](const Reply&) {
               DeleteTwice(plan_);
               ExpectNothingLeft();
               EXPECT_EQ(ErrorOf(TryCreate()), "");
               DeleteTwice(plan_);
               ExpectNothingLeft();
             });
}

TEST_P(NetworkCreateFailurePoints, ADeleteThatWasCutOffIsFinishedByTheNext) {
  for (const bool killed : {false, true}) {
    EXPECT_EQ(ErrorOf(TryCreate()), "");
    AtEachCall([this] { return Do(PlanKind::kDeleteNetwork, plan_); }, killed,
               [this](const Reply&) {
                 DeleteTwice(plan_);
                 ExpectNothingLeft();
                 EXPECT_EQ(ErrorOf(TryCreate()), "");
               });
    DeleteTwice(plan_);
    ExpectNothingLeft();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, NetworkCreateFailurePoints,
    ::testing::Values(
        Home{"ANewNamespaceAlone", NamespaceOrigin::kNew, true},
        Home{"ANewNamespace", NamespaceOrigin::kNew, false},
        Home{"AGivenNamespace", NamespaceOrigin::kGiven, false},
        Home{"AGivenNamespaceAlone", NamespaceOrigin::kGiven, true},
        Home{"AnExistingNamespace", NamespaceOrigin::kExisting, false}),
    [](const auto& each) { return std::string(each.param.name); });

// ---- Repair ----

struct Broken {
  const char* name;
  const char* command;  // "@" stands for the host end
};

class NetworkRepairFailurePoints
    : public NetworkFailurePoints,
      public ::testing::WithParamInterface<Broken> {
 protected:
  void SetUp() override {
    NetworkFailurePoints::SetUp();
    if (!IsSkipped()) {
      plan_.netns_inode = Create(plan_).netns_inode;
      made_ = Inventory::Take();
    }
  }
  Reply Repair() { return Do(PlanKind::kRepairNetwork, plan_); }
  void Break() {
    std::string command = GetParam().command;
    for (std::size_t at = 0; (at = command.find('@')) != std::string::npos;) {
      command.replace(at, 1, LinkOf(plan_));
    }
    Shell(command);
  }
  void RepairWhatIsLeft(bool killed) {
    Break();
    AtEachCall([this] { return Repair(); }, killed,
               [this](const Reply&) {
                 EXPECT_EQ(ErrorOf(Repair()), "");
                 const Reply again = Repair();
                 EXPECT_EQ(ErrorOf(again), "");
                 EXPECT_EQ(again.body.network.repaired, 0U);
                 EXPECT_EQ(again.body.network.elements_present, 1U);
                 ExpectTraffic("10.88.0.2");
                 ExpectTraffic("fd88::2");
                 EXPECT_EQ(
                     DifferenceWithin(made_, 20, Counted::kAllButConnections),
                     "");
                 Break();
               });
    EXPECT_EQ(ErrorOf(Repair()), "");
  }

  NetworkPlan plan_ = Plan("web", 2, 18080);
  Inventory made_;
};

TEST_P(NetworkRepairFailurePoints, TheNextRepairFinishesAFailedOne) {
  RepairWhatIsLeft(false);
}

TEST_P(NetworkRepairFailurePoints, TheNextRepairFinishesAKilledOne) {
  RepairWhatIsLeft(true);
}

TEST_P(NetworkRepairFailurePoints, ADeleteTakesWhatAKilledOneLeft) {
  bool reached = true;
  for (std::size_t k = 1; reached && !HasFailure(); ++k) {
    SCOPED_TRACE(k);
    Break();
    kernel_.DieAt(k);
    Repair();
    reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    DeleteTwice(plan_);
    EXPECT_EQ(DifferenceWithin(before_, 20), "");
    plan_.netns_inode = 0;
    plan_.netns_inode = Create(plan_).netns_inode;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, NetworkRepairFailurePoints,
    ::testing::Values(
        Broken{"TheLink", "ip link del @"},
        Broken{"TheHostEnd", "ip link set @ down"},
        Broken{"TheInside", "ip -n web link set eth0 down"},
        Broken{"TheElements",
               "nft 'flush map inet mountd pm4; flush set inet mountd src6'"},
        Broken{"AllOfIt",
               "ip link del @ && nft flush map inet mountd pm4 && "
               "nft flush set inet mountd open"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace mountd::testing
