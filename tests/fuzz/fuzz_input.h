// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

// The helpers of all fuzz targets: their input as values, and their oracle.
namespace mountd::fuzz {

// Ends the process, as a crash would, if `holds` is false.
inline void Require(bool holds, std::string_view what) {
  if (!holds) {
    std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()),
                 what.data());
    std::abort();
  }
}

inline std::string_view TextOf(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Takes values from the front of the input. An input that is used up gives
// zeros, so each input has one meaning.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  bool empty() const { return left_.empty(); }
  std::size_t size() const { return left_.size(); }

  template <typename Number>
  Number Take() {
    static_assert(std::is_trivially_copyable_v<Number>);
    Number number{};
    const std::size_t some = std::min(sizeof(number), left_.size());
    if (some != 0) {
      std::memcpy(&number, left_.data(), some);
    }
    left_ = left_.subspan(some);
    return number;
  }
  std::uint8_t Byte() { return Take<std::uint8_t>(); }
  bool Flag() { return (Byte() & 1U) != 0; }
  // Returns a number from 0 to `most`.
  std::size_t UpTo(std::size_t most) {
    return most < UINT8_MAX ? Byte() % (most + 1)
                            : Take<std::uint32_t>() % (most + 1);
  }
  template <typename T, std::size_t kCount>
  const T& OneOf(const T (&choices)[kCount]) {
    return choices[UpTo(kCount - 1)];
  }
  std::string_view Bytes(std::size_t count) {
    const auto some = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(some.size());
    return TextOf(some.data(), some.size());
  }
  // Returns a text of at most `most` bytes, with its length before it.
  std::string Text(std::size_t most) { return std::string(Bytes(UpTo(most))); }
  std::string_view Rest() { return Bytes(left_.size()); }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace mountd::fuzz

// libFuzzer, or replay_main.cc, calls this function with each input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);
