// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/schema.h"

#include <algorithm>

#include "mountd/base/json_bounds.h"

namespace mountd::nomad {
namespace {

using Json = nlohmann::json;
using Type = driver::SchemaKey::Type;

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;
// An object of lists of maps.
constexpr JsonBounds kBounds = {4, 10'000, JsonBounds::Fractions::kTaken};

// A map written as a block arrives as a list of maps.
const char* TypeText(Type type) {
  switch (type) {
    case Type::kString:
      return "string";
    case Type::kBool:
      return "bool";
    case Type::kNumber:
      return "number";
    case Type::kStrings:
      return "list(string)";
    case Type::kStringMap:
      break;
  }
  return "list(map(string))";
}

bool AreStrings(const Json& values) {
  return std::all_of(values.begin(), values.end(),
                     [](const Json& value) { return value.is_string(); });
}

bool IsOf(const Json& value, Type type) {
  switch (type) {
    case Type::kString:
      return value.is_string();
    case Type::kBool:
      return value.is_boolean();
    case Type::kNumber:
      return value.is_number();
    case Type::kStrings:
      return value.is_array() && AreStrings(value);
    case Type::kStringMap:
      break;
  }
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& map) {
           return map.is_object() && AreStrings(map);
         });
}

Error Wrong(const std::string& key, std::string detail) {
  return MakeError(Code::kInvalidArgument, "config", key, std::move(detail));
}

}  // namespace

Spec SpecOf(const Keys& keys) {
  Spec spec;
  auto& attributes = *spec.mutable_object()->mutable_attributes();
  for (const driver::SchemaKey& key : keys) {
    auto* attribute = attributes[key.name].mutable_attr();
    attribute->set_name(key.name);
    attribute->set_type(TypeText(key.type));
    attribute->set_required(key.required);
  }
  return spec;
}

Result<Json> ReadValues(const std::string& msgpack, const Keys& keys) {
  Json values = Json::object();
  if (!msgpack.empty()) {
    if (msgpack.size() > kMostBytes ||
        !IsWithin<Json>(msgpack, Json::input_format_t::msgpack, kBounds)) {
      return Wrong("msgpack", "is no msgpack, or too large or too deep");
    }
    values = Json::from_msgpack(msgpack, true, false);
  }
  if (values.is_null()) {
    values = Json::object();
  }
  if (!values.is_object()) {
    return Wrong("msgpack", "is no object");
  }
  for (auto entry = values.begin(); entry != values.end();) {
    const auto key = std::find_if(
        keys.begin(), keys.end(),
        [&](const driver::SchemaKey& one) { return one.name == entry.key(); });
    if (key == keys.end()) {
      return Wrong(entry.key(), "is not a key of this driver");
    }
    if (!entry->is_null() && !IsOf(*entry, key->type)) {
      return Wrong(entry.key(), std::string("is no ") + TypeText(key->type));
    }
    entry = entry->is_null() ? values.erase(entry) : std::next(entry);
  }
  for (const driver::SchemaKey& key : keys) {
    if (key.required && !values.contains(key.name)) {
      return Wrong(key.name, "is missing");
    }
  }
  return values;
}

}  // namespace mountd::nomad
