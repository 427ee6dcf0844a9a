// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <toml++/toml.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

namespace mountd {

// Reads values of the parsed table. Fails at the first problem, with its line.
// `where` is the text before the key in an error, with a dot at its end.
class ConfigReader {
 public:
  explicit ConfigReader(std::string_view origin) : origin_(origin) {}

  Error At(const toml::node& node, const std::string& key,
           const std::string& why) const;

  // Refuses unknown keys, because a misspelt restriction would otherwise
  // restrict nothing without any error.
  Result<void> OnlyKeys(const toml::table& table, const std::string& where,
                        std::initializer_list<std::string_view> known) const;

  Result<const toml::table*> Table(const toml::node& node,
                                   const std::string& key) const;

  // Leaves `out` alone if the key is absent.
  template <typename T>
  Result<void> Scalar(const toml::table& table, std::string_view name,
                      const std::string& where, T& out) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) {
      return Ok();
    }
    const auto value = node->value_exact<T>();
    if (!value) {
      return At(*node, where + std::string(name), "has the wrong type");
    }
    out = *value;
    return Ok();
  }

  template <typename T>
  Result<void> Number(const toml::table& table, std::string_view name,
                      const std::string& where, std::int64_t min,
                      std::int64_t max, T& out) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) {
      return Ok();
    }
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < min || *value > max) {
      return At(*node, where + std::string(name),
                "must be a whole number from " + std::to_string(min) + " to " +
                    std::to_string(max));
    }
    out = T(*value);
    return Ok();
  }

  // Calls `each(text, node)` for every string of the array.
  template <typename F>
  Result<void> Strings(const toml::table& table, std::string_view name,
                       const std::string& where, F each) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) {
      return Ok();
    }
    const std::string key = where + std::string(name);
    if (!node->is_array()) {
      return At(*node, key, "must be an array of strings");
    }
    for (const toml::node& element : *node->as_array()) {
      const auto text = element.value_exact<std::string>();
      if (!text) {
        return At(element, key, "must be an array of strings");
      }
      MOUNTD_TRY(each(*text, element));
    }
    return Ok();
  }

  Result<void> Names(const toml::table& table, std::string_view name,
                     const std::string& where,
                     std::vector<std::string>& out) const;

 private:
  std::string_view origin_;
};

// Returns whether the path is absolute, has no empty, "." or ".." component and
// no trailing slash, so that the executor can open it part by part.
bool IsNormalisedPath(const std::string& path);

inline constexpr char kNormalised[] =
    "must be an absolute path without ., .. or a trailing /";

// Reads names or numbers of users, or of groups, by `lookup`.
template <typename Lookup>
Result<void> ReadAccounts(const ConfigReader& reader, const toml::table& table,
                          std::string_view key, const std::string& where,
                          Lookup lookup, std::vector<std::uint32_t>& out) {
  return reader.Strings(
      table, key, where,
      [&](const std::string& name, const toml::node& node) -> Result<void> {
        Result<std::uint32_t> id = lookup(name);
        if (!id) {
          return reader.At(node, where + std::string(key),
                           "\"" + name + "\": " + id.error().detail);
        }
        out.push_back(*id);
        return Ok();
      });
}

}  // namespace mountd
