// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace mountd::testing {

// Returns `succeeded`. If MOUNTD_NAIVE is set in the environment it also prints
// the attack and its outcome, so that a reader sees each attack succeed.
inline bool ReportNaive(bool succeeded, const char* attack) {
  if (std::getenv("MOUNTD_NAIVE") != nullptr) {
    const auto* const test =
        ::testing::UnitTest::GetInstance()->current_test_info();
    std::cout << "naive: " << test->test_suite_name() << "." << test->name()
              << ": " << (succeeded ? "succeeds" : "fails") << ": " << attack
              << std::endl;
  }
  return succeeded;
}

}  // namespace mountd::testing

// Holds if this test's attack succeeds against the naive way, the code that a
// programmer would write first, without mountd's check. This proves that the
// attack works, so a pass against mountd means something. tests/lint/attacks
// requires one in each test of SECURITY.md's list of attacks.
#define EXPECT_NAIVE(attack) \
  EXPECT_TRUE(::mountd::testing::ReportNaive((attack), #attack))
