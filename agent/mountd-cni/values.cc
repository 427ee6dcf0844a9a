// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/values.h"

#include "netns/cni/documents/names.h"

namespace mountd::cni_plugin {

using cni::FindMember;
using cni::Json;

Failure BadConfig(const std::string& key, const std::string& why) {
  return {cni::kInvalidConfig, key + " " + why};
}

Outcome<std::string> TextAt(const Json& object, const char* key,
                            const char* fallback, std::size_t max_bytes) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) {
    return std::string(fallback);
  }
  const auto* text = member->get_ptr<const std::string*>();
  if (text == nullptr || text->size() > max_bytes || !cni::IsPlainText(*text)) {
    return BadConfig(key, "must be plain text of at most " +
                              std::to_string(max_bytes) + " bytes");
  }
  return *text;
}

Outcome<bool> FlagAt(const Json& object, const char* key) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) {
    return false;
  }
  const auto* flag = member->get_ptr<const Json::boolean_t*>();
  if (flag == nullptr) {
    return BadConfig(key, "must be true or false");
  }
  return *flag;
}

Outcome<std::uint64_t> NumberAt(const Json& object, const char* key,
                                std::uint64_t fallback, std::uint64_t max) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) {
    return fallback;
  }
  const auto* number = member->get_ptr<const Json::number_unsigned_t*>();
  if (number == nullptr || *number > max) {
    return BadConfig(key,
                     "must be a whole number up to " + std::to_string(max));
  }
  return *number;
}

Outcome<Json> ObjectAt(const Json& object, const char* key) {
  const Json* member = FindMember(object, key);
  if (member != nullptr && !member->is_object()) {
    return BadConfig(key, "must be an object");
  }
  // A named variable, because braces around a Json make an array of it.
  Json found = Json::object();
  if (member != nullptr) {
    found = *member;
  }
  return found;
}

Outcome<std::vector<Json>> ItemsAt(const Json& object, const char* key,
                                   std::size_t max_count) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) {
    return std::vector<Json>();
  }
  if (!member->is_array() || member->size() > max_count) {
    return BadConfig(key, "must be an array of at most " +
                              std::to_string(max_count) + " items");
  }
  return std::vector<Json>(member->begin(), member->end());
}

}  // namespace mountd::cni_plugin
