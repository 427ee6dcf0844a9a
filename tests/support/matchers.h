// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "mountd/base/result.h"

// Matchers of results, and the assertion that takes a result's value:
//
//   EXPECT_THAT(mounts.Recover(), IsOk());
//   EXPECT_THAT(mounts.Get("web"), IsErr(Code::kNotFound));
//   EXPECT_THAT(parsed, IsErrOf(Code::kInvalidArgument, "mountd.toml:2"));
//   ASSERT_OK_AND_ASSIGN(const Lease lease, pool.Take("web"));
//
// Each failure prints the result's error: its name and its whole text.
namespace mountd {

// Returns "NotFound: openat2 web: ... (ENOENT)".
inline std::string ErrorText(const Error& error) {
  return std::string(CodeName(error.code)) + ": " + error.Message();
}

// GoogleTest finds this function by its name and prints a result with it.
template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  *out << (result ? "Ok" : ErrorText(result.error()));
}

// Matches a success of any type.
class IsOk {
 public:
  using is_gtest_matcher = void;

  template <typename T>
  bool MatchAndExplain(const Result<T>& result,
                       std::ostream* /*explanation*/) const {
    return result.has_value();
  }
  void DescribeTo(std::ostream* out) const { *out << "is Ok"; }
  void DescribeNegationTo(std::ostream* out) const { *out << "is an error"; }
};

// Matches an error of this code whose text (Error::Message) contains `part`.
class IsErrOf {
 public:
  using is_gtest_matcher = void;

  IsErrOf(Code code, std::string part) : code_(code), part_(std::move(part)) {}

  template <typename T>
  bool MatchAndExplain(const Result<T>& result,
                       std::ostream* /*explanation*/) const {
    return !result && result.error().code == code_ &&
           result.error().Message().find(part_) != std::string::npos;
  }
  void DescribeTo(std::ostream* out) const { Describe("is ", out); }
  void DescribeNegationTo(std::ostream* out) const { Describe("is not ", out); }

 private:
  void Describe(const char* verb, std::ostream* out) const {
    *out << verb << CodeName(code_);
    if (!part_.empty()) {
      *out << " with \"" << part_ << "\" in its text";
    }
  }

  Code code_;
  std::string part_;
};

// Matches an error of this code.
inline IsErrOf IsErr(Code code) { return {code, ""}; }

}  // namespace mountd

// Declares `decl` with the value of `expr`. Ends the test with the error's text
// if `expr` has none.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration stands bare
#define ASSERT_OK_AND_ASSIGN(decl, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL(MOUNTD_CONCAT(assert_ok_, __COUNTER__), decl, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL(result, decl, expr) \
  auto result = (expr);                               \
  ASSERT_THAT(result, ::mountd::IsOk());              \
  decl = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
