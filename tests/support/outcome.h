// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// Returns "Ok" or the error's name, so that a failed comparison is readable.
template <typename T>
std::string Outcome(const Result<T>& result) {
  return result ? "Ok" : std::string(CodeName(result.error().code));
}

// Returns "Ok" or the error's whole text, for tests of that text.
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result ? "Ok" : result.error().Message();
}

}  // namespace mountd
