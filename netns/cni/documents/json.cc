// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/json.h"

#include <algorithm>
#include <utility>

#include "mountd/base/json_bounds.h"
#include "netns/cni/documents/go_json.h"

namespace mountd::cni {

Result<void> CheckText(std::string_view text, const TextBounds& bounds,
                       const std::string& object) {
  // Accept fractions, because plugins may have some in members of their own.
  const JsonBounds values{bounds.max_depth, bounds.max_values,
                          JsonBounds::Fractions::kTaken};
  return text.size() <= bounds.max_bytes &&
                 IsWithin<Json>(text, Json::input_format_t::json, values)
             ? Ok()
             : Result<void>(
                   MakeError(Code::kInvalidArgument, "parse", object,
                             "is not valid JSON, or is too large or too deep"));
}

Error NotAnObject(const std::string& object) {
  return MakeError(Code::kInvalidArgument, "parse", object,
                   "is not a JSON object");
}

Result<Json> ParseObject(std::string_view text, const TextBounds& bounds,
                         const std::string& object) {
  MOUNTD_TRY(CheckText(text, bounds, object));
  // Without exceptions: a bad text gives a value that is no object.
  Json value = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!value.is_object()) {
    return NotAnObject(object);
  }
  return value;
}

std::string ToText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* FindExact(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

const Json* FindMember(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const std::string folded = FoldedName(key);
  const Json* found = nullptr;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_null() && FoldedName(name) == folded) {
      found = &value;
    }
  }
  return found;
}

std::optional<std::string> FindText(const Json& object, const char* key) {
  const Json* member = FindMember(object, key);
  const auto* text =
      member == nullptr ? nullptr : member->get_ptr<const std::string*>();
  return text == nullptr ? std::nullopt : std::optional<std::string>(*text);
}

bool IsAbsent(const Json& object, const char* key) {
  return FindMember(object, key) == nullptr;
}

MemberReader::MemberReader(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    Refuse("", "must be an object");
  }
}

void MemberReader::Refuse(const std::string& key, const std::string& why) {
  if (!first_) {
    first_ = MakeError(Code::kInvalidArgument, "check",
                       key.empty() ? where_ : where_ + "." + key, why);
  }
}

// Notes that the caller knows this member. Returns nothing after the first
// error.
const Json* MemberReader::Take(const char* key) {
  asked_.emplace_back(key);
  return first_ ? nullptr : FindExact(object_, key);
}

std::string MemberReader::Text(const char* key, std::size_t max_bytes) {
  const Json* member = Take(key);
  if (member == nullptr) {
    return "";
  }
  const auto* text = member->get_ptr<const std::string*>();
  if (text == nullptr || text->size() > max_bytes) {
    Refuse(key, "must be a string of at most " + std::to_string(max_bytes) +
                    " bytes");
    return "";
  }
  return *text;
}

bool MemberReader::Flag(const char* key) {
  const Json* value = Take(key);
  if (value != nullptr && !value->is_boolean()) {
    Refuse(key, "must be true or false");
    return false;
  }
  return value != nullptr && value->get<bool>();
}

std::uint64_t MemberReader::Number(const char* key, std::uint64_t max) {
  const Json* member = Take(key);
  if (member == nullptr) {
    return 0;
  }
  const auto* number = member->get_ptr<const Json::number_unsigned_t*>();
  if (number == nullptr || *number > max) {
    Refuse(key, "must be a whole number up to " + std::to_string(max));
    return 0;
  }
  return *number;
}

std::vector<std::string> MemberReader::Texts(const char* key,
                                             std::size_t max_count,
                                             std::size_t max_bytes) {
  const Json* array = Array(key, max_count);
  std::vector<std::string> texts;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto* text = (*array)[i].get_ptr<const std::string*>();
    if (text == nullptr || text->size() > max_bytes) {
      Refuse(key, "must be an array of strings of at most " +
                      std::to_string(max_bytes) + " bytes");
      return {};
    }
    texts.push_back(*text);
  }
  return texts;
}

const Json* MemberReader::Array(const char* key, std::size_t max_count) {
  const Json* member = Take(key);
  if (member != nullptr &&
      (!member->is_array() || member->size() > max_count)) {
    Refuse(key, "must be an array of at most " + std::to_string(max_count) +
                    " items");
    return nullptr;
  }
  return member;
}

const Json* MemberReader::Object(const char* key, std::size_t max_count) {
  const Json* member = Take(key);
  if (member != nullptr &&
      (!member->is_object() || member->size() > max_count)) {
    Refuse(key, "must be an object of at most " + std::to_string(max_count) +
                    " members");
    return nullptr;
  }
  return member;
}

Result<void> MemberReader::Finish() {
  if (!first_) {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
        Refuse("", "has an unknown member");
      }
    }
  }
  return first_ ? Result<void>(*first_) : Ok();
}

}  // namespace mountd::cni
