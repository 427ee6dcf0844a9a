// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The executor's bound of its own memory. A sanitizer's executor has none.
#include "mountd/exec/restrict_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "mountd/base/out_of_memory.h"
#include "mountd/kernel/real_kernel.h"

namespace mountd::exec {
namespace {

#ifndef MOUNTD_SANITIZED
constexpr int kYes = 7;
constexpr int kNo = 8;

int HasRoomFor(std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
             ? kNo
             : kYes;
}

rlimit DataLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_DATA, &limit);
  return limit;
}

// Allocates as the executor does, and ends the process.
[[noreturn]] void Allocate(int times, std::size_t bytes) {
  EndWhenOutOfMemory("mountd-exec");
  if (!RestrictMemory()) {
    std::_Exit(kNo);
  }
  for (int i = 0; i < times; ++i) {
    static_cast<void>(::operator new(bytes));
  }
  std::_Exit(kYes);
}

[[noreturn]] void AllocateInAChild() {
  if (!RestrictMemory() || HasRoomFor(kMaxMemory) == kYes) {
    std::_Exit(kNo);
  }
  RealKernel kernel;
  const Sys<std::uint8_t> status = kernel.RunChild(
      [] { return HasRoomFor(kMaxMemory); }, {}, std::chrono::seconds(10));
  std::_Exit(status ? int{*status} : kNo);
}

[[noreturn]] void RestrictTwice() {
  const rlim_t hard = DataLimit().rlim_max;
  bool same = RestrictMemory() && DataLimit().rlim_cur == kMaxMemory;
  const rlimit lower{kMaxMemory / 2, hard};
  same = same && ::setrlimit(RLIMIT_DATA, &lower) == 0 && RestrictMemory();
  same = same && DataLimit().rlim_cur == lower.rlim_cur &&
         DataLimit().rlim_max == hard;
  std::_Exit(same ? kYes : kNo);
}

TEST(RestrictMemoryDeathTest, AnAllocationBeyondItEndsTheExecutor) {
  EXPECT_EXIT(Allocate(2, kMaxMemory / 2), ::testing::KilledBySignal(SIGABRT),
              "^mountd-exec: out of memory\n$");
  EXPECT_EXIT(Allocate(1, kMaxMemory / 2), ::testing::ExitedWithCode(kYes), "");
}

// A mount helper's FUSE server outlives the plan, and may need more.
TEST(RestrictMemoryDeathTest, AProgramThatTheExecutorStartsHasNoSuchBound) {
  EXPECT_EXIT(AllocateInAChild(), ::testing::ExitedWithCode(kYes), "");
}

TEST(RestrictMemoryDeathTest, ALowerLimitAndTheHardOneStay) {
  EXPECT_EXIT(RestrictTwice(), ::testing::ExitedWithCode(kYes), "");
}
#endif

}  // namespace
}  // namespace mountd::exec
