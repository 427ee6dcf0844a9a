// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Makes sets of calls at once, in orders that a seed decides.
// MOUNTD_SCHEDULE_SEED names one seed to run, MOUNTD_SCHEDULE_RUNS the number
// of seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "mountd/operations/operations.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/fakes/seeded_scheduler.h"
#include "tests/support/matchers.h"
#include "tests/unit/schedule/calls.h"

namespace mountd::testing {
namespace {

using ::testing::Each;
using ::testing::Ne;

#ifdef MOUNTD_SANITIZED
constexpr std::uint64_t kRuns = 25;
#else
constexpr std::uint64_t kRuns = 100;
#endif

std::vector<std::uint64_t> Seeds() {
  if (const char* seed = std::getenv("MOUNTD_SCHEDULE_SEED")) {
    return {std::strtoull(seed, nullptr, 10)};
  }
  const char* runs = std::getenv("MOUNTD_SCHEDULE_RUNS");
  std::vector<std::uint64_t> seeds(
      runs != nullptr ? std::strtoull(runs, nullptr, 10) : kRuns);
  std::uint64_t next = 0;
  std::generate(seeds.begin(), seeds.end(), [&] { return ++next; });
  return seeds;
}

// The outcome of a set.
struct Outcomes {
  std::vector<std::string> answers;  // in the order of the calls; "": none
  // The calls that did not join another one, in the order of their ends.
  std::vector<std::size_t> worked;
};

// Makes the calls at once as the daemon does: joined, ordered by strands, on
// workers.
Outcomes RunAtOnce(Core& core, const CallSet& set, SeededScheduler& scheduler) {
  Outcomes outcomes;
  outcomes.answers.resize(set.at_once.size());
  scheduler.Run([&] {
    ManualLoop loop;
    WorkerPool pool(16);
    Strands strands(pool);
    Operations operations(loop, strands, [](const OperationSummary&) {});
    std::size_t answered = 0;
    std::mutex mutex;
    for (std::size_t i = 0; i < set.at_once.size(); ++i) {
      const PlannedCall& planned = set.at_once[i];
      Operations::Call<std::string> call;
      call.method = planned.method;
      call.arguments = planned.arguments;
      call.strand = planned.strand;
      call.caller = Core::By(planned.uid).caller;
      call.patience = std::chrono::hours(1);
      call.work = [&, i](const CallContext& context) {
        Result<std::string> result = planned.work(core, context, strands);
        const std::lock_guard lock(mutex);
        outcomes.worked.push_back(i);
        return result;
      };
      call.reply = [&, i](const Result<std::string>& result) {
        outcomes.answers[i] = AnswerOf(result);
        ++answered;
      };
      operations.Run(std::move(call));
    }
    EXPECT_TRUE(loop.RunUntil([&] { return answered == set.at_once.size(); }));
  });
  return outcomes;
}

// Gives the orders of the calls that worked; calls of one strand keep theirs.
class Orders {
 public:
  Orders(const CallSet& set, std::vector<std::size_t> as_they_ended)
      : order_(std::move(as_they_ended)), all_(order_) {
    std::sort(all_.begin(), all_.end());
    for (std::size_t i = 0; i < set.at_once.size(); ++i) {
      strands_.push_back(set.at_once[i].strand);
    }
  }

  const std::vector<std::size_t>& order() const { return order_; }
  // False if there is no further order.
  bool Next() {
    if (std::exchange(first_, false)) {
      order_ = all_;
      return IsOne() || Next();
    }
    while (std::next_permutation(order_.begin(), order_.end())) {
      if (IsOne()) {
        return true;
      }
    }
    return false;
  }

 private:
  bool IsOne() const {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (std::size_t j = i + 1; j < order_.size(); ++j) {
        if (order_[j] < order_[i] &&
            strands_[order_[i]] == strands_[order_[j]]) {
          return false;
        }
      }
    }
    return true;
  }

  std::vector<std::size_t> order_;
  std::vector<std::size_t> all_;
  std::vector<std::string> strands_;
  bool first_ = true;
};

// Returns what differs if the calls come in that order, one after the other; or
// "".
std::string DifferenceInOrder(const CallSet& set, const Outcomes& outcomes,
                              const std::vector<std::size_t>& order,
                              const std::string& state) {
  const std::unique_ptr<Core> core = CoreAfter(set);
  WorkerPool pool(8);
  Strands strands(pool);
  for (const std::size_t i : order) {
    const PlannedCall& call = set.at_once[i];
    const std::string answer =
        AnswerOf(call.work(*core, Core::By(call.uid), strands));
    if (answer != outcomes.answers[i]) {
      return call.Text() + ": " + outcomes.answers[i] + ", and in order " +
             answer + "\n";
    }
  }
  const std::string in_order = StateOf(*core);
  return in_order == state ? "" : state + "and in order\n" + in_order;
}

// Returns "" if some order of the calls gives the same outcome; otherwise what
// differs from the order in which they ended.
std::string DifferenceInAnyOrder(const CallSet& set, const Outcomes& outcomes,
                                 const std::string& state) {
  Orders orders(set, outcomes.worked);
  const std::string first =
      DifferenceInOrder(set, outcomes, orders.order(), state);
  bool found = first.empty();
  while (!found && orders.Next()) {
    found = DifferenceInOrder(set, outcomes, orders.order(), state).empty();
  }
  return found ? "" : first;
}

// A call that joined another one must have that one's answer.
void ExpectJoinedAlike(const CallSet& set, const Outcomes& outcomes) {
  for (std::size_t i = 0; i < set.at_once.size(); ++i) {
    const auto same = std::find_if(
        outcomes.worked.begin(), outcomes.worked.end(), [&](std::size_t j) {
          return set.at_once[j].Text() == set.at_once[i].Text() &&
                 outcomes.answers[j] == outcomes.answers[i];
        });
    EXPECT_NE(same, outcomes.worked.end()) << set.at_once[i].Text();
  }
}

std::string Failed(std::uint64_t seed, const CallSet& set,
                   const SeededScheduler& scheduler) {
  return "MOUNTD_SCHEDULE_SEED=" + std::to_string(seed) + "\n" + set.Text() +
         scheduler.TraceEnd(80);
}

class Schedule : public ::testing::Test {
 protected:
  void SetUp() override {
    // This makes spdlog's logger outside of any run, because it is made at its
    // first use.
    spdlog::set_level(spdlog::level::off);
    // A tmpfs avoids the stores' syncs, because these tests are not about
    // disks.
    if (::access("/dev/shm", W_OK) == 0) {
      ::setenv("TMPDIR", "/dev/shm", 0);
    }
  }
};

TEST_F(Schedule, OneSeedIsOneRun) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE(seed);
    const CallSet set = CallSet::Draw(seed, Kinds::kAll);
    std::optional<std::vector<std::string>> trace;
    for (int times = 0; times < 3; ++times) {
      SeededScheduler scheduler(seed);
      const auto core = CoreAfter(set, &scheduler);
      ASSERT_NE(core, nullptr);
      RunAtOnce(*core, set, scheduler);
      EXPECT_FALSE(scheduler.trace().empty());
      EXPECT_EQ(trace.value_or(scheduler.trace()), scheduler.trace());
      trace = scheduler.trace();
    }
  }
}

TEST_F(Schedule, AnotherSeedIsAnotherRun) {
  const CallSet set = CallSet::Draw(1, Kinds::kAll);
  std::set<std::vector<std::string>> traces;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SeededScheduler scheduler(seed);
    const auto core = CoreAfter(set, &scheduler);
    ASSERT_NE(core, nullptr);
    RunAtOnce(*core, set, scheduler);
    traces.insert(scheduler.trace());
  }
  // Two seeds may choose alike.
  EXPECT_GE(traces.size(), 5U);
}

// Makes each seed's set at once on a core of its own. `failing` may make its
// scheduler fail steps, and `check` checks what else must be true.
template <typename Failing, typename Check>
void RunEachSeed(Kinds kinds, const Failing& failing, const Check& check) {
  for (const std::uint64_t seed : Seeds()) {
    const CallSet set = CallSet::Draw(seed, kinds);
    SeededScheduler scheduler(seed);
    const auto core = CoreAfter(set, &scheduler);
    ASSERT_NE(core, nullptr);
    std::mt19937_64 random(seed);
    failing(scheduler, random);
    const Outcomes outcomes = RunAtOnce(*core, set, scheduler);
    SCOPED_TRACE(Failed(seed, set, scheduler));
    ExpectJoinedAlike(set, outcomes);
    check(set, outcomes, *core);
    EXPECT_EQ(Contradiction(*core), "");
    EXPECT_EQ(LeftAfterRelease(*core), "");
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

void NothingFails(SeededScheduler& /*scheduler*/, std::mt19937_64& /*random*/) {
}

// Makes some plans and RPCs fail, with final errors only, because others are
// retried by the clock.
void SomeFail(SeededScheduler& scheduler, std::mt19937_64& random) {
  scheduler.SetFailure([&random](std::string_view step) {
    if (random() % 8 != 0) {
      return 0;
    }
    return step.starts_with("rpc")
               ? static_cast<int>(csi::RpcCode::kInvalidArgument)
               : static_cast<int>(random() % 2 == 0 ? Code::kInternal
                                                    : Code::kBusy);
  });
}

TEST_F(Schedule, AnswersAreThoseOfSomeOrder) {
  RunEachSeed(Kinds::kOrdered, NothingFails,
              [](const CallSet& set, const Outcomes& outcomes, Core& core) {
                EXPECT_EQ(DifferenceInAnyOrder(set, outcomes, StateOf(core)),
                          "");
              });
}

TEST_F(Schedule, ReconcileAmongOthersLeavesNothing) {
  RunEachSeed(Kinds::kAll, NothingFails,
              [](const CallSet&, const Outcomes&, Core& core) {
                EXPECT_EQ(core.state->owed.ListOwed()->size(), 0U);
                EXPECT_FALSE(core.mounts->HasLeftAnchors());
              });
}

// Returns a set of a release that ignores tasks, and of questions whether tasks
// may still use what the release has removed.
CallSet ReleaseAndItsReceipt() {
  CallSet set;
  PlannedCall& release = set.at_once.emplace_back();
  release.method = "ReleaseAllocation";
  release.strand = AllocationStrand("web");
  release.uid = Core::kAgent;
  release.work = [](Core& core, const CallContext& context, Strands&) {
    const auto receipt = core.services->allocations.ReleaseAllocation(
        context, NameOf("web"), OnTasks::kIgnore);
    return receipt ? Result<std::string>("") : receipt.error();
  };
  constexpr int kQuestions = 12;
  for (int i = 0; i < kQuestions; ++i) {
    PlannedCall& question = set.at_once.emplace_back();
    question.method = "GetReceipt";
    // Equal calls would join each other.
    question.arguments = std::to_string(i);
    question.uid = Core::kAgent;
    question.work = [](Core& core, const CallContext& context, Strands&) {
      auto receipt =
          core.services->allocations.GetReceipt(context, NameOf("web"));
      return receipt
                 ? Result<std::string>(receipt->has_users ? "in use" : "free")
                 : receipt.error();
    };
  }
  return set;
}

// Makes the allocation "web" with a mount, and a task in its cgroup.
std::unique_ptr<Core> CoreWithATask(Steps* steps) {
  constexpr std::uint64_t kCgroup = 77;
  Config config = Core::DefaultConfig();
  config.rules[0].cgroups = {"/agent"};
  auto core = std::make_unique<Core>(config, steps);
  core->executor->PutCgroup(kCgroup, "/agent/web");
  const CallContext context = Core::By(Core::kAgent);
  EXPECT_THAT(core->services->allocations.PrepareAllocation(
                  context, NameOf("web"), "", kCgroup),
              IsOk());
  BindMountRequest request;
  request.allocation = "web";
  request.task = "task";
  request.name = "d";
  request.wish.source = "data";
  EXPECT_THAT(core->services->mounts.BindMount(context, request), IsOk());
  exec::Holder task;
  task.pid = 7;
  core->executor->AddHolder(0, task, kCgroup);
  return core;
}

TEST_F(Schedule, NoReceiptForgetsTheTasksThatAReleaseIgnores) {
  const CallSet set = ReleaseAndItsReceipt();
  std::set<std::string> answers;
  for (const std::uint64_t seed : Seeds()) {
    SeededScheduler scheduler(seed);
    const auto core = CoreWithATask(&scheduler);
    const Outcomes outcomes = RunAtOnce(*core, set, scheduler);
    SCOPED_TRACE(Failed(seed, set, scheduler));
    EXPECT_EQ(outcomes.answers[0], "Ok ");
    EXPECT_THAT(outcomes.answers, Each(Ne("Ok free")));
    answers.insert(outcomes.answers.begin() + 1, outcomes.answers.end());
  }
  // Some seeds ask before the release, and some after it.
  EXPECT_GE(answers.size(), Seeds().size() > 1 ? 2U : 1U);
}

TEST_F(Schedule, FailuresAmongOthersLeaveNothing) {
  RunEachSeed(Kinds::kAll, SomeFail,
              [](const CallSet&, const Outcomes&, Core&) {});
}

}  // namespace
}  // namespace mountd::testing
