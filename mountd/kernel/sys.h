// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "mountd/base/result.h"

// The outcome of one system call, and its conversion into a Result.
namespace mountd::exec {

// A value, or an errno.
template <typename T>
using Sys = Result<T, int>;

// Turns the outcome into a Result whose Error names the operation and object.
template <typename T>
Result<T> Named(Sys<T> outcome, std::string_view op, std::string_view object) {
  if (!outcome) {
    return ErrnoError(outcome.error(), std::string(op), std::string(object));
  }
  if constexpr (std::is_void_v<T>) {
    return Ok();
  } else {
    return std::move(outcome).value();
  }
}

// Does the same for a call that needs a child process; see ForkError.
template <typename T>
Result<T> NamedOfChild(Sys<T> outcome, std::string_view op,
                       std::string_view object) {
  if (!outcome) {
    return ForkError(outcome.error(), std::string(op), std::string(object));
  }
  return Named(std::move(outcome), op, object);
}

// True if `outcome` failed with just this errno.
template <typename T>
bool FailedWith(const Sys<T>& outcome, int err) {
  return !outcome && outcome.error() == err;
}

}  // namespace mountd::exec
