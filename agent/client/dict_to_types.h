// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/client/capability_names.h"
#include "agent/client/wire_types.h"
#include "agent/fields/field.h"
#include "dbus/dict/value.h"
#include "mountd/base/result.h"

// Internal to agent/. Converts the contract's dictionaries to the types of
// types.h, by the lists of agent/fields/. A key that an answer lacks leaves its
// field at the default. Keys that this release does not know are ignored.
// Internal if a value has another type than the contract says.
namespace mountd::agent {

template <HasFields T>
Result<T> FromDict(const dbus::Dict& map);

template <HasFields T>
Result<std::vector<T>> FromDicts(const std::vector<dbus::Dict>& maps) {
  std::vector<T> list;
  list.reserve(maps.size());
  for (const dbus::Dict& map : maps) {
    MOUNTD_ASSIGN(T element, FromDict<T>(map));
    list.push_back(std::move(element));
  }
  return list;
}

// Converts one struct of an answer, whose members are the fields in order.
template <HasFields T, typename... W>
T FromRow(const sdbus::Struct<W...>& row) {
  T value{};
  const auto set = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (FromWire(std::get<kIndex>(row),
              value.*std::get<kIndex>(FieldsOf<T>::kList).member),
     ...);
  };
  set(std::index_sequence_for<W...>());
  return value;
}

template <HasFields T, typename Row>
std::vector<T> FromRows(const std::vector<Row>& rows) {
  std::vector<T> list;
  list.reserve(rows.size());
  for (const Row& row : rows) {
    list.push_back(FromRow<T>(row));
  }
  return list;
}

// Converts a value of a dictionary, and stores it in the member.
template <typename W, typename M>
Result<void> Assign(W value, M& member) {
  if constexpr (requires { member.has_value(); }) {
    return Assign(std::move(value), member.emplace());
  } else if constexpr (std::is_same_v<W, dbus::Dict>) {
    MOUNTD_ASSIGN(member, FromDict<M>(value));
  } else if constexpr (std::is_same_v<W, std::vector<dbus::Dict>>) {
    MOUNTD_ASSIGN(member, FromDicts<typename ElementOf<M>::Type>(value));
  } else if constexpr (ListOfFields<M>) {
    member = FromRows<typename ElementOf<M>::Type>(value);
  } else if constexpr (MapOfFields<M>) {
    for (const auto& [key, row] : value) {
      member[key] = FromRow<typename M::mapped_type>(row);
    }
  } else {
    FromWire(value, member);
  }
  return Ok();
}

template <Form kForm = Form::kPlain, typename M>
Result<void> ReadKey(const dbus::Dict& map, const char* key, M& member) {
  using Wire = WireOf<kForm, M>;
  const auto found = map.find(key);
  if (found == map.end()) {
    return Ok();
  }
  if (!found->second.template containsValueOfType<Wire>()) {
    return MakeError(Code::kInternal, "answer", key,
                     "has another type than the API says");
  }
  return Assign(found->second.template get<Wire>(), member);
}

template <typename T, Form kForm, typename M>
Result<void> ReadField(const dbus::Dict& map, const Field<kForm, T, M>& field,
                       T& value) {
  M& member = value.*field.member;
  if constexpr (kForm == Form::kSame) {
    MOUNTD_ASSIGN(member, FromDict<M>(map));
  } else if constexpr (kForm == Form::kPresent) {
    member = map.contains(field.key);
  } else if constexpr (IsCapabilities(kForm)) {
    std::vector<std::int32_t> numbers;
    MOUNTD_TRY(ReadKey(map, field.key, numbers));
    member = CapabilityNames(kForm, numbers);
  } else {
    return ReadKey<kForm>(map, field.key, member);
  }
  return Ok();
}

template <HasFields T>
Result<T> FromDict(const dbus::Dict& map) {
  T value{};
  Result<void> outcome = Ok();
  ForEachField(FieldsOf<T>::kList, [&](const auto& field) {
    if (outcome) {
      outcome = ReadField(map, field, value);
    }
  });
  MOUNTD_TRY(std::move(outcome));
  return value;
}

}  // namespace mountd::agent
