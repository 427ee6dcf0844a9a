// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>

namespace mountd {

// Limits on JSON that others wrote. A parser needs them because it recurses
// once per nesting level and builds values many times as large as their bytes.
struct JsonBounds {
  enum class Fractions { kRefused, kTaken };

  std::size_t max_depth = 0;
  std::size_t max_values = 0;
  Fractions fractions = Fractions::kRefused;
};

// Counts the values that nlohmann::json's parser meets (its "SAX interface")
// and builds nothing. Never names a type of nlohmann::json, because some
// programs that use this folder do not have that library.
class JsonBoundsCheck {
 public:
  explicit JsonBoundsCheck(const JsonBounds& bounds) : bounds_(bounds) {}

  bool null() { return Count(); }
  bool boolean(bool /*value*/) { return Count(); }
  template <typename Number>
  bool number_integer(Number /*value*/) {
    return Count();
  }
  template <typename Number>
  bool number_unsigned(Number /*value*/) {
    return Count();
  }
  template <typename Number, typename Text>
  bool number_float(Number /*value*/, const Text& /*text*/) {
    return bounds_.fractions == JsonBounds::Fractions::kTaken && Count();
  }
  template <typename Text>
  bool string(Text& /*value*/) {
    return Count();
  }
  template <typename Bytes>
  bool binary(Bytes& /*value*/) {
    return Count();
  }
  template <typename Text>
  bool key(Text& /*value*/) {
    return Count();
  }
  bool start_object(std::size_t /*size*/) { return Enter(); }
  bool end_object() { return Leave(); }
  bool start_array(std::size_t /*size*/) { return Enter(); }
  bool end_array() { return Leave(); }
  template <typename Text, typename Exception>
  bool parse_error(std::size_t /*position*/, const Text& /*token*/,
                   const Exception& /*error*/) {
    return false;
  }

 private:
  bool Count() { return ++values_ <= bounds_.max_values; }
  bool Enter() { return ++depth_ <= bounds_.max_depth && Count(); }
  bool Leave() {
    --depth_;
    return true;
  }

  const JsonBounds bounds_;
  std::size_t depth_ = 0;
  std::size_t values_ = 0;
};

// Returns whether `bytes` parse and stay within the bounds. `Json` is
// nlohmann::json, `format` one of its formats.
template <typename Json, typename Bytes>
bool IsWithin(const Bytes& bytes, typename Json::input_format_t format,
              const JsonBounds& bounds) {
  JsonBoundsCheck check(bounds);
  return Json::sax_parse(bytes, &check, format);
}

}  // namespace mountd
