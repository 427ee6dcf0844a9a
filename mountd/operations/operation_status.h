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

// The reports about operations under way, about operations that have ended, and
// about the number of calls of each method.
namespace mountd {

struct MethodStatistics {
  std::string method;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t median_us = 0;
  std::uint64_t p99_us = 0;
};

// The names that callers gave their calls of one operation. The call that began
// the operation decides its trace. The names of a call that joined are only for
// its line in the log.
struct OperationNames {
  std::shared_ptr<OperationTrace> trace;  // null: the first call gave no names
  std::vector<CallTrace> joined;          // other names, each once

  // `call` is null if the caller gave no names.
  void Begin(const CallTrace* call, OperationTrace::Clock::time_point begun);
  // Keeps at most `most` names, because a caller that gives another name with
  // each call would otherwise fill the memory.
  void Join(const CallTrace* call, std::size_t most);
  // Records how long the operation waited for its turn.
  void EndQueue() const;
};

// Knows whose spans somebody wants to receive. An administrator may want those
// of all operations, and a user those of its own. mountd sends spans only if
// somebody wants them. Otherwise a user who samples each call would fill the
// queues of administrators, who receive all signals. Runs on the loop's thread.
class SpanWish {
 public:
  // Wants the spans of all operations, as long as the returned object lives.
  std::shared_ptr<const void> Make() { return Renewed(&wish_); }
  // Wants the spans of the operations of `uid`, as long as the returned object
  // lives.
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

// The outcome of an operation, for the operation's line in the log. Also the
// outcome of a call or connection that never became an operation; then the id
// is "".
struct OperationSummary {
  std::string id;
  std::string method;
  std::string object;  // its strand, which names the object
  std::uint32_t uid = 0;
  std::chrono::microseconds duration{0};
  const Error* error = nullptr;  // null: success
  std::string rules;             // Decisions::Rules
  bool announced = false;        // a caller got InProgress, so it knows the id
  std::string others{};          // Decisions::Others
  std::uint32_t pid = 0;         // 0: unknown
  // The operation's trace; null: its caller gave no names.
  std::shared_ptr<const OperationTrace> trace = {};
  // The names of calls that joined the operation, without the operation's own.
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
  // True if the report goes only to the caller's own user, because nobody else
  // wants it.
  bool is_callers_alone = false;
};

}  // namespace mountd
