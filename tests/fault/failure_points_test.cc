// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Interrupts each operation of the API at each of its steps, in each process,
// on the real kernel: the step fails, or the process is killed right before or
// right after it. Some steps stand for all those that repeat. The caller must
// get a true answer, the same call must then succeed, and nothing may be left
// after the release.
//
// Writes a line of JSON for each operation and process into
// MOUNTD_FAULT_REPORTS, where coverage_test.py looks for steps that were not
// covered.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/fault/fault_fixture.h"
#include "tests/fault/operations.h"
#include "tests/fault/plausible_errors.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

using Json = nlohmann::json;

struct Fault {
  StepAction action = StepAction::kCount;
  std::uint32_t at = 0;
  int error = 0;
  std::string only;  // the step's name, if `at` counts steps of that name
};

class FailurePoints : public FaultFixture,
                      public ::testing::WithParamInterface<
                          std::tuple<std::size_t, StepProcess>> {
 protected:
  void SetUp() override {
    FaultFixture::SetUp();
    if (world_) {
      agent_.emplace(*world_, "web");
    }
  }
  void TearDown() override {
    agent_.reset();
    FaultFixture::TearDown();
  }

  const Operation& operation() const {
    return AllOperations()[std::get<0>(GetParam())];
  }
  StepProcess process() const { return std::get<1>(GetParam()); }

  void Prepare() {
    ASSERT_TRUE(Eventually([&] {
      return operation().prepare(*agent_) == "Ok";
    })) << agent_->told();
  }
  // Repeats the call until it succeeds.
  void Finish() {
    ASSERT_TRUE(Eventually([&] {
      ++calls_;
      return operation().call(*agent_) == "Ok";
    })) << agent_->told();
    EXPECT_EQ(operation().missing(*agent_), "");
  }
  void TakeBack() {
    ASSERT_EQ(agent_->Release(), "");
    if (operation().undo) {
      ASSERT_TRUE(Eventually([&] { return operation().undo(*agent_) == "Ok"; }))
          << agent_->told();
    }
  }
  void Release() {
    ASSERT_NO_FATAL_FAILURE(TakeBack());
    ASSERT_EQ(World::DifferenceTo(before_), "");
  }
  // Makes and undoes the operation, and records the state that every later run
  // must return to.
  void TakeBaseline() {
    ASSERT_NO_FATAL_FAILURE(Prepare());
    ASSERT_NO_FATAL_FAILURE(Finish());
    ASSERT_NO_FATAL_FAILURE(TakeBack());
    before_ = World::TakeSettled();
  }

  // Makes one call with that fault, and checks everything that must be true
  // then. True if the step was reached.
  bool CutOff(const Fault& fault);
  void CutOffEverywhere(StepAction action);

  std::optional<Agent> agent_;
  World::State before_;
  std::vector<std::string> steps_;  // of an undisturbed call
  std::string reached_;             // the step of the last fault
  int calls_ = 0;                   // until the operation succeeded
  std::map<std::string, std::map<std::string, int>> runs_;    // by step, action
  std::map<std::string, std::map<std::string, int>> told_;    // by step, answer
  std::map<std::string, std::map<std::string, int>> errors_;  // by step, errno
};

bool FailurePoints::CutOff(const Fault& fault) {
  Prepare();
  world_->steps().Arm(process(), fault.action, fault.at, fault.error,
                      fault.only);
  const std::string told = operation().call(*agent_);
  world_->steps().Disarm();
  const bool reached = world_->steps().Fired();
  if (reached) {
    reached_ = world_->steps().FiredStep();
  }
  SCOPED_TRACE(std::string(NameOf(fault.action)) + " at step " +
               std::to_string(fault.at) + " (" + world_->steps().FiredStep() +
               "), error " + std::to_string(fault.error) + ", told " + told);
  // The fault may have hit another step than the counted one if more steps came
  // first, and then has an error of another step.
  const std::vector<int> errors = PlausibleErrors(process(), reached_);
  const bool is_of_step =
      fault.action != StepAction::kFail ||
      std::find(errors.begin(), errors.end(), fault.error) != errors.end();
  EXPECT_TRUE(!is_of_step || IsTruthful(told, fault.action, reached_))
      << agent_->told();
  // An RPC that got the errno of another step, EIO for one, has answered
  // NOT_FOUND without having deleted the volume.
  if (told == "Ok" && is_of_step) {
    std::string missing;
    // mountd is away if the fault hit a step of its own after the answer.
    Eventually([&] {
      missing = operation().missing(*agent_);
      return missing.find("Unavailable") == std::string::npos;
    });
    EXPECT_EQ(missing, "");
  }
  std::string contradiction;
  EXPECT_TRUE(Eventually([&] {
    contradiction = agent_->Contradiction();
    return contradiction.empty();
  })) << contradiction;
  calls_ = 0;
  Finish();
  Release();
  if (reached) {
    ++runs_[reached_][NameOf(fault.action)];
    if (fault.action == StepAction::kFail && is_of_step) {
      const char* name = ::strerrorname_np(fault.error);
      ++errors_[reached_][name != nullptr ? name : std::to_string(fault.error)];
    }
    ++told_[reached_][told];
  }
  return reached;
}

// How often a repeated step is interrupted in each process, and how many steps
// that end with this one must have come before, so that this one is a repeated
// one.
struct Repeats {
  int most;
  std::uint32_t steps;
};
constexpr Repeats kRepeats = {3, 5};
// Steps that only read are most of all. MOUNTD_EACH_STEP, which the nightly run
// sets, interrupts them as often as the others.
constexpr Repeats kRepeatsOfLooks = {1, 3};
// How many steps beyond the counted ones are tried.
constexpr std::uint32_t kMoreSteps = 16;
// How many first steps of a searching executor are all interrupted. Each later
// step is half as far again as the one before, or the first of its name.
constexpr std::uint32_t kEachOfASearch = 12;

// Returns the errors for the `nth` step of that name, counted from 0. The
// kernel's calls are many, so only the first call fails with each error, and
// each later one with the next error.
std::vector<int> ErrorsAt(StepProcess process, const std::string& step,
                          std::size_t nth) {
  std::vector<int> errors = PlausibleErrors(process, step);
  if (process == StepProcess::kExecutor && nth > 0 && !errors.empty()) {
    errors = {errors[nth % errors.size()]};
  }
  return errors;
}

bool IsEachStepWanted() { return std::getenv("MOUNTD_EACH_STEP") != nullptr; }

void FailurePoints::CutOffEverywhere(StepAction action) {
  std::map<std::vector<std::string>, int> seen;
  std::map<std::string, std::size_t> met;
  std::uint32_t sample =
      1;  // the next step of a search, unless a new name comes
  for (std::uint32_t k = 1;; ++k) {
    const std::string expected = k <= steps_.size() ? steps_[k - 1] : "";
    const bool is_new = k <= steps_.size() && !met.contains(expected);
    const bool looks = process() == StepProcess::kExecutor &&
                       OnlyLooks(expected) && !IsEachStepWanted();
    if (k <= steps_.size()) {
      const Repeats& repeats = looks ? kRepeatsOfLooks : kRepeats;
      const auto end = steps_.begin() + k;
      if (++seen[{end - std::min(k, repeats.steps), end}] > repeats.most) {
        continue;
      }
    }
    if (looks && action == StepAction::kKillAfter && !is_new) {
      continue;
    }
    const std::string only = is_new ? expected : "";
    if (operation().searches && process() == StepProcess::kExecutor) {
      if (k < sample && k <= steps_.size() && !is_new) {
        continue;
      }
      if (k >= sample) {
        sample = k < kEachOfASearch ? k + 1 : k + k / 2;
      }
    }
    std::vector<int> errors = ErrorsAt(process(), expected, met[expected]++);
    if (action != StepAction::kFail || errors.empty()) {
      errors = {EIO};
    }
    bool reached = false;
    for (const int error : errors) {
      // The number of a step varies from run to run, so the first step of a
      // name is counted among the steps of that name.
      reached = CutOff({action, is_new ? 1 : k, error, only}) || reached;
      ASSERT_FALSE(HasFailure());
    }
    // The number of steps varies, because mountd also asks plugins by itself.
    if (k > steps_.size() && (!reached || k > steps_.size() + kMoreSteps)) {
      return;
    }
    // Every step needs plausible errors.
    ASSERT_TRUE(!reached || !PlausibleErrors(process(), reached_).empty())
        << reached_;
  }
}

TEST_P(FailurePoints, AreAllSurvived) {
  ASSERT_NO_FATAL_FAILURE(TakeBaseline());
  Prepare();
  world_->steps().Arm(process(), StepAction::kCount);
  Finish();
  world_->steps().Disarm();
  steps_ = world_->steps().Names();
  ASSERT_NO_FATAL_FAILURE(Release());
  for (const StepAction action :
       {StepAction::kFail, StepAction::kKillBefore, StepAction::kKillAfter}) {
    ASSERT_NO_FATAL_FAILURE(CutOffEverywhere(action));
  }
  Json line = {{"operation", operation().name},
               {"method", operation().method},
               {"process", NameOf(process())},
               {"steps", steps_.size()},
               {"runs", runs_},
               {"errors", errors_},
               {"told", told_}};
  Report(operation().name + "-" + NameOf(process()) + ".json").Add(line);
}

std::vector<std::size_t> Indices() {
  std::vector<std::size_t> all(AllOperations().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Of, FailurePoints,
    ::testing::Combine(::testing::ValuesIn(Indices()),
                       ::testing::Values(StepProcess::kMountd,
                                         StepProcess::kExecutor,
                                         StepProcess::kCsi)),
    [](const auto& test) {
      std::string name = AllOperations()[std::get<0>(test.param)].name + "_" +
                         NameOf(std::get<1>(test.param));
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace mountd::testing
