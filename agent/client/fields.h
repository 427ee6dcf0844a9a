// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dbus/dict/value.h"
#include "mountd/base/result.h"

// Internal to agent/.
namespace mountd::agent {

using Bytes = std::vector<std::uint8_t>;

inline std::string ToText(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

// Reads the keys of one answer. Keeps a key whose value has the wrong type, for
// status().
class Fields {
 public:
  explicit Fields(const dbus::Dict& map) : map_(map) {}

  template <typename T>
  Fields& Read(const char* key, T& out) {
    const auto found = map_.find(key);
    if (found == map_.end()) {
      return *this;
    }
    if (!found->second.containsValueOfType<T>()) {
      wrong_ = key;
      return *this;
    }
    out = found->second.get<T>();
    return *this;
  }

  // Leaves `out` empty if the key is absent.
  template <typename T>
  Fields& ReadOptional(const char* key, std::optional<T>& out) {
    T value{};
    if (Read(key, value); map_.contains(key)) {
      out = std::move(value);
    }
    return *this;
  }

  // Reads an `ay`.
  Fields& ReadPath(const char* key, std::string& out) {
    Bytes bytes(out.begin(), out.end());
    Read(key, bytes);
    out = ToText(bytes);
    return *this;
  }

  Result<void> status() const {
    if (wrong_.empty()) {
      return Ok();
    }
    return MakeError(Code::kInternal, "answer", wrong_,
                     "has another type than the API says");
  }

 private:
  const dbus::Dict& map_;
  std::string wrong_;
};

}  // namespace mountd::agent
