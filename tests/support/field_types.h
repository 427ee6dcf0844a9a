// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <optional>
#include <string>

#include "agent/client/wire_types.h"

// The D-Bus types that the lists of agent/fields/ stand for. The tests compare
// them with the contract and with mountd's answers.
namespace mountd::test {

using Types = std::map<std::string, std::string>;

template <typename Wire>
std::string SignatureOf() {
  constexpr const auto& signature = sdbus::signature_of_v<Wire>;
  return {signature.data(), signature.size()};
}

template <typename M>
struct BareOf {
  using Type = M;
};
template <typename M>
struct BareOf<std::optional<M>> {
  using Type = M;
};

template <typename List>
Types TypesOfList(const List& list);

// Returns the type of each key that a dictionary of T may have.
template <agent::HasFields T>
Types TypesOf() {
  return TypesOfList(agent::FieldsOf<T>::kList);
}

template <typename T, agent::Form kForm, typename M>
void AddTypes(const agent::Field<kForm, T, M>& field, Types* types) {
  if constexpr (kForm == agent::Form::kSame) {
    types->merge(TypesOf<typename BareOf<M>::Type>());
  } else {
    // kPresent is about a key that the list has once more, as a value.
    types->emplace(field.key, SignatureOf<agent::WireOf<kForm, M>>());
  }
}

template <typename List>
Types TypesOfList(const List& list) {
  Types types;
  agent::ForEachField(list,
                      [&](const auto& field) { AddTypes(field, &types); });
  return types;
}

// Returns the types with a prefix before each key.
inline Types Prefixed(const std::string& prefix, const Types& types) {
  Types all;
  for (const auto& [key, type] : types) {
    all[prefix + key] = type;
  }
  return all;
}

}  // namespace mountd::test
