// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// How secrets cross from an agent to mountd-csi: a memfd whose whole content is
//   key NUL value NUL key NUL value NUL ...
// sealed (F_SEAL_WRITE|GROW|SHRINK|SEAL), so that what was checked is what is
// used. Whoever is in between hands the fd on unread.
namespace mountd::csi {

inline constexpr std::size_t kMaxSecretsBytes = std::size_t{64} << 10U;
inline constexpr std::size_t kMaxSecrets = 128;

// Secrets in memory, sorted by key; the bytes are overwritten on destruction.
// Move-only, and a move leaves no copy behind.
class Secrets {
 public:
  using Entry = std::pair<std::string_view, std::string_view>;

  Secrets() = default;
  ~Secrets() { Wipe(); }
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;
  Secrets(Secrets&& other) noexcept;
  Secrets& operator=(Secrets&& other) noexcept;

  // Views into this object.
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

 private:
  friend Result<Secrets> DecodeSecrets(const UniqueFd& memfd);
  void Wipe();

  std::vector<char> bytes_;
  std::vector<Entry> entries_;
};

// A sealed memfd of `entries`. InvalidArgument: an empty or repeated key, a
// NUL, text that is not UTF-8, or more than the bounds above. Errors name no
// entry.
Result<UniqueFd> EncodeSecrets(
    const std::vector<std::pair<std::string, std::string>>& entries);

// The reverse. InvalidArgument for anything but a sealed memfd with entries as
// EncodeSecrets makes them. The fd's offset is neither used nor moved.
Result<Secrets> DecodeSecrets(const UniqueFd& memfd);

// Overwrites the text in place, in a way the compiler keeps, and empties it.
void WipeString(std::string* text);

}  // namespace mountd::csi
