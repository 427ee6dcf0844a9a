// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Executors stop (SIGSTOP) at a step of an operation of the API. The call ends
// by the plan's deadline, mountd reports the executor, and other calls are
// served. Whenever the stopped executor goes on, the node has at the end what
// mountd has recorded. Some steps of each operation are sampled:
//
//   MOUNTD_FAULT_SEED  seed of the random numbers; it is printed
#include <gtest/gtest.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/fault/fault_fixture.h"
#include "tests/fault/operations.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/stopped.h"

namespace mountd::testing {
namespace {

constexpr std::uint32_t kStops = 4;  // of each operation: one for each Wakes

// When the stopped executor goes on.
enum class Wakes : std::uint32_t {
  kFirst,  // before the same call is made again
  kLast,   // after the same call has succeeded
  kWhenReleased,
  kNever,  // so mountd loses patience and kills it
};

class Stops : public FaultFixture,
              public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    FaultFixture::SetUp();
    if (world_) {
      agent_.emplace(*world_, "web");
      other_.emplace(*world_, "db");
    }
  }
  void TearDown() override {
    for (const UniqueFd& process : stopped_) {
      Send(process, SIGCONT);
    }
    agent_.reset();
    other_.reset();
    FaultFixture::TearDown();
  }
  std::string Timeouts() const override { return "plan_ms = 500\n"; }

  const Operation& operation() const {
    return AllOperations()[IndexOf(GetParam())];
  }
  void Prepare() {
    ASSERT_TRUE(Eventually([&] {
      return operation().prepare(*agent_) == "Ok";
    })) << agent_->told();
  }
  void Finish() {
    ASSERT_TRUE(Eventually([&] { return operation().call(*agent_) == "Ok"; }))
        << agent_->told();
    EXPECT_EQ(operation().missing(*agent_), "");
  }
  void Release() {
    ASSERT_EQ(agent_->Release(), "");
    ASSERT_TRUE(Eventually([&] {
      return !operation().undo || operation().undo(*agent_) == "Ok";
    })) << agent_->told();
  }
  void Wake() {
    for (const UniqueFd& process : stopped_) {
      Send(process, SIGCONT);
    }
    ASSERT_TRUE(Eventually([&] { return HaveEnded(stopped_); }));
    stopped_.clear();
  }
  std::uint32_t Stuck() {
    const auto capabilities = agent_->client().GetCapabilities();
    return capabilities ? capabilities->stuck_executors : 0;
  }
  // Finds the stopped executors that have not been killed yet.
  void FindStopped() {
    for (UniqueFd& process : Node::Processes("mountd-exec")) {
      if (StateOf(PidOf(process)) == 'T') {
        stopped_.push_back(std::move(process));
      }
    }
  }
  bool OthersAreServed() {
    agent::Client& client = other_->client();
    return other_->Told(client.PrepareAllocation("db")) == "Ok" &&
           other_->Told(client.BindMount("db", HostVolumeSpec("d", "b"))) ==
               "Ok" &&
           other_->Release().empty();
  }
  // True if the stop ended the call.
  bool StopAt(std::uint32_t step, Wakes wakes);

  std::optional<Agent> agent_;
  std::optional<Agent> other_;
  std::vector<UniqueFd> stopped_;
  World::State before_;
  Report report_{"stops-" + GetParam() + ".jsonl"};
};

bool Stops::StopAt(std::uint32_t step, Wakes wakes) {
  Prepare();
  StepsControl& steps = world_->steps();
  steps.Arm(StepProcess::kExecutor, StepAction::kStop, step);
  const std::string told = operation().call(*agent_);
  const bool stopped = steps.Fired();
  steps.Disarm();
  report_.Add({{"operation", operation().name},
               {"step", steps.FiredStep()},
               {"told", told}});
  SCOPED_TRACE("stopped at step " + std::to_string(step) + " (" +
               steps.FiredStep() + "), told " + told);
  static const std::set<std::string> kTrue = {"Ok", "DeadlineExceeded",
                                              "Unavailable", "Busy"};
  EXPECT_TRUE(kTrue.contains(told)) << agent_->told();
  if (stopped) {
    // mountd kills a stopped executor once it has waited long enough.
    const bool told_of = Stuck() > 0;
    FindStopped();
    EXPECT_TRUE(told == "Ok" || told_of || stopped_.empty());
    EXPECT_TRUE(Eventually([&] { return OthersAreServed(); }))
        << other_->told();
  }
  if (wakes == Wakes::kFirst) {
    Wake();
  }
  if (wakes != Wakes::kWhenReleased) {
    Finish();
  }
  if (wakes == Wakes::kLast) {
    Wake();
    EXPECT_EQ(operation().missing(*agent_), "")
        << "the woken one undid what was made meanwhile";
  }
  Release();
  if (wakes != Wakes::kNever) {
    Wake();
  }
  EXPECT_TRUE(Eventually([&] { return Stuck() == 0; }));
  EXPECT_EQ(World::DifferenceTo(before_), "");
  stopped_.clear();
  return stopped && told == "DeadlineExceeded";
}

TEST_P(Stops, AreSurvived) {
  const std::uint32_t seed =
      NumberOf("MOUNTD_FAULT_SEED", std::random_device()());
  std::cout << "MOUNTD_FAULT_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  ASSERT_TRUE(OthersAreServed());
  Prepare();
  StepsControl& steps = world_->steps();
  const std::uint32_t before = steps.CountOf(StepProcess::kExecutor);
  Finish();
  const std::uint32_t count = steps.CountOf(StepProcess::kExecutor) - before;
  Release();
  before_ = World::TakeSettled();
  ASSERT_GT(count, 0U);
  // Steps of other calls come in between, so a step may not belong to this
  // call.
  std::uint32_t cut_off = 0;
  for (std::uint32_t i = 0;
       (i < kStops || cut_off == 0) && i < 10 * kStops && !HasFailure(); ++i) {
    const auto step = 1 + static_cast<std::uint32_t>(random()) % count;
    cut_off += StopAt(step, static_cast<Wakes>(i % 4)) ? 1U : 0U;
  }
  EXPECT_GT(cut_off, 0U) << "nothing that was stopped was of the call";
}

INSTANTIATE_TEST_SUITE_P(Of, Stops,
                         ::testing::Values("BindMountOfAHostVolume",
                                           "BindMountOfAFilesystem",
                                           "ReplaceMount", "PublishVolume",
                                           "UnpublishVolume", "SetupNetwork",
                                           "TeardownNetwork", "RegisterPlugin",
                                           "ReleaseAllocation"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mountd::testing
