// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// "Ok" or the error's name: what a test compares, and can read when it differs.
template <typename T>
std::string Outcome(const Result<T>& result) {
  return result ? "Ok" : std::string(CodeName(result.error().code));
}

// The same with the whole text, where that is what is tested.
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result ? "Ok" : result.error().Message();
}

}  // namespace mountd
