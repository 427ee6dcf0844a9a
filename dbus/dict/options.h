// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "dbus/dict/value.h"
#include "mountd/base/result.h"

namespace mountd::dbus {

// Reads an a{sv} strictly: refuses the call if a key has the wrong type, or if
// no Get has asked for the key. Keeps the first problem, so that a method can
// read all its keys and check once.
//
//   OptionReader reader("options", options);
//   const auto scope = reader.Get<std::string>("scope", "");
//   MOUNTD_TRY(reader.Finish());
class OptionReader {
 public:
  OptionReader(std::string what, const Dict& dict)
      : what_(std::move(what)), dict_(dict) {}

  // Returns the key's value, `otherwise` if the key is absent.
  template <typename T>
  T Get(const std::string& key, T otherwise) {
    known_.insert(key);
    const auto found = dict_.find(key);
    if (found == dict_.end()) {
      return otherwise;
    }
    if (!found->second.containsValueOfType<T>()) {
      Refuse(key, "has the wrong type");
      return otherwise;
    }
    return found->second.get<T>();
  }

  bool Has(const std::string& key) const { return dict_.contains(key); }

  void Refuse(const std::string& key, const std::string& why) {
    if (problem_) {
      problem_ = MakeError(Code::kInvalidArgument, "check",
                           what_ + "[\"" + Printable(key) + "\"]", why);
    }
  }

  Result<void> Finish() {
    for (const auto& [key, value] : dict_) {
      if (!known_.contains(key)) {
        Refuse(key, "is not an option of this method");
      }
    }
    return problem_;
  }

 private:
  // Bounds the key and makes it plain, because keys come from the caller and go
  // into logs.
  static std::string Printable(const std::string& key) {
    std::string text = key.substr(0, 64);
    for (char& c : text) {
      if (c < 0x20 || c > 0x7e || c == '"') {
        c = '?';
      }
    }
    return text;
  }

  const std::string what_;
  const Dict& dict_;
  std::set<std::string> known_;
  Result<void> problem_ = Ok();
};

// Paths are bytes, not text.
inline std::vector<std::uint8_t> ToBytes(const std::string& path) {
  return {path.begin(), path.end()};
}

}  // namespace mountd::dbus
