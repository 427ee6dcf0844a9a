// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mountd/base/error.h"
#include "mountd/base/operation_trace.h"
#include "mountd/base/progress.h"

// Reports on operations: one that is under way, one that has ended, and the
// counts of a method.
namespace mountd {

struct MethodStatistics {
  std::string method;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t median_us = 0;
  std::uint64_t p99_us = 0;
};

// The names that callers gave an operation. The call that began it decides its
// trace. A call that joins is only remembered, for its line in the log.
struct OperationNames {
  std::shared_ptr<OperationTrace> trace;  // null: the first call gave no names
  std::vector<CallTrace> joined;          // other names, each once

  // `call` is null if the caller gave no names.
  void Begin(const CallTrace* call, OperationTrace::Clock::time_point begun);
  // Keeps `most` names, because a caller that always gives other names would
  // fill the memory.
  void Join(const CallTrace* call, std::size_t most);
  // Records how long the operation waited for its turn.
  void EndQueue() const;
};

// Knows whose spans somebody asks for: those of all operations, which only an
// administrator may ask for, or those of one user's. Without a wish a user who
// samples each call would fill the queues of administrators, who see all
// signals. Runs on the loop's thread.
class SpanWish {
 public:
  // The wish lasts as long as an object that this function returned.
  std::shared_ptr<const void> Make() { return Renewed(&wish_); }
  // The same for the operations of `uid` alone.
  std::shared_ptr<const void> MakeOf(std::uint32_t uid) {
    std::erase_if(of_user_,
                  [](const auto& entry) { return entry.second.expired(); });
    return Renewed(&of_user_[uid]);
  }
  bool IsThere() const { return !wish_.expired(); }
  bool IsThereOf(std::uint32_t uid) const {
    const auto found = of_user_.find(uid);
    return found != of_user_.end() && !found->second.expired();
  }

 private:
  static std::shared_ptr<const void> Renewed(std::weak_ptr<const void>* wish);

  std::weak_ptr<const void> wish_;
  std::map<std::uint32_t, std::weak_ptr<const void>> of_user_;
};

// The outcome of an operation, for its one log line. Also that of a call or a
// connection that never became an operation; its id is "".
struct OperationSummary {
  std::string id;
  std::string method;
  std::string object;  // its strand, which names the object
  std::uint32_t uid = 0;
  std::chrono::microseconds duration{0};
  const Error* error = nullptr;  // null: success
  std::string rules;             // Decisions::Rules
  bool announced = false;        // some caller was answered InProgress
  std::string others{};          // Decisions::Others
  std::uint32_t pid = 0;         // 0: not told
  // The operation's trace; null: its caller gave no names.
  std::shared_ptr<const OperationTrace> trace = {};
  // The names that calls gave which joined the operation, other than its own.
  std::vector<CallTrace> joined = {};
};

// An operation that is running or queued.
struct OperationStatus {
  std::string id;
  std::string method;
  std::string object;
  std::uint32_t uid = 0;
  std::chrono::milliseconds elapsed{0};  // since the call
  std::uint32_t waiters = 0;
  bool cancelled = false;
  Progress::Status progress;
  // Null: the first caller gave no names.
  std::shared_ptr<const OperationTrace> trace = {};
  std::vector<Span> spans = {};  // at the end of an operation that reports them
  // The report is for the caller's own user, because nobody else asked for it.
  bool is_callers_alone = false;
};

}  // namespace mountd
