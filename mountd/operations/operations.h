// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/base/current_user.h"
#include "mountd/base/loop.h"
#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"
#include "mountd/config/config.h"
#include "mountd/operations/operation_status.h"

namespace mountd {

// Runs calls as operations. Each operation runs on its strand. A caller waits
// for as long as its patience lasts and then gets InProgress with the
// operation's id. A call with the same method, caller and arguments joins the
// operation that is running.
//
//   call --> queued --> running --> finished: answer waiters, report summary
//              |            |
//              +-- patience over: answer that waiter InProgress
//              +-- Cancel: answer all waiters Aborted; the work ends by itself
//                  and is reported as usual
//
// Bounds the number of a user's operations, and the number of callers that wait
// for one operation. A further call gets ResourceExhausted, so that no user can
// take all threads or all memory.
//
// Reports changes of progress (CallContext::progress) of an operation that
// takes longer than a moment, at most a few times a second, and then its end.
//
// Runs on the loop's thread; only `work` runs elsewhere.
class Operations {
 public:
  using OnFinished = std::function<void(const OperationSummary&)>;
  using OnProgress = std::function<void(const OperationStatus&)>;
  // The most waiters of one operation. All of a user's operations together may
  // have this many or four times `max_per_uid`, whichever is more.
  static constexpr std::uint32_t kMaxWaiters = 64;
  // The workers that one user's operations leave to others.
  static constexpr std::size_t kWorkersOfOthers = 256;
  static constexpr std::chrono::milliseconds kBetweenLooks{250};

  Operations(
      Loop& loop, Strands& strands, OnFinished on_finished,
      std::uint32_t max_per_uid = LimitsConfig().operations_per_uid,
      OnProgress on_progress = [](const OperationStatus&) {})
      : loop_(loop),
        strands_(strands),
        on_finished_(std::move(on_finished)),
        max_per_uid_(max_per_uid),
        on_progress_(std::move(on_progress)) {}

  // Returns how many workers the strands need. An operation takes one worker,
  // and a Reconcile kReleasesAtOnce more (reconciliation.cc). So even if all
  // operations of a user hang, about kWorkersOfOthers workers are left.
  static constexpr std::size_t WorkersFor(std::uint32_t max_per_uid) {
    return kWorkersOfOthers + max_per_uid;
  }

  template <typename T>
  struct Call {
    std::string method;
    std::string arguments;  // canonical; equal calls have equal texts
    std::string strand;     // "": none
    bool joins = true;      // false: each call is an operation of its own
    Caller caller;
    std::chrono::milliseconds patience{0};
    std::function<Result<T>(const CallContext&)> work;
    std::function<void(Result<T>)> reply;         // called exactly once
    std::shared_ptr<const CallTrace> trace = {};  // null: no names
  };

  template <typename T>
  static std::string KeyOf(const Call<T>& call) {
    return IdentityOf(call.caller) + call.method + "\n" + call.arguments;
  }
  // Returns whether an operation is under way that the call would join.
  template <typename T>
  bool IsUnderWay(const Call<T>& call) const {
    return call.joins && running_.contains(KeyOf(call));
  }

  template <typename T>
  void Run(Call<T> call) {
    std::string key = KeyOf(call);
    if (!call.joins) {
      key += "\n" + std::to_string(last_id_ + 1);
    }
    std::shared_ptr<Typed<T>> operation;
    if (const auto found = running_.find(key); found != running_.end()) {
      // The key contains the method, so this operation has the same type.
      operation = std::static_pointer_cast<Typed<T>>(found->second);
    }
    if (const Result<void> admitted = Admit(operation.get(), call.caller.uid);
        !admitted) {
      call.reply(admitted.error());
      return;
    }
    if (operation == nullptr) {
      operation = std::make_shared<Typed<T>>();
      Begin(*operation, call.method, call.strand, call.caller.uid);
      operation->names.Begin(call.trace.get(), operation->begun);
      running_.emplace(key, operation);
      Start<T>(operation, key, std::move(call.work), call.caller);
    }
    operation->names.Join(call.trace.get(), kMaxWaiters);
    const std::uint64_t waiter = ++last_waiter_;
    operation->replies.emplace(waiter, std::move(call.reply));
    Await(operation, waiter, call.patience);
  }

  // NotFound if the caller has no such operation.
  Result<void> Cancel(const Caller& caller, const std::string& id);

  // Lists the operations in the order of their calls.
  std::vector<OperationStatus> List() const;
  std::vector<MethodStatistics> GetStatistics() const;
  std::size_t running() const { return running_.size(); }
  SpanWish& span_wish() { return span_wish_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Operation;

  // A caller whose patience ends at a deadline.
  struct Waiter {
    std::shared_ptr<Operation> operation;
    std::uint64_t number;
  };
  using Deadlines = std::multimap<Clock::time_point, Waiter>;

  struct Operation {
    virtual ~Operation() = default;
    virtual void AnswerAll(const Error& error) = 0;
    virtual void Answer(std::uint64_t waiter, const Error& error) = 0;

    std::string id;
    std::uint64_t number = 0;  // in the order of the calls
    std::string method;
    std::string object;
    std::uint32_t uid = 0;
    Clock::time_point begun;
    Progress progress;
    // Progress::Status::changes at the last report; nothing: none was sent
    std::optional<std::uint64_t> told;
    CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<Decisions> decisions = std::make_shared<Decisions>();
    bool announced = false;
    std::map<std::uint64_t, Deadlines::iterator> deadlines;  // of its waiters
    OperationNames names;
  };

  template <typename T>
  struct Typed final : Operation {
    void AnswerAll(const Error& error) override {
      for (auto& [waiter, reply] : std::exchange(replies, {})) {
        reply(Result<T>(error));
      }
    }
    void Answer(std::uint64_t waiter, const Error& error) override {
      auto reply = replies.extract(waiter);
      if (!reply.empty()) {
        reply.mapped()(Result<T>(error));
      }
    }
    std::map<std::uint64_t, std::function<void(Result<T>)>> replies;
  };

  struct Timings {
    std::uint64_t calls = 0;
    std::uint64_t errors = 0;
    std::vector<std::uint32_t> last_us;  // a ring
  };

  template <typename T>
  void Start(const std::shared_ptr<Typed<T>>& operation, const std::string& key,
             std::function<Result<T>(const CallContext&)> work,
             const Caller& caller) {
    const CallContext context{caller, operation->cancelled,
                              operation->decisions, operation->progress,
                              operation->names.trace};
    strands_.Submit(operation->object, [this, operation, key, context,
                                        work = std::move(work)] {
      context.progress.At(Step::kWork);
      const CurrentUser user(context.caller.uid);
      const CurrentTrace trace(context.trace.get());
      operation->names.EndQueue();
      // Use a shared_ptr, because the loop copies closures and a Result may not
      // be copyable.
      auto result = std::make_shared<Result<T>>(work(context));
      loop_.Post([this, operation, key, result] {
        running_.erase(key);
        StopWaiting(*operation);
        const Error* error = *result ? nullptr : &result->error();
        for (auto& [waiter, reply] : std::exchange(operation->replies, {})) {
          reply(*result);
        }
        Finish(*operation, error);
      });
    });
  }

  // Returns all facts about the caller that the policy looks at, so that a call
  // joins only an operation with the same rights.
  static std::string IdentityOf(const Caller& caller);
  std::size_t WaitersOf(std::uint32_t uid) const;
  // ResourceExhausted if too many calls run or wait for the user or operation.
  Result<void> Admit(const Operation* joined, std::uint32_t uid) const;
  void Await(const std::shared_ptr<Operation>& operation, std::uint64_t waiter,
             std::chrono::milliseconds patience);
  void StopWaiting(Operation& operation);
  // One timer serves all waiters, because a loop's timer cannot be cancelled.
  void ArmTimer();
  void OnTimer();
  void Begin(Operation& operation, const std::string& method,
             const std::string& object, std::uint32_t uid);
  void Finish(const Operation& operation, const Error* error);
  OperationStatus StatusOf(const Operation& operation) const;
  // Looks at all operations, again and again while there are any.
  void LookLater();
  void TellProgress();

  Loop& loop_;
  Strands& strands_;
  const OnFinished on_finished_;
  const std::uint32_t max_per_uid_;
  const OnProgress on_progress_;
  std::map<std::string, std::shared_ptr<Operation>> running_;
  std::map<std::uint32_t, std::uint32_t> running_of_uid_;
  Deadlines deadlines_;
  Clock::time_point timer_ = Clock::time_point::max();  // when it fires
  bool looks_ = false;  // LookLater's timer is set
  std::map<std::string, Timings> timings_;
  SpanWish span_wish_;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_waiter_ = 0;
};

}  // namespace mountd
