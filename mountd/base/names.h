// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd {

inline constexpr std::size_t kMaxNameBytes = 128;
inline constexpr std::size_t kMaxVolumeIdBytes = 1024;

// True for a name an agent may choose (allocation, task, alias, plugin, mount):
// 1 to 128 bytes of [A-Za-z0-9._[]-], but not "." or "..". Such a name is safe
// as one path component, in a log line and in a D-Bus error.
bool IsValidName(std::string_view name);

// A name that passed IsValidName. Only Name::Parse makes one, so a function
// that takes a Name needs no check of its own.
class Name {
 public:
  // `what` names the thing in the error text: "allocation", "plugin".
  static Result<Name> Parse(std::string_view what, std::string_view text);

  const std::string& str() const { return text_; }
  friend auto operator<=>(const Name&, const Name&) = default;

 private:
  explicit Name(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Checks a plugin's own volume id. InvalidArgument unless it is valid UTF-8 of
// 1 to 1024 bytes without NUL. The id is opaque and never part of a path.
Result<void> CheckVolumeId(std::string_view volume_id);

bool IsValidUtf8(std::string_view text);

// The name of the staging directory of one volume of one plugin. The name is 32
// lower-case hex digits of a hash of plugin and volume id. So no id becomes a
// path component, and no two volumes share a directory.
class VolumeKey {
 public:
  static constexpr std::size_t kHexDigits = 32;

  VolumeKey() { hex_.fill('0'); }
  static VolumeKey Derive(std::string_view plugin, std::string_view volume_id);
  static Result<VolumeKey> Parse(std::string_view hex);

  std::string str() const { return {hex_.data(), hex_.size()}; }
  const std::array<char, kHexDigits>& hex() const { return hex_; }
  friend auto operator<=>(const VolumeKey&, const VolumeKey&) = default;

 private:
  std::array<char, kHexDigits> hex_{};
};

// Names one instance of a plugin, and is part of its socket's name. The key is
// 16 lower-case hex digits of a hash of the allocation and the type. The key is
// all "0" for a node or monolith plugin without an allocation, because such a
// plugin has only one instance.
class InstanceKey {
 public:
  static constexpr std::size_t kHexDigits = 16;

  InstanceKey() { hex_.fill('0'); }
  static InstanceKey Derive(std::string_view allocation, std::string_view type);
  static Result<InstanceKey> Parse(std::string_view hex);

  std::string str() const { return {hex_.data(), hex_.size()}; }
  const std::array<char, kHexDigits>& hex() const { return hex_; }
  bool only() const { return *this == InstanceKey(); }
  friend auto operator<=>(const InstanceKey&, const InstanceKey&) = default;

 private:
  std::array<char, kHexDigits> hex_{};
};

}  // namespace mountd
