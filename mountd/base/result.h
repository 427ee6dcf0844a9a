// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdlib>
#include <utility>
#include <variant>

#include "mountd/base/error.h"

// Result<T> is a value or an Error. It is shaped as std::expected, so that it
// can become an alias of std::expected when every supported compiler has that
// (clang 14 does not).
//
//   Result<Lease> lease = ipam.Allocate(id);
//   if (!lease) return lease.error();
//   Use(lease->address);
//
// Or, to pass failures on:   MOUNTD_ASSIGN(Lease lease, ipam.Allocate(id));
//                            MOUNTD_TRY(store.Put(lease));
namespace mountd {

template <typename E>
class Unexpected {
 public:
  explicit Unexpected(E error) : error_(std::move(error)) {}
  E&& take() { return std::move(error_); }

 private:
  E error_;
};

template <typename T, typename E = Error>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = E;

  // The constructors are implicit, as of std::expected, so that a function can
  // return either its value or its error.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}
  Result(Unexpected<E> error) : state_(std::in_place_index<1>, error.take()) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // Aborts if that side is not there, because the caller has a bug.
  T& value() & { return *Checked(std::get_if<0>(&state_)); }
  const T& value() const& { return *Checked(std::get_if<0>(&state_)); }
  T&& value() && { return std::move(*Checked(std::get_if<0>(&state_))); }
  E& error() & { return *Checked(std::get_if<1>(&state_)); }
  const E& error() const& { return *Checked(std::get_if<1>(&state_)); }
  E&& error() && { return std::move(*Checked(std::get_if<1>(&state_))); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  template <typename P>
  static P* Checked(P* side) {
    if (side == nullptr) {
      std::abort();
    }
    return side;
  }

  std::variant<T, E> state_;
};

template <typename E>
class [[nodiscard]] Result<void, E> {
 public:
  using value_type = void;
  using error_type = E;

  Result() = default;
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}
  Result(Unexpected<E> error) : state_(std::in_place_index<1>, error.take()) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (!has_value()) {
      std::abort();
    }
  }
  E& error() & { return *Checked(std::get_if<1>(&state_)); }
  const E& error() const& { return *Checked(std::get_if<1>(&state_)); }
  E&& error() && { return std::move(*Checked(std::get_if<1>(&state_))); }

 private:
  template <typename P>
  static P* Checked(P* side) {
    if (side == nullptr) {
      std::abort();
    }
    return side;
  }

  std::variant<std::monostate, E> state_;
};

inline Result<void> Ok() { return {}; }

// Drops a result on purpose. The name tells the reader at the call site that
// failing is acceptable there.
template <typename T, typename E>
void IgnoreBecauseBestEffort(const Result<T, E>& /*result*/) {}

}  // namespace mountd

#define MOUNTD_CONCAT_INNER(a, b) a##b
#define MOUNTD_CONCAT(a, b) MOUNTD_CONCAT_INNER(a, b)

// NOLINTBEGIN(bugprone-macro-parentheses): names and a declaration stand bare
// Returns the error of `expr` from the enclosing function, if it has one. The
// counter makes the variable's name unique, because `expr` may hold a lambda
// that uses this macro too.
#define MOUNTD_TRY(expr) \
  MOUNTD_TRY_IMPL(MOUNTD_CONCAT(mountd_try_, __COUNTER__), expr)
#define MOUNTD_TRY_IMPL(tmp, expr)   \
  do {                               \
    if (auto tmp = (expr); !tmp) {   \
      return std::move(tmp).error(); \
    }                                \
  } while (false)

// Declares `decl` with the value of `expr`, or returns the error from the
// enclosing function.
#define MOUNTD_ASSIGN(decl, expr) \
  MOUNTD_ASSIGN_IMPL(MOUNTD_CONCAT(mountd_assign_, __COUNTER__), decl, expr)
#define MOUNTD_ASSIGN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                        \
  if (!tmp) {                               \
    return std::move(tmp).error();          \
  }                                         \
  decl = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)
