// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace mountd::csi::ipc {

struct JsonBounds {
  std::size_t max_depth = 0;
  std::size_t max_values = 0;
};

// Whether `bytes` can be parsed, hold nothing that messages never hold
// (fractions), and stay within the bounds. Builds nothing: goes over the bytes
// first, because the parser recurses once per nesting level and would build
// values far larger than their bytes.
template <typename Bytes>
bool IsWithin(const Bytes& bytes, nlohmann::json::input_format_t format,
              const JsonBounds& bounds);

// What IsWithin sends the parser's events to.
class BoundsCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit BoundsCheck(const JsonBounds& bounds) : bounds_(bounds) {}
  bool null() override { return Count(); }
  bool boolean(bool /*value*/) override { return Count(); }
  bool number_integer(number_integer_t /*value*/) override { return Count(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return Count(); }
  bool number_float(number_float_t /*value*/,
                    const string_t& /*text*/) override {
    return false;
  }
  bool string(string_t& /*value*/) override { return Count(); }
  bool binary(binary_t& /*value*/) override { return Count(); }
  bool key(string_t& /*value*/) override { return Count(); }
  bool start_object(std::size_t /*size*/) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t /*size*/) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
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

template <typename Bytes>
bool IsWithin(const Bytes& bytes, nlohmann::json::input_format_t format,
              const JsonBounds& bounds) {
  BoundsCheck check(bounds);
  return nlohmann::json::sax_parse(bytes, &check, format);
}

}  // namespace mountd::csi::ipc
