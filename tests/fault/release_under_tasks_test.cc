// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A release goes on although a task has a copy of a volume, and mountd or an
// executor is killed at each of its steps. No receipt may say that the volume
// is detached while the task can write to it. Once the task cannot, a receipt
// must say so.
#include <gtest/gtest.h>

#include "tests/fault/fault_fixture.h"
#include "tests/support/copying_task.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using agent::OnTasks;

class ReleaseUnderTasks : public FaultFixture,
                          public ::testing::WithParamInterface<
                              std::tuple<StepProcess, StepAction>> {
 protected:
  StepProcess process() const { return std::get<0>(GetParam()); }
  StepAction action() const { return std::get<1>(GetParam()); }

  std::string Publish(Agent& agent, std::string* path) {
    agent::VolumeSpec spec;
    spec.alias = "data";
    spec.volume = agent.volume();
    spec.plugin = World::kPlugin;
    if (std::string told =
            agent.Told(agent.client().PrepareAllocation(agent.allocation()));
        told != "Ok") {
      return told;
    }
    const auto published =
        agent.client().PublishVolume(agent.allocation(), spec);
    if (published) {
      *path = published->host_path;
    }
    return agent.Told(published);
  }
  // True if there is a receipt that says the volume is detached.
  static bool IsToldDetached(Agent& agent) {
    Result<agent::Receipt> receipt =
        agent.client().GetReceipt(agent.allocation());
    EXPECT_TRUE(Eventually([&] {
      if (agent.Told(receipt) == "Unavailable") {
        receipt = agent.client().GetReceipt(agent.allocation());
        return false;
      }
      return true;
    }));
    EXPECT_TRUE(receipt || agent.Told(receipt) == "NotFound") << agent.told();
    return receipt && receipt->node_detached;
  }
  // True if step `at` was reached.
  bool CutOff(std::uint32_t at);
};

bool ReleaseUnderTasks::CutOff(std::uint32_t at) {
  Agent agent(*world_, "web");
  std::string path;
  EXPECT_TRUE(Eventually([&] { return Publish(agent, &path) == "Ok"; }))
      << agent.told();
  CopyingTask task(path, CopyingTask::Kind::kPrivate);
  EXPECT_GT(task.pid(), 0);
  world_->steps().Arm(process(), action(), at, EIO);
  agent.Told(
      agent.client().ReleaseAllocation(agent.allocation(), OnTasks::kIgnore));
  world_->steps().Disarm();
  const bool reached = world_->steps().Fired();
  SCOPED_TRACE("step " + std::to_string(at) + " " +
               world_->steps().FiredStep());
  EXPECT_FALSE(IsToldDetached(agent));
  EXPECT_TRUE(Eventually([&] {
    return agent.Told(agent.client().ReleaseAllocation(
               agent.allocation(), OnTasks::kIgnore)) == "Ok";
  })) << agent.told();
  EXPECT_FALSE(IsToldDetached(agent));
  EXPECT_EQ(task.Write("late"), 0);
  task.End();
  // The administrator's call saves the pause until mountd retries by itself.
  EXPECT_TRUE(Eventually([&] {
    agent.Told(agent.root().RetryOwed());
    return IsToldDetached(agent);
  }));
  EXPECT_EQ(agent.Release(), "");
  return reached;
}

TEST_P(ReleaseUnderTasks, AreNeverToldAsDetached) {
  EXPECT_NAIVE(
      NaiveReleaseLosesData("/run/host/a", CopyingTask::Kind::kPrivate));
  std::uint32_t cut_off = 0;
  for (std::uint32_t at = 1; CutOff(at); ++at, ++cut_off) {
    ASSERT_FALSE(HasFailure());
    // An executor's search has a step for each file of each process.
    if (process() == StepProcess::kExecutor && at > 40) {
      at += at / 4;
    }
  }
  EXPECT_GT(cut_off, 5U) << "the release was hardly cut off";
}

INSTANTIATE_TEST_SUITE_P(
    Of, ReleaseUnderTasks,
    ::testing::Combine(
        ::testing::Values(StepProcess::kMountd, StepProcess::kExecutor),
        ::testing::Values(StepAction::kKillBefore, StepAction::kKillAfter)),
    [](const auto& test) {
      std::string name = std::string(NameOf(std::get<0>(test.param))) + "_" +
                         NameOf(std::get<1>(test.param));
      std::erase(name, '-');
      std::erase(name, ' ');
      return name;
    });

}  // namespace
}  // namespace mountd::testing
