// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Error.h>
#include <sdbus-c++/Message.h>
#include <sdbus-c++/TypeTraits.h>
#include <sdbus-c++/Types.h>

#include <cerrno>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mountd::dbus {
class Value;
}

template <>
struct sdbus::signature_of<mountd::dbus::Value>
    : sdbus::signature_of<sdbus::Variant> {};

namespace mountd::dbus {

// Holds a D-Bus variant. A sdbus::Variant is a message of its own, which sd-bus
// makes, seals and copies. In an answer with eight variants that takes half of
// the call's time. So Value keeps the types of nearly all answers as plain
// values, and only other types as a sdbus::Variant.
//
// Replaces sdbus::Variant in generated code (mountd_generate_dbus).
class Value {
 public:
  using Bytes = std::vector<std::uint8_t>;
  // Lists of a network; a network may have many ports, and a port has six
  // members.
  using Ports =
      std::vector<sdbus::Struct<std::string, std::string, std::uint16_t,
                                std::uint16_t, std::uint16_t, std::string>>;
  using Files = std::vector<sdbus::Struct<Bytes, std::string>>;
  // sdbus-c++ reads and writes these by their signature, without a message.
  using Plain = std::variant<bool, std::uint32_t, std::uint64_t, std::string,
                             Bytes, Ports, Files>;

  Value() = default;  // false
  explicit Value(Plain plain)
      : held_(std::in_place_type<Plain>, std::move(plain)) {}
  explicit Value(sdbus::Variant other)
      : held_(std::in_place_type<sdbus::Variant>, std::move(other)) {}
  template <typename T>
  explicit Value(T value) : held_(Hold(std::move(value))) {}

  // True if Value reads a variant of this signature as a Plain.
  static constexpr bool IsPlainSignature(std::string_view signature) {
    return [signature]<typename... Types>(const std::variant<Types...>*) {
      return ((signature == SignatureOf<Types>()) || ...);
    }(static_cast<const Plain*>(nullptr));
  }

  template <typename T>
  bool containsValueOfType() const {
    if constexpr (IsPlain<T>()) {
      const auto* plain = std::get_if<Plain>(&held_);
      return plain != nullptr && std::holds_alternative<T>(*plain);
    } else {
      const auto* other = std::get_if<sdbus::Variant>(&held_);
      return other != nullptr && other->containsValueOfType<T>();
    }
  }

  // Throws sdbus::Error if it holds another type.
  template <typename T>
  T get() const {
    if (!containsValueOfType<T>()) {
      throw sdbus::createError(EINVAL, "a variant holds another type");
    }
    if constexpr (IsPlain<T>()) {
      return std::get<T>(std::get<Plain>(held_));
    } else {
      return std::get<sdbus::Variant>(held_).get<T>();
    }
  }

  // Returns the signature of the held value.
  std::string peekValueType() const {
    const auto* other = std::get_if<sdbus::Variant>(&held_);
    if (other != nullptr) {
      return other->peekValueType();
    }
    return std::visit(
        []<typename T>(const T& /*value*/) {
          return std::string(SignatureOf<T>());
        },
        std::get<Plain>(held_));
  }

  // Calls `use` with a Plain or a sdbus::Variant.
  template <typename F>
  auto Visit(const F& use) const {
    return std::visit(use, held_);
  }

 private:
  using Held = std::variant<Plain, sdbus::Variant>;

  template <typename T>
  static constexpr std::string_view SignatureOf() {
    constexpr const auto& signature = sdbus::signature_of_v<T>;
    return {signature.data(), signature.size()};
  }

  template <typename T>
  static constexpr bool IsPlain() {
    return []<typename... Types>(const std::variant<Types...>*) {
      return (std::same_as<T, Types> || ...);
    }(static_cast<const Plain*>(nullptr));
  }

  template <typename T>
  static Held Hold(T value) {
    if constexpr (IsPlain<T>()) {
      return Held(std::in_place_type<Plain>, std::move(value));
    } else {
      return Held(std::in_place_type<sdbus::Variant>, std::move(value));
    }
  }

  Held held_;
};

// An a{sv}.
using Dict = std::map<std::string, Value>;

inline sdbus::Message& operator<<(sdbus::Message& message, const Value& value) {
  value.Visit([&](const auto& held) { message << held; });
  return message;
}

inline sdbus::Message& operator>>(sdbus::Message& message, Value& value) {
  if (Value::IsPlainSignature(message.peekType().second)) {
    Value::Plain plain;
    message >> plain;
    value = Value(std::move(plain));
  } else {
    sdbus::Variant other;
    message >> other;
    value = Value(std::move(other));
  }
  return message;
}

}  // namespace mountd::dbus
