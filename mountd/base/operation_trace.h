// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/error.h"
#include "mountd/base/trace_parent.h"

namespace mountd {

// One piece of an operation's work: the operation itself, or a step of it.
struct Span {
  enum class Kind : std::uint8_t { kServer, kInternal, kClient };

  std::string name;
  Kind kind = Kind::kInternal;
  SpanId id{};
  SpanId parent{};
  std::uint64_t start_ns = 0;  // since the epoch
  std::uint64_t end_ns = 0;
  std::optional<Code> error = {};
};

// Returns "server", "internal" or "client".
std::string_view SpanKindName(Span::Kind kind);

// The trace of one operation: what its caller called it, the operation's own
// span, and the spans of its steps. Exists only for operations whose caller
// gave a traceparent or a request id, so that others pay nothing.
//
// Thread-safe, because several threads may carry out a call.
class OperationTrace {
 public:
  using Clock = std::chrono::steady_clock;
  // The most steps that one operation reports, so that a long operation's
  // report fits into a message. Later steps only count in `left_out`.
  static constexpr std::size_t kMaxSteps = 128;

  // `begun` is when the call came.
  OperationTrace(CallTrace call, Clock::time_point begun);

  const CallTrace& call() const { return call_; }
  // The operation's own span; zeros if the caller gave no traceparent.
  const SpanId& span_id() const { return span_id_; }
  // Whether the operation has a trace, so that its steps have spans.
  bool traced() const { return call_.parent.has_value(); }
  // Whether the caller says that somebody records the trace.
  bool sampled() const { return traced() && call_.parent->sampled(); }

  // Returns the trace's ids that a step sends to its peer: the trace's own id,
  // and the step's span as the parent.
  TraceParent ParentFor(const SpanId& step) const;

  // Records a step that has ended.
  void Add(std::string_view name, Span::Kind kind, const SpanId& id,
           Clock::time_point start, Clock::time_point end,
           std::optional<Code> error);

  // Records that the operation waited for its turn until now: the step "queue".
  void EndQueue();
  // Returns the operation's own span, which ends now, and then its steps. The
  // list is empty unless traced().
  std::vector<Span> Report(std::string_view method,
                           std::optional<Code> error) const;
  std::uint64_t left_out() const;

 private:
  std::uint64_t UnixNanos(Clock::time_point at) const;

  const CallTrace call_;
  const Clock::time_point begun_;
  // The wall clock at `begun_`. mountd reads it once, so that a jump of the
  // wall clock does not change how long a step took.
  const std::uint64_t begun_ns_;
  const SpanId span_id_;
  mutable std::mutex mutex_;
  std::vector<Span> steps_;     // mutex_
  std::uint64_t left_out_ = 0;  // mutex_
};

// Names the trace that this thread works for, while the object lives, so that
// plans and RPCs carry it. Objects of one thread nest, and the innermost one
// counts. `trace` is null for work that has none, and outlives the object.
class CurrentTrace {
 public:
  explicit CurrentTrace(OperationTrace* trace) : outer_(current_) {
    current_ = trace;
  }
  ~CurrentTrace() { current_ = outer_; }
  CurrentTrace(const CurrentTrace&) = delete;
  CurrentTrace& operator=(const CurrentTrace&) = delete;

  static OperationTrace* Get() { return current_; }

 private:
  static inline thread_local OperationTrace* current_ = nullptr;
  OperationTrace* const outer_;
};

// A step of the current operation, from its construction to its end. Does
// nothing if this thread works for no trace.
class StepSpan {
 public:
  StepSpan(std::string_view name, Span::Kind kind)
      : trace_(CurrentTrace::Get()) {
    if (trace_ != nullptr && trace_->traced()) {
      Begin(name, kind);
    }
  }
  ~StepSpan() {
    if (running_) {
      End();
    }
  }
  StepSpan(const StepSpan&) = delete;
  StepSpan& operator=(const StepSpan&) = delete;

  // Returns the ids that this step sends to its peer; nothing if there is no
  // trace.
  std::optional<TraceParent> parent() const {
    return running_ ? std::optional(trace_->ParentFor(running_->id))
                    : std::nullopt;
  }
  void Failed(Code error) {
    if (running_) {
      running_->error = error;
    }
  }

 private:
  struct Running {
    std::string name;
    Span::Kind kind;
    SpanId id;
    OperationTrace::Clock::time_point start;
    std::optional<Code> error;
  };
  void Begin(std::string_view name, Span::Kind kind);
  void End();

  OperationTrace* const trace_;
  std::optional<Running> running_;
};

}  // namespace mountd
