// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/operation_trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace mountd {
namespace {

constexpr char kSampled[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr char kNotSampled[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

OperationTrace TraceOf(const char* parent) {
  return {{ParseTraceParent(parent), "r1"}, OperationTrace::Clock::now()};
}

TEST(OperationTraceTest, StepsAreChildrenOfTheOperation) {
  OperationTrace trace = TraceOf(kSampled);
  const CurrentTrace current(&trace);
  std::string passed_on;
  {
    StepSpan step("plan Attach", Span::Kind::kClient);
    passed_on = ToText(*step.parent());
    step.Failed(Code::kBusy);
  }
  const std::vector<Span> all = trace.Report("BindMount", std::nullopt);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "BindMount");
  EXPECT_EQ(all[0].kind, Span::Kind::kServer);
  EXPECT_EQ(all[0].id, trace.span_id());
  EXPECT_EQ(all[0].parent, ParseTraceParent(kSampled)->span_id);
  EXPECT_EQ(all[0].error, std::nullopt);
  EXPECT_EQ(all[1].name, "plan Attach");
  EXPECT_EQ(all[1].parent, trace.span_id());
  EXPECT_EQ(all[1].error, Code::kBusy);
  EXPECT_NE(all[1].id, all[0].id);
  EXPECT_EQ(passed_on,
            "00-0af7651916cd43dd8448eb211c80319c-" + ToHex(all[1].id) + "-01");
}

TEST(OperationTraceTest, AStepLiesWithinItsOperationByTheWallClock) {
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  OperationTrace trace = TraceOf(kSampled);
  {
    const CurrentTrace current(&trace);
    const StepSpan step("plan Attach", Span::Kind::kClient);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::vector<Span> all = trace.Report("BindMount", std::nullopt);
  const auto nanos = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(before).count());
  // The wall clock is read in microseconds.
  EXPECT_GE(all[0].start_ns + 1000, nanos);
  EXPECT_LT(all[0].start_ns, nanos + 60'000'000'000U);
  EXPECT_LE(all[0].start_ns, all[1].start_ns);
  EXPECT_GE(all[1].end_ns, all[1].start_ns + 2'000'000);
  EXPECT_GE(all[0].end_ns, all[1].end_ns);
}

// The ids go on all the same, because the next program decides by the flag.
TEST(OperationTraceTest, WhatIsNotSampledSaysSo) {
  OperationTrace trace = TraceOf(kNotSampled);
  const CurrentTrace current(&trace);
  {
    const StepSpan step("plan Attach", Span::Kind::kClient);
    ASSERT_TRUE(step.parent());
    EXPECT_FALSE(step.parent()->sampled());
  }
  EXPECT_FALSE(trace.sampled());
  // A subscriber may ask for these.
  EXPECT_EQ(trace.Report("BindMount", std::nullopt).size(), 2U);
}

TEST(OperationTraceTest, ARequestIdAloneIsNoTrace) {
  OperationTrace trace({std::nullopt, "r1"}, OperationTrace::Clock::now());
  const CurrentTrace current(&trace);
  EXPECT_EQ(StepSpan("plan Attach", Span::Kind::kClient).parent(),
            std::nullopt);
  EXPECT_EQ(trace.span_id(), SpanId());
  EXPECT_TRUE(trace.Report("BindMount", std::nullopt).empty());
}

TEST(OperationTraceTest, WorkOfNoTraceHasNoStep) {
  EXPECT_EQ(StepSpan("plan Attach", Span::Kind::kClient).parent(),
            std::nullopt);
  OperationTrace trace = TraceOf(kSampled);
  const CurrentTrace outer(&trace);
  {
    const CurrentTrace inner(nullptr);
    EXPECT_EQ(CurrentTrace::Get(), nullptr);
  }
  EXPECT_EQ(CurrentTrace::Get(), &trace);
}

TEST(OperationTraceTest, StepsBeyondTheBoundAreOnlyCounted) {
  OperationTrace trace = TraceOf(kSampled);
  const CurrentTrace current(&trace);
  for (std::size_t i = 0; i < OperationTrace::kMaxSteps + 3; ++i) {
    const StepSpan step("plan Attach", Span::Kind::kClient);
  }
  EXPECT_EQ(trace.Report("BindMount", std::nullopt).size(),
            OperationTrace::kMaxSteps + 1);
  EXPECT_EQ(trace.left_out(), 3U);
}

}  // namespace
}  // namespace mountd
