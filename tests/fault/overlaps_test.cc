// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Operations of the API overlap on the real kernel, each on a connection of its
// own. The first is held at one of its steps while the others are called. Then
// the first goes on, fails at that step, or its process or its agent is killed.
// The operations, what they share, and the steps are sampled:
//
//   MOUNTD_FAULT_SEED   seed of the random numbers; it is printed
//   MOUNTD_FAULT_PAIRS  number of overlaps, of all shards together
//
// Each caller must get an answer that it could have got if one call had come
// after the other (overlap_oracle.h). Records and kernel must agree, the same
// calls must come to an end, and nothing may be left after the release.
//
// Writes a line of JSON for each overlap into MOUNTD_FAULT_REPORTS, where
// coverage_test.py counts them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fault/fault_fixture.h"
#include "tests/fault/operations.h"
#include "tests/fault/overlap_choice.h"
#include "tests/fault/overlap_oracle.h"
#include "tests/fault/plausible_errors.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

constexpr std::uint32_t kShards = 8;
constexpr std::uint32_t kPairs = 320;
// How long the others run at most while the first is held, because they may
// have to wait for it.
constexpr milliseconds kHeld{100};
constexpr StepProcess kProcesses[] = {
    StepProcess::kMountd, StepProcess::kExecutor, StepProcess::kCsi};

// Makes the first operation's call, in a thread or, if its agent is to die, in
// a process of its own.
class FirstCall {
 public:
  FirstCall(const Operation& operation, Agent& agent, bool dies) {
    if (!dies) {
      told_ =
          std::async(std::launch::async, [&] { return operation.call(agent); });
      return;
    }
    child_ = ::fork();
    if (child_ == 0) {
      agent.Disconnect();
      operation.call(agent);
      ::_exit(0);
    }
  }
  ~FirstCall() { Kill(); }
  FirstCall(const FirstCall&) = delete;
  FirstCall& operator=(const FirstCall&) = delete;

  bool HasEnded() {
    if (told_.valid()) {
      return told_.wait_for(milliseconds(0)) == std::future_status::ready;
    }
    if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) == child_) {
      child_ = -1;
    }
    return child_ < 0;
  }
  void Kill() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
      child_ = -1;
    }
  }
  // Returns the answer; "" if nobody gets it.
  std::string Told() {
    Kill();
    return told_.valid() ? told_.get() : "";
  }

 private:
  std::future<std::string> told_;
  pid_t child_ = -1;
};

// Returns one of so many steps. A search makes thousands of equal steps, so the
// first and last few are chosen more often, where its work begins and ends.
std::uint32_t PlaceOf(const Cut& cut, std::uint32_t count) {
  constexpr std::uint32_t kFew = 64;
  constexpr std::uint32_t kParts = 3;
  const std::uint32_t random = cut.where / kParts;
  const std::uint32_t few = std::min(count, kFew);
  switch (cut.where % kParts) {
    case 0:
      return 1 + random % few;
    case 1:
      return count - random % few;
    default:
      return 1 + random % count;
  }
}

class Overlaps : public FaultFixture,
                 public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  void TearDown() override {
    agents_.clear();
    FaultFixture::TearDown();
  }

  const Operation& operation(std::size_t i) const {
    return AllOperations()[overlap_.operations[i]];
  }
  Agent& agent(std::size_t i) { return *agents_[i]; }
  std::size_t size() const { return overlap_.operations.size(); }

  void TakeBaseline();
  // Prepares each operation, the first one last. False if that is impossible,
  // because the objects of one operation may be in another one's way.
  bool Prepare();
  void Release();
  std::string Call(std::size_t i) { return operation(i).call(agent(i)); }
  // Returns each caller's view once all have their answers.
  Outcome Look(const std::vector<std::string>& told);
  // Runs all cuts of the choice, until there were `enough` overlaps.
  void Do(const Overlap& overlap, std::uint32_t enough);
  std::array<std::uint32_t, kStepProcesses> Steps() const;
  // Makes some of the calls one after the other, and teaches the oracle their
  // outcome. False if they cannot be prepared.
  bool Sequence(const std::vector<std::size_t>& order);
  // Runs each order, and each operation alone.
  bool Learn();
  // True if the first operation was held.
  bool Run(const Cut& cut);
  // Makes the other calls while the first is held. Returns how many of them
  // ended before the first went on.
  std::size_t RunBeside(FirstCall& first, const Cut& cut,
                        std::vector<std::string>* told);
  void Resume(FirstCall& first, const Cut& cut);
  void CallAgain();

  Overlap overlap_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::optional<OverlapOracle> oracle_;
  // made by each in the last sequence
  std::vector<std::array<std::uint32_t, kStepProcesses>> steps_;
  StepProcess process_ = StepProcess::kNone;
  World::State before_;
  std::uint32_t overlaps_ = 0;
  Json lines_ = Json::array();
};

void Overlaps::TakeBaseline() {
  overlap_.operations.resize(1);
  for (const char* allocation : {"web", "db"}) {
    agents_.clear();
    agents_.push_back(std::make_unique<Agent>(*world_, allocation, "shared"));
    for (std::size_t i = 0; i < OverlappingOperations(); ++i) {
      SCOPED_TRACE(AllOperations()[i].name);
      overlap_.operations = {i};
      ASSERT_TRUE(Prepare());
      ASSERT_TRUE(Eventually([&] { return Call(0) == "Ok"; }))
          << agent(0).told();
      ASSERT_NO_FATAL_FAILURE(Release());
    }
  }
  before_ = World::TakeSettled();
}

bool Overlaps::Prepare() {
  for (std::size_t i = size(); i-- > 0;) {
    std::string told;
    const bool prepared = Eventually([&] {
      told = operation(i).prepare(agent(i));
      return told != "Unavailable" && told != "Busy";
    });
    if (!prepared || told != "Ok") {
      return false;
    }
  }
  // Some operations end the daemons, and with them the connections.
  for (const auto& one : agents_) {
    one->Disconnect();
  }
  return true;
}

void Overlaps::Release() {
  for (const auto& one : agents_) {
    ASSERT_EQ(one->Release(), "");
  }
  for (std::size_t i = 0; i < size(); ++i) {
    std::string told = "Ok";
    ASSERT_TRUE(!operation(i).undo || Eventually([&] {
      told = operation(i).undo(agent(i));
      return told == "Ok" || told == "NotFound";
    })) << agent(i).told();
  }
}

Outcome Overlaps::Look(const std::vector<std::string>& told) {
  Outcome outcome;
  for (std::size_t i = 0; i < size(); ++i) {
    outcome.push_back(
        {told[i], told[i] != "Ok" || operation(i).missing(agent(i)).empty()});
  }
  return outcome;
}

std::array<std::uint32_t, kStepProcesses> Overlaps::Steps() const {
  std::array<std::uint32_t, kStepProcesses> steps{};
  for (const StepProcess one : kProcesses) {
    steps.at(static_cast<std::size_t>(one)) = world_->steps().CountOf(one);
  }
  return steps;
}

bool Overlaps::Sequence(const std::vector<std::size_t>& order) {
  if (!Prepare()) {
    Release();
    return false;
  }
  std::vector<std::string> told(size(), "not called");
  for (const std::size_t i : order) {
    const auto before = Steps();
    told[i] = Call(i);
    const auto after = Steps();
    std::transform(after.begin(), after.end(), before.begin(),
                   steps_[i].begin(), std::minus<>());
  }
  const Outcome outcome = Look(told);
  if (order.size() == size()) {
    oracle_->Learn(outcome);
  } else {
    oracle_->LearnAlone(order.front(), outcome[order.front()]);
  }
  for (std::size_t i = 0; i < size(); ++i) {
    oracle_->LearnAgain(i, Call(i));
  }
  Release();
  return true;
}

bool Overlaps::Learn() {
  oracle_.emplace(overlap_.operations);
  steps_.assign(size(), {});
  for (std::size_t i = 1; i < size() && !HasFatalFailure(); ++i) {
    if (!Sequence({i})) {
      return false;
    }
  }
  std::vector<std::size_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  // The last order leaves the counted steps of the first operation undisturbed.
  std::vector<std::vector<std::size_t>> orders;
  do {
    orders.insert(orders.begin(), order);
  } while (std::next_permutation(order.begin(), order.end()));
  for (const auto& one : orders) {
    if (HasFatalFailure() || !Sequence(one)) {
      return false;
    }
  }
  EXPECT_EQ(World::DifferenceTo(before_), "");
  return true;
}

void Overlaps::Resume(FirstCall& first, const Cut& cut) {
  StepsControl& steps = world_->steps();
  const std::vector<int> errors = PlausibleErrors(process_, steps.FiredStep());
  switch (cut.then) {
    case Then::kAgentDies:
      first.Kill();
      [[fallthrough]];
    case Then::kGoesOn:
      steps.Resume();
      return;
    case Then::kFails:
      ASSERT_FALSE(errors.empty()) << steps.FiredStep();
      steps.Resume(StepAction::kFail, errors[cut.error % errors.size()]);
      return;
    case Then::kKilledBefore:
      steps.Resume(StepAction::kKillBefore);
      return;
    case Then::kKilledAfter:
      steps.Resume(StepAction::kKillAfter);
      return;
  }
}

std::size_t Overlaps::RunBeside(FirstCall& first, const Cut& cut,
                                std::vector<std::string>* told) {
  std::vector<std::future<std::string>> others;
  for (std::size_t i = 1; i < size(); ++i) {
    others.push_back(
        std::async(std::launch::async, [this, i] { return Call(i); }));
  }
  const auto until = std::chrono::steady_clock::now() + kHeld;
  const auto ended = static_cast<std::size_t>(
      std::count_if(others.begin(), others.end(), [&](const auto& other) {
        return other.wait_until(until) == std::future_status::ready;
      }));
  Resume(first, cut);
  for (auto& other : others) {
    told->push_back(other.get());
  }
  return ended;
}

void Overlaps::CallAgain() {
  for (std::size_t i = 0; i < size(); ++i) {
    std::string told;
    EXPECT_TRUE(Eventually([&] {
      told = Call(i);
      return oracle_->IsFinal(i, told);
    })) << operation(i).name
        << " is told " << told << " for ever: " << agent(i).told();
  }
}

bool Overlaps::Run(const Cut& cut) {
  std::vector<StepProcess> some;
  std::copy_if(std::begin(kProcesses), std::end(kProcesses),
               std::back_inserter(some), [&](StepProcess one) {
                 return steps_[0].at(static_cast<std::size_t>(one)) > 0;
               });
  if (some.empty()) {
    return false;  // the others' preparation left it nothing to do
  }
  if (!Prepare()) {
    ADD_FAILURE() << "what was prepared before is not any more";
    return false;
  }
  process_ = some[cut.process % some.size()];
  const std::uint32_t count = steps_[0].at(static_cast<std::size_t>(process_));
  StepsControl& steps = world_->steps();
  steps.Hold(process_, PlaceOf(cut, count));
  std::vector<std::string> told(1);
  std::size_t beside = 0;
  bool held = false;
  std::string step;
  {
    FirstCall first(operation(0), agent(0), cut.then == Then::kAgentDies);
    EXPECT_TRUE(Eventually([&] { return steps.Fired() || first.HasEnded(); }));
    if (steps.Fired() && !first.HasEnded()) {
      step = steps.FiredStep();
      beside = RunBeside(first, cut, &told);
      held = true;
    }
    steps.Disarm();
    told[0] = first.Told();
  }
  Json line = {{"first", operation(0).name},
               {"sharing", NameOf(overlap_.sharing)},
               {"process", NameOf(process_)},
               {"step", step},
               {"then", NameOf(cut.then)},
               {"beside", beside},
               {"told", told}};
  for (std::size_t i = 1; i < size(); ++i) {
    line["others"].push_back(operation(i).name);
  }
  SCOPED_TRACE(line.dump());
  if (held) {
    lines_.push_back(line);
    EXPECT_EQ(
        oracle_->Contradiction(Look(told), overlap_.sharing, cut.then, step),
        "");
    for (const auto& one : agents_) {
      std::string contradiction;
      EXPECT_TRUE(Eventually([&] {
        contradiction = one->Contradiction();
        if (cut.then == Then::kAgentDies || cut.then == Then::kGoesOn) {
          contradiction += one->HalfDone();
        }
        return contradiction.empty();
      })) << contradiction;
    }
    CallAgain();
  }
  Release();
  EXPECT_EQ(World::DifferenceTo(before_), "");
  return held;
}

void Overlaps::Do(const Overlap& overlap, std::uint32_t enough) {
  overlap_ = overlap;
  agents_.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    const bool own = i > 0 && overlap.sharing != Sharing::kAllocation;
    agents_.push_back(std::make_unique<Agent>(
        *world_, own ? "db" : "web",
        overlap.sharing == Sharing::kVolume ? "shared" : ""));
  }
  if (!Learn()) {
    return;
  }
  for (const Cut& cut : overlap.cuts) {
    if (HasFailure() || overlaps_ >= enough) {
      return;
    }
    overlaps_ += Run(cut) ? 1U : 0U;
  }
}

TEST_P(Overlaps, AreAsIfOneCameAfterTheOther) {
  const std::uint32_t seed =
      NumberOf("MOUNTD_FAULT_SEED", std::random_device()());
  const std::uint32_t enough =
      (NumberOf("MOUNTD_FAULT_PAIRS", kPairs) + kShards - 1) / kShards;
  std::cout << "MOUNTD_FAULT_SEED=" << seed << std::endl;
  ASSERT_NO_FATAL_FAILURE(TakeBaseline());
  for (std::uint32_t n = 0; overlaps_ < enough && n < 4 * enough; ++n) {
    SCOPED_TRACE("MOUNTD_FAULT_SEED=" + std::to_string(seed));
    Do(ChooseOverlap(seed, GetParam(), n), enough);
    if (HasFailure()) {
      break;
    }
  }
  Report report("overlaps-" + std::to_string(GetParam()) + ".jsonl");
  for (Json line : lines_) {
    line["seed"] = seed;
    report.Add(line);
  }
  EXPECT_GE(overlaps_, enough) << "so few have overlapped";
}

std::vector<std::uint32_t> Shards() {
  std::vector<std::uint32_t> all(kShards);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shard, Overlaps, ::testing::ValuesIn(Shards()));

}  // namespace
}  // namespace mountd::testing
