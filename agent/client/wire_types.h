// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "agent/fields/field.h"
#include "dbus/dict/value.h"

// Internal to agent/. Says which D-Bus type a member of types.h has in the
// contract, and converts plain values between the two.
namespace mountd::agent {

using Bytes = std::vector<std::uint8_t>;

template <typename M>
concept MapOfFields = requires {
  typename M::mapped_type;
  requires HasFields<typename M::mapped_type>;
};

template <Form kForm, typename M>
struct WireType {
  using Type = M;
};
template <Form kForm, typename M>
using WireOf = typename WireType<kForm, M>::Type;

// The struct that has the first `kCount` fields of T in order.
template <typename T, typename Index>
struct RowType;
template <typename T, std::size_t... kIndex>
struct RowType<T, std::index_sequence<kIndex...>> {
  template <std::size_t kAt>
  using At =
      std::tuple_element_t<kAt,
                           std::remove_const_t<decltype(FieldsOf<T>::kList)>>;
  using Type =
      sdbus::Struct<WireOf<At<kIndex>::kHow, typename At<kIndex>::Member>...>;
};
template <typename T, std::size_t kCount = std::tuple_size_v<
                          std::remove_const_t<decltype(FieldsOf<T>::kList)>>>
using RowOf = typename RowType<T, std::make_index_sequence<kCount>>::Type;

template <>
struct WireType<Form::kPath, std::string> {
  using Type = Bytes;
};
template <>
struct WireType<Form::kFd, int> {
  using Type = sdbus::UnixFd;
};
template <Form kForm>
struct WireType<kForm, Timestamp> {
  using Type = std::uint64_t;
};
template <Form kForm>
struct WireType<kForm, std::chrono::milliseconds> {
  using Type = std::conditional_t<kForm == Form::kMillis32, std::uint32_t,
                                  std::uint64_t>;
};
template <Form kForm>
requires(IsCapabilities(kForm))
struct WireType<kForm, std::vector<std::string>> {
  using Type = std::vector<std::int32_t>;
};
// An enum is a text in the contract.
template <Form kForm, typename M>
requires std::is_enum_v<M>
struct WireType<kForm, M> {
  using Type = std::string;
};
template <Form kForm, typename M>
struct WireType<kForm, std::optional<M>> {
  using Type = WireOf<kForm, M>;
};
template <Form kForm, HasFields M>
struct WireType<kForm, M> {
  using Type = dbus::Dict;
};
template <Form kForm, HasFields E>
struct WireType<kForm, std::vector<E>> {
  using Type = std::vector<dbus::Dict>;
};
template <HasFields E>
struct WireType<Form::kRows, std::vector<E>> {
  using Type = std::vector<RowOf<E>>;
};
template <HasFields E>
struct WireType<Form::kPairs, std::vector<E>> {
  using Type = std::vector<RowOf<E, 2>>;
};
template <Form kForm, HasFields E>
struct WireType<kForm, std::map<std::string, E>> {
  using Type = std::map<std::string, RowOf<E>>;
};

template <typename M>
void FromWire(const M& value, M& member) {
  member = value;
}
inline void FromWire(const Bytes& bytes, std::string& member) {
  member.assign(bytes.begin(), bytes.end());
}
template <typename Rep, typename Period>
void FromWire(std::uint64_t count, std::chrono::duration<Rep, Period>& member) {
  member = std::chrono::duration<Rep, Period>(static_cast<Rep>(count));
}
inline Timestamp ToTimestamp(std::uint64_t microseconds) {
  return Timestamp(
      std::chrono::microseconds(static_cast<std::int64_t>(microseconds)));
}
inline void FromWire(std::uint64_t microseconds, Timestamp& member) {
  member = ToTimestamp(microseconds);
}

}  // namespace mountd::agent
