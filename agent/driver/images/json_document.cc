// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/json_document.h"

#include <utility>

#include "mountd/base/json_bounds.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMaxDocument = std::size_t{4} << 20U;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxValues = 65536;
// The kernel's MAX_ARG_STRLEN with pages of 4 KiB (execve(2)).
constexpr std::size_t kMaxText = std::size_t{128} << 10U;

Error BadMember(const std::string& object, const char* key, const char* why) {
  return MakeError(Code::kInvalidArgument, "parse", object + ", member " + key,
                   why);
}

Result<std::string> ToArgument(const Json& value, const char* key,
                               const std::string& object) {
  const auto* text = value.get_ptr<const std::string*>();
  if (text == nullptr || text->size() >= kMaxText ||
      text->find('\0') != std::string::npos) {
    return BadMember(object, key,
                     "must be a string without zero bytes, shorter than 128 "
                     "KiB");
  }
  return *text;
}

}  // namespace

Result<Json> ParseJsonObject(std::string_view text, const std::string& object) {
  // Fractions are allowed, because some tools add members with fractions.
  const JsonBounds bounds{kMaxDepth, kMaxValues, JsonBounds::Fractions::kTaken};
  if (text.size() > kMaxDocument ||
      !IsWithin<Json>(text, Json::input_format_t::json, bounds)) {
    return MakeError(Code::kInvalidArgument, "parse", object,
                     "is not valid JSON, or has more than 4 MiB, 32 levels or "
                     "65536 values");
  }
  // Without exceptions: a bad text gives a value that is no object.
  Json value = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!value.is_object()) {
    return MakeError(Code::kInvalidArgument, "parse", object,
                     "is not a JSON object");
  }
  return value;
}

const Json* FindMember(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

Result<std::string> TextMember(const Json& parent, const char* key,
                               const std::string& object) {
  const Json* member = FindMember(parent, key);
  if (member == nullptr) {
    return std::string();
  }
  return ToArgument(*member, key, object);
}

Result<std::vector<std::string>> TextsMember(const Json& parent,
                                             const char* key,
                                             const std::string& object) {
  std::vector<std::string> texts;
  const Json* member = FindMember(parent, key);
  if (member == nullptr) {
    return texts;
  }
  if (!member->is_array()) {
    return BadMember(object, key, "must be a list of strings");
  }
  for (const Json& value : *member) {
    MOUNTD_ASSIGN(std::string text, ToArgument(value, key, object));
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace mountd::driver
