// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/operation_trace.h"

#include <utility>

#include "mountd/base/wall_clock.h"

namespace mountd {

std::string_view SpanKindName(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::kServer:
      return "server";
    case Span::Kind::kClient:
      return "client";
    case Span::Kind::kInternal:
      break;
  }
  return "internal";
}

OperationTrace::OperationTrace(CallTrace call, Clock::time_point begun)
    : call_(std::move(call)),
      begun_(begun),
      begun_ns_(NowMicroseconds() * 1000),
      span_id_(call_.parent ? NewSpanId() : SpanId()) {}

TraceParent OperationTrace::ParentFor(const SpanId& step) const {
  TraceParent parent = *call_.parent;
  parent.span_id = step;
  return parent;
}

std::uint64_t OperationTrace::UnixNanos(Clock::time_point at) const {
  return begun_ns_ +
         static_cast<std::uint64_t>(
             std::chrono::duration_cast<std::chrono::nanoseconds>(at - begun_)
                 .count());
}

void OperationTrace::Add(std::string_view name, Span::Kind kind,
                         const SpanId& id, Clock::time_point start,
                         Clock::time_point end, std::optional<Code> error) {
  if (!traced()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (steps_.size() >= kMaxSteps) {
    ++left_out_;
    return;
  }
  steps_.push_back({std::string(name), kind, id, span_id_, UnixNanos(start),
                    UnixNanos(end), error});
}

void OperationTrace::EndQueue() {
  if (traced()) {
    Add("queue", Span::Kind::kInternal, NewSpanId(), begun_, Clock::now(),
        std::nullopt);
  }
}

std::vector<Span> OperationTrace::Report(std::string_view method,
                                         std::optional<Code> error) const {
  if (!traced()) {
    return {};
  }
  std::vector<Span> all = {{std::string(method), Span::Kind::kServer, span_id_,
                            call_.parent->span_id, UnixNanos(begun_),
                            UnixNanos(Clock::now()), error}};
  const std::lock_guard lock(mutex_);
  all.insert(all.end(), steps_.begin(), steps_.end());
  return all;
}

std::uint64_t OperationTrace::left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_;
}

void StepSpan::Begin(std::string_view name, Span::Kind kind) {
  running_ = {std::string(name), kind, NewSpanId(),
              OperationTrace::Clock::now(), std::nullopt};
}

void StepSpan::End() {
  trace_->Add(running_->name, running_->kind, running_->id, running_->start,
              OperationTrace::Clock::now(), running_->error);
}

}  // namespace mountd
