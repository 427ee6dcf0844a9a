// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/operations/operations.h"

#include <unistd.h>

#include <algorithm>

namespace mountd {
namespace {

constexpr std::size_t kRememberedTimings = 1024;

// `sorted` is not empty, because a method gets timings when its first call
// ends.
std::uint64_t Quantile(const std::vector<std::uint32_t>& sorted,
                       std::size_t percent) {
  return sorted[(sorted.size() - 1) * percent / 100];
}

}  // namespace

void OperationNames::Begin(const CallTrace* call,
                           OperationTrace::Clock::time_point begun) {
  if (call != nullptr) {
    trace = std::make_shared<OperationTrace>(*call, begun);
  }
}

void OperationNames::Join(const CallTrace* call, std::size_t most) {
  if (call == nullptr || joined.size() >= most ||
      (trace != nullptr && trace->call() == *call) ||
      std::find(joined.begin(), joined.end(), *call) != joined.end()) {
    return;
  }
  joined.push_back(*call);
}

void OperationNames::EndQueue() const {
  if (trace != nullptr) {
    trace->EndQueue();
  }
}

std::shared_ptr<const void> SpanWish::Renewed(std::weak_ptr<const void>* wish) {
  std::shared_ptr<const void> made = wish->lock();
  if (made == nullptr) {
    made = std::make_shared<const int>(0);
    *wish = made;
  }
  return made;
}

void Operations::Begin(Operation& operation, const std::string& method,
                       const std::string& object, std::uint32_t uid) {
  // The pid distinguishes ids of different runs of mountd.
  operation.number = ++last_id_;
  operation.id =
      std::to_string(getpid()) + "." + std::to_string(operation.number);
  operation.method = method;
  operation.object = object;
  operation.uid = uid;
  operation.begun = Clock::now();
  ++running_of_uid_[uid];
  LookLater();
}

OperationStatus Operations::StatusOf(const Operation& operation) const {
  return {operation.id,
          operation.method,
          operation.object,
          operation.uid,
          std::chrono::duration_cast<std::chrono::milliseconds>(
              Clock::now() - operation.begun),
          static_cast<std::uint32_t>(operation.deadlines.size()),
          operation.cancelled->load(),
          operation.progress.Get(),
          operation.names.trace};
}

std::vector<OperationStatus> Operations::List() const {
  std::map<std::uint64_t, const Operation*> in_order;
  for (const auto& [key, operation] : running_) {
    in_order.emplace(operation->number, operation.get());
  }
  std::vector<OperationStatus> all;
  all.reserve(in_order.size());
  for (const auto& [number, operation] : in_order) {
    all.push_back(StatusOf(*operation));
  }
  return all;
}

// Looks at all operations by a timer. Workers do not report their progress at
// once, because most operations end before anybody could read a report.
void Operations::LookLater() {
  if (looks_) {
    return;
  }
  looks_ = true;
  loop_.After(kBetweenLooks, [this] {
    looks_ = false;
    TellProgress();
    if (!running_.empty()) {
      LookLater();
    }
  });
}

void Operations::TellProgress() {
  for (const auto& [key, operation] : running_) {
    const OperationStatus status = StatusOf(*operation);
    if (status.elapsed >= kBetweenLooks &&
        operation->told != status.progress.changes) {
      operation->told = status.progress.changes;
      on_progress_(status);
    }
  }
}

std::string Operations::IdentityOf(const Caller& caller) {
  std::string text =
      std::to_string(caller.uid) + " " + std::to_string(caller.gid);
  for (const std::uint32_t group : caller.groups) {
    text += " " + std::to_string(group);
  }
  return text + " " + caller.authority + " " + caller.authority_subject + "\n";
}

std::size_t Operations::WaitersOf(std::uint32_t uid) const {
  std::size_t count = 0;
  for (const auto& [key, operation] : running_) {
    count += operation->uid == uid ? operation->deadlines.size() : 0;
  }
  return count;
}

Result<void> Operations::Admit(const Operation* joined,
                               std::uint32_t uid) const {
  if (joined != nullptr) {
    return joined->deadlines.size() < kMaxWaiters &&
                   WaitersOf(uid) < std::max(kMaxWaiters, 4 * max_per_uid_)
               ? Ok()
               : Result<void>(MakeError(Code::kResourceExhausted,
                                        joined->method, joined->object,
                                        "too many callers wait for this "
                                        "operation; call again later"));
  }
  const auto running = running_of_uid_.find(uid);
  if (running != running_of_uid_.end() && running->second >= max_per_uid_) {
    return MakeError(Code::kResourceExhausted, "start", "operation",
                     "limits.operations_per_uid is reached; wait until other "
                     "calls of this user end");
  }
  return Ok();
}

void Operations::Await(const std::shared_ptr<Operation>& operation,
                       std::uint64_t waiter,
                       std::chrono::milliseconds patience) {
  operation->deadlines[waiter] =
      deadlines_.emplace(Clock::now() + patience, Waiter{operation, waiter});
  ArmTimer();
}

void Operations::StopWaiting(Operation& operation) {
  for (const auto& [waiter, deadline] :
       std::exchange(operation.deadlines, {})) {
    deadlines_.erase(deadline);
  }
}

void Operations::ArmTimer() {
  if (deadlines_.empty() || deadlines_.begin()->first >= timer_) {
    return;
  }
  timer_ = deadlines_.begin()->first;
  loop_.After(std::chrono::ceil<std::chrono::milliseconds>(
                  std::max(timer_ - Clock::now(), Clock::duration::zero())),
              [this, due = timer_] {
                // A timer that was replaced by an earlier one does nothing.
                if (due == timer_) {
                  OnTimer();
                }
              });
}

void Operations::OnTimer() {
  timer_ = Clock::time_point::max();
  while (!deadlines_.empty() && deadlines_.begin()->first <= Clock::now()) {
    const Waiter waiter = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    Operation& operation = *waiter.operation;
    operation.deadlines.erase(waiter.number);
    // The caller learns the id now, so mountd announces the operation's end.
    operation.announced = true;
    operation.Answer(waiter.number,
                     MakeError(Code::kInProgress, "", "", operation.id));
  }
  ArmTimer();
}

void Operations::Finish(const Operation& operation, const Error* error) {
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(
      Clock::now() - operation.begun);
  if (const auto running = running_of_uid_.find(operation.uid);
      --running->second == 0) {
    running_of_uid_.erase(running);
  }
  Timings& timings = timings_[operation.method];
  const auto capped = static_cast<std::uint32_t>(
      std::min<std::int64_t>(duration.count(), UINT32_MAX));
  if (timings.last_us.size() < kRememberedTimings) {
    timings.last_us.push_back(capped);
  } else {
    timings.last_us[timings.calls % kRememberedTimings] = capped;
  }
  ++timings.calls;
  timings.errors += error != nullptr ? 1 : 0;
  // An operation whose spans are wanted reports them, however short it was.
  const OperationTrace* const trace = operation.names.trace.get();
  const bool wished = span_wish_.IsThere();
  const bool reports_spans =
      trace != nullptr &&
      (trace->sampled() ||
       (trace->traced() && (wished || span_wish_.IsThereOf(operation.uid))));
  if (operation.told || reports_spans) {
    OperationStatus last = StatusOf(operation);
    // Subscribers have seen the operation, so they must see its end.
    last.progress.step = Step::kEnd;
    last.progress.attempt = 0;
    last.progress.error =
        error != nullptr ? std::optional(error->code) : std::nullopt;
    last.is_callers_alone = !operation.told && !wished;
    if (reports_spans) {
      last.spans = trace->Report(operation.method, last.progress.error);
    }
    on_progress_(last);
  }
  on_finished_({operation.id, operation.method, operation.object, operation.uid,
                duration, error, operation.decisions->Rules(),
                operation.announced, operation.decisions->Others(),
                /*pid=*/0, operation.names.trace, operation.names.joined});
}

Result<void> Operations::Cancel(const Caller& caller, const std::string& id) {
  for (const auto& [key, operation] : running_) {
    if (operation->id == id && operation->uid == caller.uid) {
      *operation->cancelled = true;
      StopWaiting(*operation);
      operation->AnswerAll(
          MakeError(Code::kAborted, operation->method, "", "was cancelled"));
      return Ok();
    }
  }
  return MakeError(Code::kNotFound, "cancel", "operation",
                   "has ended or does not exist");
}

std::vector<MethodStatistics> Operations::GetStatistics() const {
  std::vector<MethodStatistics> all;
  for (const auto& [method, timings] : timings_) {
    std::vector<std::uint32_t> sorted = timings.last_us;
    std::sort(sorted.begin(), sorted.end());
    all.push_back({method, timings.calls, timings.errors, Quantile(sorted, 50),
                   Quantile(sorted, 99)});
  }
  return all;
}

}  // namespace mountd
