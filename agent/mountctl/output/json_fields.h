// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "agent/fields/field.h"

// Writes the types of types.h as JSON, by the lists of agent/fields/. Leaves
// out a std::optional member without a value, and each member of
// Form::kPresent. json.cc leaves out what else an answer need not have, such as
// the condition of a volume.
namespace mountd::agent {

using Json = nlohmann::ordered_json;

template <HasFields T>
Json ToJson(const T& value);

template <typename T>
requires requires(const T& element) { ToJson(element); }
Json ToJson(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& element : list) {
    array.push_back(ToJson(element));
  }
  return array;
}

template <HasFields T>
Json ToJson(const std::map<std::string, T>& map) {
  Json object = Json::object();
  for (const auto& [key, value] : map) {
    object[key] = ToJson(value);
  }
  return object;
}

template <typename M>
Json MemberToJson(const M& member) {
  if constexpr (requires { ToJson(member); }) {
    return ToJson(member);
  } else if constexpr (std::is_same_v<M, Timestamp>) {
    return member.time_since_epoch().count();
  } else if constexpr (std::is_same_v<M, std::chrono::milliseconds>) {
    return member.count();
  } else {
    return member;
  }
}

// Writes a list of Form::kPairs. D-Bus carries only the first two fields of its
// elements, so the JSON has only these two.
template <typename T>
Json PairsToJson(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& element : list) {
    const auto& [first, second, rest] = FieldsOf<T>::kList;
    array.push_back({{first.key, MemberToJson(element.*first.member)},
                     {second.key, MemberToJson(element.*second.member)}});
  }
  return array;
}

template <typename T, Form kForm, typename M>
void AddToJson(const T& value, const Field<kForm, T, M>& field, Json* json) {
  const M& member = value.*field.member;
  if constexpr (kForm == Form::kSame) {
    json->update(ToJson(member));
  } else if constexpr (kForm == Form::kPairs) {
    (*json)[field.key] = PairsToJson(member);
  } else if constexpr (requires { member.has_value(); }) {
    if (member) {
      (*json)[field.key] = MemberToJson(*member);
    }
  } else if constexpr (kForm != Form::kPresent) {
    (*json)[field.key] = MemberToJson(member);
  }
}

template <HasFields T>
Json ToJson(const T& value) {
  Json json = Json::object();
  ForEachField(FieldsOf<T>::kList,
               [&](const auto& field) { AddToJson(value, field, &json); });
  return json;
}

}  // namespace mountd::agent
