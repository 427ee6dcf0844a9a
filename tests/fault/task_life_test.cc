// SPDX-License-Identifier: LGPL-2.1-or-later
//
// An agent without privilege runs a task on a volume, mounts and a network of
// mountd, and a step of mountd, an executor or mountd-csi fails or is its
// process's last, at any time from the preparation of the allocation to its
// release. The same call is then right, the task begins once, and in the end
// nothing is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/fault/plausible_errors.h"
#include "tests/fault/task_world.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

struct Cut {
  StepAction action = StepAction::kCount;
  std::string step;      // only steps of this name count
  std::uint32_t at = 0;  // from 1
  int error = 0;
};

bool IsEachStepWanted() { return std::getenv("MOUNTD_EACH_STEP") != nullptr; }

// mountd asks a plugin how it is in its own time, and SQLite writes to the file
// of a store at a checkpoint of its own. A life may have neither.
bool IsOfNoLife(const std::string& name) {
  static const std::set<std::string> kNames = {"rpc Probe", "rpc NodeGetInfo",
                                               "plan InspectPluginSocket"};
  return kNames.contains(name) ||
         (name.starts_with("store ") && name.ends_with(".db"));
}

class TaskLife : public TaskWorld,
                 public ::testing::WithParamInterface<StepProcess> {
 protected:
  static StepProcess process() { return GetParam(); }

  // Lives once without a fault, and counts the steps of each name.
  void FindSteps();
  // Makes each call of a life until it succeeds. True if the step was reached.
  bool Live(const Cut& cut);
  void MakeUntilOk(const TaskCall& call, const Cut& cut);
  // Lives until one has reached the step, because their numbers vary.
  void CutOff(Cut cut);
  std::vector<Cut> CutsOf(const std::string& name);
  std::vector<std::uint32_t> PlacesOf(const std::string& name) const;

  std::map<std::string, std::uint32_t> steps_;
  std::map<std::string, std::map<std::string, int>> by_call_;
  std::optional<World::State> before_;
  std::mt19937 random_;
  std::size_t names_ = 0;  // whose cuts were chosen
};

void TaskLife::MakeUntilOk(const TaskCall& call, const Cut& cut) {
  std::string told = Make(call);
  const std::string step = world_->steps().FiredStep();
  SCOPED_TRACE(call.name + ", " + NameOf(cut.action) + " at " + cut.step + " " +
               std::to_string(cut.at) + " (" + step + "), error " +
               std::to_string(cut.error) + ", told " + told);
  if (told != "Ok" && !step.empty()) {
    EXPECT_TRUE(IsTruthful(told.substr(0, told.find(' ')), cut.action, step));
    EXPECT_TRUE(Eventually([&] {
      told = Make(call);
      return told == "Ok";
    })) << told;
  }
  EXPECT_EQ(told, "Ok");
  // A shim ends after its answer.
  std::string missing;
  Eventually([&] {
    missing = call.missing();
    return missing.empty();
  });
  EXPECT_EQ(missing, "");
}

bool TaskLife::Live(const Cut& cut) {
  world_->steps().Arm(process(), cut.action, cut.at, cut.error, cut.step);
  for (const TaskCall& call : Life()) {
    MakeUntilOk(call, cut);
    if (HasFailure()) {
      break;
    }
  }
  world_->steps().Disarm();
  ForgetBeginning();
  if (before_ && !HasFailure()) {
    SCOPED_TRACE(std::string(NameOf(cut.action)) + " at " + cut.step + " " +
                 std::to_string(cut.at));
    EXPECT_EQ(World::DifferenceTo(*before_), "");
  }
  return world_->steps().Fired();
}

void TaskLife::FindSteps() {
  ASSERT_NO_FATAL_FAILURE(Live({}));
  ASSERT_FALSE(HasFailure());
  before_ = World::TakeSettled();
  for (const TaskCall& call : Life()) {
    world_->steps().Arm(process(), StepAction::kCount);
    MakeUntilOk(call, {});
    world_->steps().Disarm();
    for (const std::string& name : world_->steps().Names()) {
      ++steps_[name];
      ++by_call_[call.name][name];
    }
  }
  ForgetBeginning();
  for (const auto& [call, names] : by_call_) {
    std::cout << NameOf(process()) << " in " << call << ":";
    for (const auto& [name, count] : names) {
      std::cout << " " << name << " " << count << ",";
    }
    std::cout << std::endl;
  }
}

// A search has a thousand steps that are the same. The first dozen, each that
// is half as far again as the one before, and the last stand for all.
std::vector<std::uint32_t> TaskLife::PlacesOf(const std::string& name) const {
  constexpr std::uint32_t kEach = 12;
  const std::uint32_t last = steps_.at(name);
  std::vector<std::uint32_t> places;
  for (std::uint32_t at = 1; at < last; at += at < kEach ? 1 : at / 2) {
    places.push_back(at);
  }
  places.push_back(last);
  return places;
}

// With MOUNTD_EACH_STEP, which the nightly run sets, each action at each place.
// Else one action at the first, the last or another step of that name, so that
// three seeds have all three actions.
std::vector<Cut> TaskLife::CutsOf(const std::string& name) {
  const std::vector<StepAction> actions = {
      StepAction::kKillBefore, StepAction::kKillAfter, StepAction::kFail};
  const std::vector<int> errors = PlausibleErrors(process(), name);
  EXPECT_FALSE(errors.empty()) << name;
  const auto error = [&] {
    return errors.empty() ? EIO : errors[random_() % errors.size()];
  };
  const std::size_t nth = names_++;
  if (!IsEachStepWanted()) {
    const std::uint32_t last = steps_.at(name);
    const std::vector<std::uint32_t> spread = {
        1, last, 1 + static_cast<std::uint32_t>(random_() % last)};
    return {{actions[nth % actions.size()], name,
             spread[nth / actions.size() % spread.size()], error()}};
  }
  std::vector<Cut> cuts;
  for (const std::uint32_t at : PlacesOf(name)) {
    for (const StepAction action : actions) {
      if (action != StepAction::kKillAfter || !OnlyLooks(name)) {
        cuts.push_back({action, name, at, error()});
      }
    }
  }
  return cuts;
}

void TaskLife::CutOff(Cut cut) {
  constexpr int kMostLives = 5;
  for (int i = 0; i < kMostLives; ++i) {
    if (Live(cut) || HasFailure()) {
      return;
    }
    const auto came =
        static_cast<std::uint32_t>(world_->steps().Names().size());
    cut.at = came == 0 ? cut.at : std::min(cut.at, came);
  }
  EXPECT_TRUE(IsOfNoLife(cut.step)) << "no life had " << cut.step << " again";
}

TEST_P(TaskLife, GoesOnWhicheverStepIsTheLast) {
  const std::uint64_t seed =
      NumberOf("MOUNTD_FAULT_SEED", std::random_device()());
  std::cout << "MOUNTD_FAULT_SEED=" << seed << std::endl;
  SCOPED_TRACE("MOUNTD_FAULT_SEED=" + std::to_string(seed));
  random_.seed(seed);
  names_ = seed % 9;
  ASSERT_NO_FATAL_FAILURE(FindSteps());
  ASSERT_FALSE(HasFailure());
  std::size_t cuts = 0;
  for (const auto& [name, count] : steps_) {
    for (const Cut& cut : CutsOf(name)) {
      CutOff(cut);
      ASSERT_FALSE(HasFailure());
      ++cuts;
    }
  }
  std::cout << NameOf(process()) << ": " << steps_.size() << " names, " << cuts
            << " cuts" << std::endl;
  EXPECT_GE(cuts, steps_.size());
}

INSTANTIATE_TEST_SUITE_P(Of, TaskLife,
                         ::testing::Values(StepProcess::kMountd,
                                           StepProcess::kExecutor,
                                           StepProcess::kCsi),
                         [](const auto& test) {
                           std::string name = NameOf(test.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace mountd::testing
