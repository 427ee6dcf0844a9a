// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Secrets go from an agent to mountd-csi in a memfd whose whole content is
//   key NUL value NUL key NUL value NUL ...
// The memfd is sealed (F_SEAL_WRITE|GROW|SHRINK|SEAL), so that nobody changes
// the content after the check. Processes in between pass the fd on unread.
namespace mountd::csi {

inline constexpr std::size_t kMaxSecretsBytes = std::size_t{64} << 10U;
inline constexpr std::size_t kMaxSecrets = 128;

// Owns secrets in memory, sorted by key, and overwrites the bytes when
// destroyed. Move-only; a move leaves no copy behind.
class Secrets {
 public:
  using Entry = std::pair<std::string_view, std::string_view>;

  Secrets() = default;
  ~Secrets() { Wipe(); }
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;
  Secrets(Secrets&& other) noexcept;
  Secrets& operator=(Secrets&& other) noexcept;

  // Returns views into this object.
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

 private:
  friend Result<Secrets> DecodeSecrets(const UniqueFd& memfd);
  void Wipe();

  std::vector<char> bytes_;
  std::vector<Entry> entries_;
};

// Returns a sealed memfd of `entries`. InvalidArgument for an empty or repeated
// key, a NUL, text that is not UTF-8, or more than the bounds above. No error
// names an entry.
Result<UniqueFd> EncodeSecrets(
    const std::vector<std::pair<std::string, std::string>>& entries);

// Decodes such a memfd. InvalidArgument for anything but a sealed memfd with
// entries as EncodeSecrets writes them. Neither uses nor moves the fd's offset.
Result<Secrets> DecodeSecrets(const UniqueFd& memfd);

// Overwrites the text in place, in a way that the compiler keeps, and empties
// it.
void WipeString(std::string* text);

}  // namespace mountd::csi
