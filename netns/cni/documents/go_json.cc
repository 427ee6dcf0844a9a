// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/go_json.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace mountd::cni {
namespace {

char UpperCase(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// The members of an object that is still open, by their folded names.
using Spellings = std::map<std::string, std::string>;

Spellings SpellingsOf(const Json& object) {
  Spellings spellings;
  for (const auto& [key, value] : object.items()) {
    spellings.emplace(FoldedName(key), key);
  }
  return spellings;
}

void DecodeInto(Json* place, Json&& next);

// Adds a member. If there is a member with the same folded name, decodes the
// value into that one.
void PutMember(Json* object, Spellings* spellings, const std::string& key,
               Json&& value) {
  const auto [at, is_new] = spellings->emplace(FoldedName(key), key);
  if (is_new) {
    (*object)[key] = std::move(value);
  } else {
    DecodeInto(&(*object)[at->second], std::move(value));
  }
}

void DecodeObject(Json* place, Json&& next) {
  Spellings spellings = SpellingsOf(*place);
  for (auto& [key, value] : next.items()) {
    PutMember(place, &spellings, key, std::move(value));
  }
}

// Decodes element by element. The array takes the length of `next`.
void DecodeArray(Json* place, Json&& next) {
  const std::size_t known = std::min(place->size(), next.size());
  for (std::size_t i = 0; i < known; ++i) {
    DecodeInto(&(*place)[i], std::move(next[i]));
    next[i] = std::move((*place)[i]);
  }
  *place = std::move(next);
}

// Decodes `next` into the value at `place`, as Go decodes into a field.
void DecodeInto(Json* place, Json&& next) {
  if (next.is_null()) {
    if (place->is_array()) {
      place->clear();
    }
  } else if (next.is_object() && place->is_object()) {
    DecodeObject(place, std::move(next));
  } else if (next.is_array() && place->is_array()) {
    DecodeArray(place, std::move(next));
  } else {
    *place = std::move(next);
  }
}

// Builds the value by nlohmann::json's "SAX interface", because only that
// reports members in the order of the text. IsWithin has bounded the document
// before.
class Builder {
 public:
  Json Finish() { return std::move(root_); }

  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(Json::number_integer_t value) { return Put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Put(value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) {
    return Put(value);
  }
  bool string(std::string& value) { return Put(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*size*/) { return Open(Json::object()); }
  bool end_object() { return Close(); }
  bool start_array(std::size_t /*size*/) { return Open(Json::array()); }
  bool end_array() { return Close(); }
  bool key(std::string& value) {
    open_.back().key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const Json::exception& /*error*/) {
    return false;
  }

 private:
  struct Frame {
    Json value;
    Spellings spellings{};
    std::string key{};  // of the next member
  };

  bool Open(Json value) {
    open_.push_back({std::move(value)});
    return true;
  }
  bool Close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return Put(std::move(value));
  }
  bool Put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = open_.back(); frame.value.is_array()) {
      frame.value.push_back(std::move(value));
    } else {
      PutMember(&frame.value, &frame.spellings, frame.key, std::move(value));
    }
    return true;
  }

  Json root_;
  std::vector<Frame> open_;
};

}  // namespace

std::string FoldedName(std::string_view name) {
  // The only characters beyond ASCII whose simple case folding is an ASCII
  // letter, to which Go's encoding/json folds them, too.
  constexpr std::string_view kLongS = "\u017f";
  constexpr std::string_view kKelvin = "\u212a";
  std::string folded;
  while (!name.empty()) {
    const bool long_s = name.starts_with(kLongS);
    const bool kelvin = name.starts_with(kKelvin);
    folded.push_back(long_s ? 'S' : kelvin ? 'K' : UpperCase(name.front()));
    name.remove_prefix(long_s ? kLongS.size() : kelvin ? kKelvin.size() : 1);
  }
  return folded;
}

Result<Json> ParseAsGo(std::string_view text, const TextBounds& bounds,
                       const std::string& object) {
  MOUNTD_TRY(CheckText(text, bounds, object));
  Builder builder;
  Json value;
  if (Json::sax_parse(text, &builder)) {
    value = builder.Finish();
  }
  if (!value.is_object()) {
    return NotAnObject(object);
  }
  return value;
}

}  // namespace mountd::cni
