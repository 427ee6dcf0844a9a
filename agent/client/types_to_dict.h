// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/client/wire_types.h"

// Internal to agent/. Converts the types of types.h to the contract's
// dictionaries, by the lists of agent/fields/. Leaves out the key of a member
// that is empty, false or 0, because mountd then uses its own default. A field
// listed with Always has its key in any case.
namespace mountd::agent {

// The contract's words.
std::string ToWire(SourceType type);
std::string ToWire(Propagation propagation);
std::string ToWire(PluginType type);
std::string ToWire(UnmountMode mode);
// Returns the option "tasks", or nothing for kRefuse, which is the default.
dbus::Dict ToOptions(OnTasks on_tasks);
dbus::Dict ToOptions(OnTasks on_tasks, OnlyIf only_if);

template <HasFields T>
dbus::Dict ToDict(const T& value);

template <HasFields T>
std::vector<dbus::Dict> ToDicts(const std::vector<T>& list) {
  std::vector<dbus::Dict> dicts;
  dicts.reserve(list.size());
  for (const T& value : list) {
    dicts.push_back(ToDict(value));
  }
  return dicts;
}

template <HasFields T>
RowOf<T> ToRow(const T& value) {
  return std::apply(
      [&](const auto&... field) { return RowOf<T>(value.*field.member...); },
      FieldsOf<T>::kList);
}

template <HasFields T>
std::vector<RowOf<T>> ToRows(const std::vector<T>& list) {
  std::vector<RowOf<T>> rows;
  rows.reserve(list.size());
  for (const T& value : list) {
    rows.push_back(ToRow(value));
  }
  return rows;
}

template <Form kForm, typename M>
bool IsEmpty(const M& member) {
  if constexpr (kForm == Form::kFd) {
    return member < 0;
  } else if constexpr (requires { member.has_value(); }) {
    return !member.has_value();
  } else if constexpr (requires { member.empty(); }) {
    return member.empty();
  } else {
    return member == M{};
  }
}

template <Form kForm, typename M>
WireOf<kForm, M> ToValue(const M& member) {
  if constexpr (requires { member.has_value(); }) {
    return ToValue<kForm>(*member);
  } else if constexpr (kForm == Form::kFd) {
    return sdbus::UnixFd(member);
  } else if constexpr (std::is_enum_v<M>) {
    return ToWire(member);
  } else if constexpr (ListOfFields<M>) {
    if constexpr (kForm == Form::kRows) {
      return ToRows(member);
    } else {
      return ToDicts(member);
    }
  } else {
    return member;
  }
}

template <typename T, Form kForm, typename M>
void AddField(const T& value, const Field<kForm, T, M>& field,
              dbus::Dict* dict) {
  const M& member = value.*field.member;
  if (!field.always && IsEmpty<kForm>(member)) {
    return;
  }
  if constexpr (kForm == Form::kSame) {
    dict->merge(ToDict(*member));
  } else {
    dict->emplace(field.key, dbus::Value(ToValue<kForm>(member)));
  }
}

template <typename T, typename List>
void AddFields(const T& value, const List& list, dbus::Dict* dict) {
  ForEachField(list, [&](const auto& field) { AddField(value, field, dict); });
}

template <HasFields T>
dbus::Dict ToDict(const T& value) {
  dbus::Dict dict;
  AddFields(value, FieldsOf<T>::kList, &dict);
  return dict;
}

}  // namespace mountd::agent
