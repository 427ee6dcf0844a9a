// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/operations/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <thread>

#include "tests/support/fakes/manual_loop.h"
#include "tests/support/naive.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{3'600'000};

class OperationsTest : public ::testing::Test {
 protected:
  ~OperationsTest() override { Release(); }

  struct Told {
    std::string id;
    std::string method;
    std::string object;
    std::uint32_t uid;
    std::string outcome;
    bool announced;
    std::string trace;  // the request ids: the operation's, and who joined
  };

  static std::shared_ptr<const CallTrace> Named(const std::string& request_id,
                                                const char* flags = "00") {
    return std::make_shared<const CallTrace>(
        CallTrace{ParseTraceParent(
                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" +
                      std::string(flags)),
                  request_id});
  }
  static std::string NamesOf(const OperationSummary& summary) {
    std::string names =
        summary.trace == nullptr ? "-" : summary.trace->call().request_id;
    for (const CallTrace& call : summary.joined) {
      names += " " + call.request_id;
    }
    return names;
  }

  // Returns a call whose work waits for Release; its answer goes to answers_.
  Operations::Call<int> Call(const std::string& arguments,
                             std::uint32_t uid = 1) {
    Operations::Call<int> call;
    call.method = "Method";
    call.arguments = arguments;
    call.strand = "allocation web";
    call.caller.uid = uid;
    call.patience = kLong;
    call.work = [this, arguments](const CallContext& context) -> Result<int> {
      const std::uint32_t caller = context.caller.uid;
      runs_.push_back(arguments + " of " + std::to_string(caller));
      cancelled_ = context.cancelled;
      released_.wait();
      if (fail_) {
        return MakeError(Code::kBusy, "work", arguments);
      }
      return 42;
    };
    call.reply = [this](Result<int> result) {
      answers_.push_back(result ? std::to_string(*result)
                                : MessageOf(result) + " " + Outcome(result));
    };
    return call;
  }
  void Run(Operations::Call<int> call) { operations_.Run(std::move(call)); }
  void Release() {
    if (!std::exchange(is_released_, true)) {
      release_.set_value();
    }
  }
  bool AwaitAnswers(std::size_t count) {
    return loop_.RunUntil([&] { return answers_.size() >= count; });
  }
  bool AwaitTold(std::size_t count) {
    return loop_.RunUntil([&] { return told_.size() >= count; });
  }

  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  bool is_released_ = false;
  std::atomic<bool> fail_ = false;
  std::vector<std::string> runs_;  // one strand, so one at a time
  CancelToken cancelled_;
  std::vector<std::string> answers_;
  std::vector<Told> told_;
  ManualLoop loop_;
  WorkerPool pool_{4};
  Strands strands_{pool_};
  Operations operations_{
      loop_, strands_,
      [this](const OperationSummary& summary) {
        told_.push_back({summary.id, summary.method, summary.object,
                         summary.uid,
                         summary.error == nullptr
                             ? "Ok"
                             : std::string(CodeName(summary.error->code)),
                         summary.announced, NamesOf(summary)});
      },
      3,
      [this](const OperationStatus& status) {
        progress_.push_back(
            std::string(StepName(status.progress.step)) +
            (status.progress.error
                 ? " " + std::string(CodeName(*status.progress.error))
                 : ""));
        spans_.insert(spans_.end(), status.spans.begin(), status.spans.end());
        is_callers_alone_ = status.is_callers_alone;
      }};
  bool is_callers_alone_ = false;
  std::vector<Span> spans_;
  std::vector<std::string> progress_;

  // Waits until the operation is old enough to be reported.
  void AwaitOld() {
    while (operations_.List().at(0).elapsed < Operations::kBetweenLooks) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
};

TEST_F(OperationsTest, AnAnswerIsGivenAndTold) {
  Release();
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(answers_, std::vector<std::string>{"42"});
  EXPECT_EQ(told_[0].method, "Method");
  EXPECT_EQ(told_[0].object, "allocation web");
  EXPECT_EQ(told_[0].uid, 1U);
  EXPECT_EQ(told_[0].outcome, "Ok");
  EXPECT_FALSE(told_[0].announced);
  EXPECT_EQ(operations_.running(), 0U);
}

TEST_F(OperationsTest, OneThatJoinsNoneIsAnOperationOfItsOwn) {
  for (int i = 0; i < 2; ++i) {
    Operations::Call<int> call = Call("a");
    call.joins = false;
    Run(std::move(call));
  }
  EXPECT_EQ(operations_.running(), 2U);
  Release();
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_EQ(answers_, (std::vector<std::string>{"42", "42"}));
}

TEST_F(OperationsTest, AFailureIsGivenAndTold) {
  fail_ = true;
  Release();
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(answers_, std::vector<std::string>{"work a Busy"});
  EXPECT_EQ(told_[0].outcome, "Busy");
}

TEST_F(OperationsTest, TheSameCallJoinsTheOneUnderWay) {
  Run(Call("a"));
  Run(Call("a"));
  EXPECT_EQ(operations_.running(), 1U);
  Release();
  ASSERT_TRUE(AwaitAnswers(2));
  EXPECT_EQ(answers_, (std::vector<std::string>{"42", "42"}));
  EXPECT_EQ(runs_, std::vector<std::string>{"a of 1"});
  EXPECT_EQ(told_.size(), 1U);
}

// Names are no argument, so calls with other names join. Each name is there
// once, however often its caller repeats the call.
TEST_F(OperationsTest, AJoinedCallKeepsItsOwnNames) {
  for (const char* id : {"r1", "r2", "r1", "r3", "r2"}) {
    Operations::Call<int> call = Call("a");
    call.trace = Named(id);
    Run(std::move(call));
  }
  Run(Call("a"));
  EXPECT_EQ(operations_.running(), 1U);
  EXPECT_EQ(operations_.List().at(0).trace->call().request_id, "r1");
  Release();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(told_[0].trace, "r1 r2 r3");
  EXPECT_EQ(answers_.size(), 6U);
}

TEST_F(OperationsTest, ANamedCallThatJoinsAnUnnamedOneKeepsItsNamesAlone) {
  Run(Call("a"));
  Operations::Call<int> call = Call("a");
  call.trace = Named("r1", "01");
  Run(std::move(call));
  EXPECT_EQ(operations_.List().at(0).trace, nullptr);
  Release();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(told_[0].trace, "- r1");
  EXPECT_TRUE(progress_.empty());
}

// A caller that gives up and comes back with another name each time.
TEST_F(OperationsTest, TheNamesOfJoinedCallsAreBounded) {
  Run(Call("a"));
  for (std::uint32_t i = 0; i < Operations::kMaxWaiters + 5; ++i) {
    Operations::Call<int> call = Call("a");
    call.trace = Named("r" + std::to_string(i));
    call.patience = milliseconds(0);
    Run(std::move(call));
    loop_.FireTimers();
  }
  Release();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(std::count(told_[0].trace.begin(), told_[0].trace.end(), ' '),
            Operations::kMaxWaiters);
}

// However short it was. Others report nothing so soon.
TEST_F(OperationsTest, ASampledOneReportsItsSpansAtItsEnd) {
  Release();
  Operations::Call<int> call = Call("a");
  call.trace = Named("r1", "01");
  Run(std::move(call));
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(progress_, std::vector<std::string>{"end"});
  ASSERT_EQ(spans_.size(), 2U);
  EXPECT_EQ(spans_[0].name, "Method");
  EXPECT_EQ(ToHex(spans_[0].parent), "b7ad6b7169203331");
  EXPECT_EQ(spans_[1].name, "queue");
  EXPECT_EQ(spans_[1].parent, spans_[0].id);
  EXPECT_TRUE(is_callers_alone_);
  Operations::Call<int> other = Call("b");
  other.trace = Named("r2", "00");
  Run(std::move(other));
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_EQ(progress_.size(), 1U);
}

TEST_F(OperationsTest, OneThatIsNotSampledReportsItsSpansWhileSomebodyAsks) {
  Release();
  const auto run = [&](std::size_t number) {
    Operations::Call<int> call = Call("a");
    call.trace = Named("r1", "00");
    Run(std::move(call));
    return AwaitTold(number);
  };
  std::shared_ptr<const void> wish = operations_.span_wish().Make();
  const std::shared_ptr<const void> other = operations_.span_wish().Make();
  ASSERT_TRUE(run(1));
  EXPECT_EQ(spans_.size(), 2U);
  EXPECT_FALSE(is_callers_alone_);
  Run(Call("b"));  // has no trace
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_EQ(spans_.size(), 2U);
  wish.reset();
  ASSERT_TRUE(run(3));
  EXPECT_EQ(spans_.size(), 4U);
}

// Otherwise a user who asks, and who traces each of many calls, would fill the
// queues of administrators.
TEST_F(OperationsTest, AUserWhoAsksGetsTheSpansOfHisOwnAlone) {
  Release();
  const auto run = [&](std::size_t number, const char* flags) {
    Operations::Call<int> call = Call("a");
    call.caller.uid = 1000;
    call.trace = Named("r1", flags);
    Run(std::move(call));
    return AwaitTold(number);
  };
  std::shared_ptr<const void> others = operations_.span_wish().MakeOf(1001);
  ASSERT_TRUE(run(1, "00"));
  EXPECT_TRUE(spans_.empty());
  std::shared_ptr<const void> own = operations_.span_wish().MakeOf(1000);
  for (const std::size_t number : {2U, 3U}) {
    is_callers_alone_ = false;
    ASSERT_TRUE(run(number, number == 2 ? "00" : "01"));
    EXPECT_EQ(spans_.size(), 2 * (number - 1));
    EXPECT_TRUE(is_callers_alone_);
  }
  own.reset();
  ASSERT_TRUE(run(4, "00"));
  EXPECT_EQ(spans_.size(), 4U);
}

TEST_F(OperationsTest, NobodyWhoAskedIsLeft) {
  Release();
  operations_.span_wish().Make();
  Operations::Call<int> call = Call("a");
  call.trace = Named("r1", "00");
  Run(std::move(call));
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_TRUE(spans_.empty());
}

TEST_F(OperationsTest, WorkRunsInItsTrace) {
  Release();
  Operations::Call<int> call = Call("a");
  call.trace = Named("r1");
  call.work = [](const CallContext& context) -> Result<int> {
    return context.trace != nullptr &&
                   CurrentTrace::Get() == context.trace.get()
               ? 1
               : 0;
  };
  Run(std::move(call));
  call = Call("b");
  call.work = [](const CallContext& context) -> Result<int> {
    return context.trace == nullptr && CurrentTrace::Get() == nullptr ? 2 : 0;
  };
  Run(std::move(call));
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_EQ(answers_, (std::vector<std::string>{"1", "2"}));
}

TEST_F(OperationsTest, OtherArgumentsAndOtherUsersRunOnTheirOwn) {
  Run(Call("a"));
  Run(Call("b"));
  Run(Call("a", 2));
  EXPECT_EQ(operations_.running(), 3U);
  Release();
  ASSERT_TRUE(AwaitTold(3));
  EXPECT_EQ(runs_, (std::vector<std::string>{"a of 1", "b of 1", "a of 2"}));
}

// A policy may allow a call to a group and not to the group's user alone, so
// such calls do not join.
TEST_F(OperationsTest, WhoIsOfOtherGroupsRunsOnItsOwn) {
  const auto with_groups = [&](std::vector<std::uint32_t> groups) {
    Operations::Call<int> call = Call("a");
    call.caller.groups = std::move(groups);
    return call;
  };
  Run(with_groups({}));
  Run(with_groups({5, 7}));
  Run(with_groups({57}));
  Run(with_groups({5, 7}));
  EXPECT_EQ(operations_.running(), 3U);
  Release();
  EXPECT_TRUE(AwaitAnswers(4));
  EXPECT_EQ(runs_.size(), 3U);
}

TEST_F(OperationsTest, TheSameCallAfterTheEndRunsAgain) {
  Release();
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(1));
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_EQ(runs_.size(), 2U);
  EXPECT_NE(told_[0].id, told_[1].id);
}

TEST_F(OperationsTest, PatienceOverIsInProgressAndTheEndIsAnnounced) {
  Operations::Call<int> impatient = Call("a");
  impatient.patience = milliseconds(0);
  Run(std::move(impatient));
  loop_.FireTimers();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answers_[0].ends_with("InProgress")) << answers_[0];
  EXPECT_EQ(operations_.running(), 1U);
  Release();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_TRUE(told_[0].announced);
  // The answer's detail is the id of the signal at the end.
  EXPECT_NE(answers_[0].find(told_[0].id), std::string::npos) << answers_[0];
  EXPECT_EQ(answers_.size(), 1U);
}

TEST_F(OperationsTest, OnlyTheImpatientAreAnsweredInProgress) {
  Run(Call("a"));
  Operations::Call<int> impatient = Call("a");
  impatient.patience = milliseconds(0);
  Run(std::move(impatient));
  loop_.FireTimers();
  EXPECT_EQ(answers_.size(), 1U);
  Release();
  ASSERT_TRUE(AwaitAnswers(2));
  EXPECT_EQ(answers_[1], "42");
}

TEST_F(OperationsTest, ATimerThatFiresAfterTheEndAnswersNobody) {
  Release();
  Operations::Call<int> call = Call("a");
  call.patience = milliseconds(0);
  Run(std::move(call));
  ASSERT_TRUE(AwaitTold(1));
  loop_.FireTimers();
  EXPECT_EQ(answers_, std::vector<std::string>{"42"});
}

TEST_F(OperationsTest, CancelAnswersAllAtOnceAndTellsTheWork) {
  Operations::Call<int> impatient = Call("a");
  impatient.patience = milliseconds(0);
  Run(std::move(impatient));
  loop_.FireTimers();
  const std::string in_progress = answers_.at(0);
  const std::string id = in_progress.substr(0, in_progress.find(' '));
  Run(Call("a"));
  Caller other;
  other.uid = 2;
  EXPECT_EQ(Outcome(operations_.Cancel(other, id)), "NotFound");
  Caller owner;
  owner.uid = 1;
  EXPECT_EQ(Outcome(operations_.Cancel(owner, "1.999999")), "NotFound");
  ASSERT_EQ(Outcome(operations_.Cancel(owner, id)), "Ok") << in_progress;
  ASSERT_EQ(answers_.size(), 2U);
  EXPECT_TRUE(answers_[1].ends_with("Aborted")) << answers_[1];
  EXPECT_EQ(operations_.running(), 1U);
  Release();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_TRUE(*cancelled_);
  EXPECT_EQ(answers_.size(), 2U);
  EXPECT_EQ(Outcome(operations_.Cancel(owner, id)), "NotFound");
}

TEST_F(OperationsTest, AUsersOperationsAreBounded) {
  for (const char* arguments : {"a", "b", "c"}) {
    Run(Call(arguments));
  }
  EXPECT_TRUE(answers_.empty());
  Run(Call("d"));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answers_[0].ends_with("ResourceExhausted")) << answers_[0];
  Run(Call("a"));     // joins
  Run(Call("d", 2));  // another user's
  EXPECT_EQ(operations_.running(), 4U);
  Release();
  ASSERT_TRUE(AwaitTold(4));
  Run(Call("d"));
  ASSERT_TRUE(AwaitTold(5));
  EXPECT_EQ(answers_.back(), "42");
}

// All calls of one user hang, each on a strand of its own.
TEST_F(OperationsTest, OneUserLeavesWorkersForOthers) {
  constexpr std::uint32_t kMost = 300;
  WorkerPool pool(Operations::WorkersFor(kMost));
  Strands strands(pool);
  Operations operations(
      loop_, strands, [](const OperationSummary&) {}, kMost);
  for (std::uint32_t i = 0; i < kMost; ++i) {
    Operations::Call<int> call = Call(std::to_string(i));
    call.strand = "allocation " + call.arguments;
    call.work = [this](const CallContext&) -> Result<int> {
      released_.wait();
      return 1;
    };
    operations.Run(std::move(call));
  }
  EXPECT_EQ(operations.running(), kMost);
  Operations::Call<int> other = Call("other", 2);
  other.strand = "allocation other";
  other.work = [](const CallContext&) -> Result<int> { return 42; };
  operations.Run(std::move(other));
  EXPECT_TRUE(AwaitAnswers(1));
  Release();
  EXPECT_TRUE(AwaitAnswers(kMost + 1));
  EXPECT_EQ(answers_.front(), "42");
}

TEST_F(OperationsTest, WhoWaitsForOneOperationIsBounded) {
  for (std::uint32_t i = 0; i < Operations::kMaxWaiters; ++i) {
    Run(Call("a"));
  }
  EXPECT_TRUE(answers_.empty());
  Run(Call("a"));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answers_[0].ends_with("ResourceExhausted")) << answers_[0];
  Release();
  EXPECT_TRUE(AwaitAnswers(1 + Operations::kMaxWaiters));
}

// Each waiter keeps its message, with its fds, until it is answered.
TEST_F(OperationsTest, WhoWaitsForAUsersOperationsIsBounded) {
  for (std::uint32_t i = 0; i < Operations::kMaxWaiters; ++i) {
    Run(Call(i % 2 == 0 ? "a" : "b"));
  }
  EXPECT_TRUE(answers_.empty());
  Run(Call("b"));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answers_[0].ends_with("ResourceExhausted")) << answers_[0];
  Run(Call("b", 2));  // another user's
  EXPECT_EQ(answers_.size(), 1U);
  Release();
  EXPECT_TRUE(AwaitAnswers(2 + Operations::kMaxWaiters));
}

TEST_F(OperationsTest, WhatIsUnderWayIsListedInTheOrderOfTheCalls) {
  EXPECT_TRUE(operations_.List().empty());
  for (int i = 0; i < 3; ++i) {
    Run(Call("z"));
    Run(Call("a", 2));
  }
  ASSERT_TRUE(loop_.RunUntil(
      [&] { return operations_.List()[0].progress.step == Step::kWork; }));
  const std::vector<OperationStatus> all = operations_.List();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].uid, 1U);
  EXPECT_EQ(all[0].method, "Method");
  EXPECT_EQ(all[0].object, "allocation web");
  EXPECT_EQ(all[0].waiters, 3U);
  EXPECT_FALSE(all[0].cancelled);
  // Both have one strand, so the second waits for the first.
  EXPECT_EQ(all[1].uid, 2U);
  EXPECT_EQ(all[1].progress.step, Step::kQueue);
  EXPECT_GE(all[0].elapsed, all[1].elapsed);
  Caller owner;
  owner.uid = 1;
  ASSERT_EQ(Outcome(operations_.Cancel(owner, all[0].id)), "Ok");
  EXPECT_TRUE(operations_.List().at(0).cancelled);
  EXPECT_EQ(operations_.List().at(0).waiters, 0U);
  Release();
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_TRUE(operations_.List().empty());
}

TEST_F(OperationsTest, OfALongOneEachChangeIsToldOnceAndThenTheEnd) {
  fail_ = true;
  Operations::Call<int> call = Call("a");
  std::promise<Progress> begun;
  call.work = [&begun,
               work = call.work](const CallContext& context) -> Result<int> {
    begun.set_value(context.progress);
    return work(context);
  };
  Run(std::move(call));
  const Progress progress = begun.get_future().get();
  AwaitOld();
  loop_.FireTimers();
  loop_.FireTimers();  // nothing has changed
  EXPECT_EQ(progress_, std::vector<std::string>{"work"});
  progress.At(Step::kStage);
  progress.At(Step::kPublish);
  loop_.FireTimers();
  EXPECT_EQ(progress_, (std::vector<std::string>{"work", "publish"}));
  progress.Attempt(2);
  progress.Failed(Code::kUnavailable);
  loop_.FireTimers();
  Release();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_EQ(progress_,
            (std::vector<std::string>{"work", "publish", "publish Unavailable",
                                      "end Busy"}));
  // The last look finds nothing, and none comes after it.
  loop_.FireTimers();
  loop_.FireTimers();
  EXPECT_TRUE(loop_.FireTimers().empty());
}

TEST_F(OperationsTest, OfAShortOneNothingIsTold) {
  Release();
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(1));
  loop_.FireTimers();
  EXPECT_TRUE(progress_.empty());
}

TEST_F(OperationsTest, StatisticsCountCallsAndErrors) {
  Release();
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(1));
  fail_ = true;
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(2));
  const auto statistics = operations_.GetStatistics();
  ASSERT_EQ(statistics.size(), 1U);
  EXPECT_EQ(statistics[0].method, "Method");
  EXPECT_EQ(statistics[0].calls, 2U);
  EXPECT_EQ(statistics[0].errors, 1U);
  EXPECT_LE(statistics[0].median_us, statistics[0].p99_us);
}

// Every user may ask for the statistics, so these have no user's objects.
TEST_F(OperationsTest, StatisticsTellOfMethodsAlone) {
  Release();
  Run(Call("a"));
  ASSERT_TRUE(AwaitTold(1));
  const auto tell_of_web = [](const std::vector<MethodStatistics>& all) {
    return std::any_of(all.begin(), all.end(), [](const MethodStatistics& one) {
      return one.method.find("web") != std::string::npos;
    });
  };
  // A naive mountd counts what it logs: methods with their objects.
  std::vector<MethodStatistics> naive;
  for (const Told& told : told_) {
    naive.push_back({told.method + " " + told.object, 1, 0, 0, 0});
  }
  EXPECT_NAIVE(tell_of_web(naive));
  EXPECT_FALSE(tell_of_web(operations_.GetStatistics()));
}

TEST_F(OperationsTest, StatisticsAreOfTheLastCalls) {
  constexpr std::uint32_t kRemembered = 1024;
  const auto statistics = [&] { return operations_.GetStatistics().at(0); };
  for (std::uint32_t uid = 0; uid < kRemembered; ++uid) {
    Run(Call("a", uid));
  }
  std::this_thread::sleep_for(milliseconds(100));  // all of them wait as long
  Release();
  ASSERT_TRUE(AwaitTold(kRemembered));
  const std::uint64_t slow = statistics().median_us;
  for (std::uint32_t i = 1; i <= kRemembered; ++i) {
    Run(Call("a"));
    ASSERT_TRUE(AwaitTold(kRemembered + i));
  }
  EXPECT_EQ(statistics().calls, 2U * kRemembered);
  EXPECT_LT(statistics().median_us, slow);
}

}  // namespace
}  // namespace mountd
