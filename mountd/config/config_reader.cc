// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_reader.h"

#include <algorithm>

#include "mountd/base/names.h"
#include "mountd/base/paths.h"

namespace mountd {

Error ConfigReader::At(const toml::node& node, const std::string& key,
                       const std::string& why) const {
  return MakeError(
      Code::kInvalidArgument, "config",
      std::string(origin_) + ":" + std::to_string(node.source().begin.line),
      key + ": " + why);
}

namespace {

std::string ListOf(std::initializer_list<std::string_view> words) {
  std::string list;
  for (const std::string_view word : words) {
    list.append(list.empty() ? "" : ", ").append(word);
  }
  return list;
}

}  // namespace

Result<void> ConfigReader::OnlyKeys(
    const toml::table& table, const std::string& where,
    std::initializer_list<std::string_view> known) const {
  for (const auto& [key, node] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
      return At(node, where + std::string(key.str()),
                "is not a known key; the keys here are " + ListOf(known));
    }
  }
  return Ok();
}

Result<const toml::table*> ConfigReader::Table(const toml::node& node,
                                               const std::string& key) const {
  if (!node.is_table()) {
    return At(node, key, "must be a table");
  }
  return node.as_table();
}

Result<void> ConfigReader::Names(const toml::table& table,
                                 std::string_view name,
                                 const std::string& where,
                                 std::vector<std::string>& out) const {
  return Strings(
      table, name, where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (text != "*" && !IsValidName(text)) {
          return At(node, where + std::string(name),
                    "\"" + text + "\" is not a valid name");
        }
        out.push_back(text);
        return Ok();
      });
}

bool IsNormalisedPath(const std::string& path) {
  return path.size() < 4096 && path.find('\0') == std::string::npos &&
         paths::IsNormalised(path);
}

}  // namespace mountd
