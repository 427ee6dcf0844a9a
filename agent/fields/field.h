// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#include "agent/types.h"

// The words in which the other headers of this folder list the fields of a
// type. A list pairs each key of the contract with the member that holds it.
// The client reads and sends dictionaries by these lists, mountctl writes JSON
// by them, and a test compares them with the contract.
namespace mountd::agent {

// Says how a member is in a dictionary, where its type leaves a choice.
enum class Form {
  kPlain,     // as its type; a list as one dictionary for each element
  kPath,      // text as bytes, because a path need not be UTF-8
  kRows,      // a list, as one struct for each element, with the fields' order
  kPairs,     // as kRows, but with the first two fields alone
  kMillis32,  // milliseconds as u instead of t
  kSame,      // the member's own fields are keys of the same dictionary
  kPresent,   // bool: whether the dictionary has the key
  kFd,        // a file descriptor; -1: none
  // Names of CSI's capabilities, as CSI's numbers.
  kServices,        // PluginCapability.Service.Type
  kControllerRpcs,  // ControllerServiceCapability.RPC.Type
  kNodeRpcs,        // NodeServiceCapability.RPC.Type
};

constexpr bool IsCapabilities(Form form) {
  return form == Form::kServices || form == Form::kControllerRpcs ||
         form == Form::kNodeRpcs;
}

template <Form kForm, typename T, typename M>
struct Field {
  const char* key;
  M T::*member;
  // A request has the key even if the member is empty, false or 0.
  bool always = false;

  using Member = M;
  static constexpr Form kHow = kForm;
};

template <Form kForm = Form::kPlain, typename T, typename M>
constexpr Field<kForm, T, M> Key(const char* key, M T::*member) {
  return {key, member};
}

template <Form kForm = Form::kPlain, typename T, typename M>
constexpr Field<kForm, T, M> Always(const char* key, M T::*member) {
  return {key, member, true};
}

// Lists the fields of `T`. The other headers of this folder specialise it.
template <typename T>
struct FieldsOf {};

template <typename T>
concept HasFields = requires {
  FieldsOf<T>::kList;
};

// Calls `use` with each field of a list.
template <typename List, typename F>
constexpr void ForEachField(const List& list, const F& use) {
  std::apply([&](const auto&... field) { (use(field), ...); }, list);
}

template <typename M>
struct ElementOf {};
template <typename E>
struct ElementOf<std::vector<E>> {
  using Type = E;
};

// True for a list whose elements have fields.
template <typename M>
concept ListOfFields = requires {
  typename ElementOf<M>::Type;
  requires HasFields<typename ElementOf<M>::Type>;
};

}  // namespace mountd::agent
