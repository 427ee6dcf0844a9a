// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The methods that are no operation of failure_points_test, because they have
// no steps. While each is called, mountd makes no plan, no call of a plugin and
// no write of a store, and nothing changes.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "mountd/base/paths.h"
#include "tests/fault/fault_fixture.h"
#include "tests/fault/operations.h"
#include "tests/support/bus_client.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"

namespace mountd::testing {
namespace {

// Returns "Ok", or the error.
using Call = std::function<std::string(Agent&)>;

class ExcusedMethods : public FaultFixture {
 protected:
  void SetUp() override {
    FaultFixture::SetUp();
    if (!world_) {
      return;
    }
    agent_.emplace(*world_, "web");
    bus_ = test::BusClient::Connect(
        {.address = "unix:path=" + std::string(paths::kBusSocket),
         .uid = kAgentUid});
    ASSERT_NE(bus_, nullptr);
    // The node has one object of each kind that the methods report.
    agent::Client& client = agent_->client();
    ASSERT_EQ(agent_->Told(client.PrepareAllocation("old")), "Ok");
    ASSERT_EQ(agent_->Told(client.ReleaseAllocation("old")), "Ok");
    ASSERT_EQ(agent_->Told(client.PrepareAllocation("web")), "Ok");
    ASSERT_EQ(agent_->Told(client.BindMount("web", HostVolumeSpec("d", "a"))),
              "Ok");
    agent::VolumeSpec volume;
    volume.alias = "data";
    volume.volume = agent_->volume();
    volume.plugin = World::kPlugin;
    ASSERT_EQ(agent_->Told(client.PublishVolume("web", volume)), "Ok");
    before_ = World::TakeSettled();
  }
  void TearDown() override {
    bus_.reset();
    agent_.reset();
    FaultFixture::TearDown();
  }

  Call Raw(const char* method) {
    return [this, method](Agent&) {
      const test::Answer answer = bus_->Call(method, "a{sv}", 0);
      return answer.ok() ? "Ok" : answer.error + ": " + answer.message;
    };
  }
  std::map<std::string, Call> Calls();
  std::set<std::string> StepsNow() {
    const std::vector<std::string> names = world_->steps().Names();
    return {names.begin(), names.end()};
  }

  std::optional<Agent> agent_;
  std::unique_ptr<test::BusClient> bus_;
  World::State before_;
};

std::map<std::string, Call> ExcusedMethods::Calls() {
  const auto found = [](Agent& agent, const auto& answer, bool right) {
    const std::string told = agent.Told(answer);
    return told != "Ok" || right ? told : "another answer";
  };
  return {
      {"Subscribe", Raw("Subscribe")},
      {"Unsubscribe", Raw("Unsubscribe")},
      {"Cancel",
       [](Agent& agent) -> std::string {
         const std::string told = agent.Told(agent.client().Cancel("none"));
         return told == "NotFound" ? "Ok" : told;
       }},
      {"ListOperations",
       [&](Agent& agent) {
         return agent.Told(agent.client().ListOperations());
       }},
      {"GetStatistics",
       [=](Agent& agent) {
         const auto all = agent.root().GetStatistics();
         return found(agent, all, all && !all->empty());
       }},
      {"GetAllocation",
       [=](Agent& agent) {
         const auto status = agent.client().GetAllocation("web");
         return found(agent, status,
                      status && status->mounts.size() == 1 &&
                          status->volumes.size() == 1);
       }},
      {"ListAllocations",
       [=](Agent& agent) {
         const auto all = agent.client().ListAllocations();
         return found(agent, all, all && all->size() == 1);
       }},
      {"GetReceipt",
       [=](Agent& agent) {
         const auto receipt = agent.client().GetReceipt("old");
         return found(agent, receipt, receipt && receipt->node_detached);
       }},
      {"ListLeases",
       [=](Agent& agent) {
         const auto all = agent.client().ListLeases();
         return found(agent, all, all && all->empty());
       }},
      {"GetFence",
       [](Agent& agent) -> std::string {
         const std::string told = agent.Told(agent.client().GetFence("web"));
         return told == "NotFound" ? "Ok" : told;
       }},
      {"ListVolumes",
       [=](Agent& agent) {
         const auto all = agent.client().ListVolumes();
         return found(agent, all, all && all->size() == 1);
       }},
      {"GetPlugin",
       [=](Agent& agent) {
         const auto plugin = agent.client().GetPlugin(World::kPlugin);
         return found(agent, plugin, plugin && plugin->state == "healthy");
       }},
      {"ListPlugins",
       [=](Agent& agent) {
         const auto all = agent.client().ListPlugins();
         return found(agent, all, all && all->size() == 1);
       }},
      {"ListHostVolumes",
       [=](Agent& agent) {
         const auto all = agent.client().ListHostVolumes();
         return found(agent, all, all && all->size() == 2);
       }},
      {"ListFilesystems",
       [=](Agent& agent) {
         const auto all = agent.client().ListFilesystems();
         return found(agent, all, all && all->size() == 1);
       }},
      {"ListOwed",
       [=](Agent& agent) {
         const auto all = agent.client().ListOwed();
         return found(agent, all, all && all->empty());
       }},
  };
}

// Returns the steps that mountd makes by itself meanwhile to look after the
// plugin.
const std::set<std::string>& OfItsOwn() {
  static const std::set<std::string> names = {"rpc Probe",
                                              "plan InspectPluginSocket"};
  return names;
}

TEST_F(ExcusedMethods, MakeNoStepAndChangeNothing) {
  const std::map<std::string, Call> calls = Calls();
  for (const Uncounted& method : UncountedMethods()) {
    SCOPED_TRACE(method.method);
    // A method whose plan only reads names the test of that plan as its excuse.
    if (method.why.find("root/") != std::string::npos) {
      continue;
    }
    const auto call = calls.find(method.method);
    ASSERT_NE(call, calls.end()) << "nothing shows that it makes no step";
    world_->steps().Arm(StepProcess::kMountd, StepAction::kCount);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(call->second(*agent_), "Ok") << agent_->told();
    }
    world_->steps().Disarm();
    for (const std::string& step : StepsNow()) {
      EXPECT_TRUE(OfItsOwn().contains(step)) << step;
    }
  }
  bus_.reset();
  agent_->Disconnect();
  EXPECT_EQ(World::DifferenceTo(before_), "");
}

// The same check finds a method that does make steps.
TEST_F(ExcusedMethods, OneThatMakesAStepIsSeen) {
  world_->steps().Arm(StepProcess::kMountd, StepAction::kCount);
  EXPECT_EQ(agent_->Told(agent_->client().PrepareInbox("web", "other")), "Ok");
  world_->steps().Disarm();
  EXPECT_TRUE(StepsNow().contains("plan PrepareInbox"));
}

}  // namespace
}  // namespace mountd::testing
