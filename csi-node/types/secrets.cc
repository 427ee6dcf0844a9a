// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/types/secrets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "mountd/base/names.h"
#include "mountd/base/write_all.h"

namespace mountd::csi {
namespace {

// With these seals nobody can change the secrets any more (fcntl(2), "File
// Sealing").
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

Error Invalid(std::string detail) {
  return MakeError(Code::kInvalidArgument, "secrets", "", std::move(detail));
}

bool IsText(std::string_view text) {
  return text.find('\0') == std::string_view::npos && IsValidUtf8(text);
}

Result<void> ReadAll(int fd, std::vector<char>* bytes) {
  std::size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t got = ::pread(fd, bytes->data() + done, bytes->size() - done,
                                static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "pread", "secrets");
    }
    if (got == 0) {
      return Invalid("the memfd is shorter than its size says");
    }
    done += static_cast<std::size_t>(got);
  }
  return Ok();
}

// Removes the next NUL-terminated text from `rest` and returns it.
Result<std::string_view> TakeText(std::string_view* rest) {
  const std::size_t end = rest->find('\0');
  if (end == std::string_view::npos) {
    return Invalid("an entry does not end with a NUL");
  }
  const std::string_view text = rest->substr(0, end);
  rest->remove_prefix(end + 1);
  if (!IsValidUtf8(text)) {
    return Invalid("each entry must be valid UTF-8");
  }
  return text;
}

Result<std::size_t> SealedSize(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Invalid("must be a sealed memfd");
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return ErrnoError(errno, "fstat", "secrets");
  }
  if (status.st_size < 0 ||
      static_cast<std::size_t>(status.st_size) > kMaxSecretsBytes) {
    return Invalid("must be at most 64 KiB");
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

void WipeString(std::string* text) {
  explicit_bzero(text->data(), text->size());
  text->clear();
}

Secrets::Secrets(Secrets&& other) noexcept
    : bytes_(std::move(other.bytes_)), entries_(std::move(other.entries_)) {
  other.bytes_.clear();
  other.entries_.clear();
}

Secrets& Secrets::operator=(Secrets&& other) noexcept {
  if (this != &other) {
    Wipe();
    bytes_.swap(other.bytes_);
    entries_.swap(other.entries_);
  }
  return *this;
}

void Secrets::Wipe() {
  if (!bytes_.empty()) {
    explicit_bzero(bytes_.data(), bytes_.size());
  }
  bytes_.clear();
  entries_.clear();
}

Result<UniqueFd> EncodeSecrets(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  if (entries.size() > kMaxSecrets) {
    return Invalid("must have at most 128 entries");
  }
  std::set<std::string_view> keys;
  std::size_t size = 0;
  for (const auto& [key, value] : entries) {
    if (key.empty() || !IsText(key) || !IsText(value)) {
      return Invalid("each entry must be text");
    }
    if (!keys.insert(key).second) {
      return Invalid("each key must occur only once");
    }
    size += key.size() + value.size() + 2;
  }
  if (size > kMaxSecretsBytes) {
    return Invalid("must be at most 64 KiB");
  }
  // memfd_create(2): without MFD_ALLOW_SEALING the memfd takes no seals.
  UniqueFd memfd(
      ::memfd_create("csi-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd.valid()) {
    return ErrnoError(errno, "memfd_create", "secrets");
  }
  // Writes entry by entry, because a joined copy would have to be wiped.
  for (const auto& [key, value] : entries) {
    MOUNTD_TRY(WriteAll(memfd.get(), {key.c_str(), key.size() + 1}, "secrets"));
    MOUNTD_TRY(
        WriteAll(memfd.get(), {value.c_str(), value.size() + 1}, "secrets"));
  }
  if (::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) {
    return ErrnoError(errno, "F_ADD_SEALS", "secrets");
  }
  return memfd;
}

Result<Secrets> DecodeSecrets(const UniqueFd& memfd) {
  MOUNTD_ASSIGN(const std::size_t size, SealedSize(memfd.get()));
  Secrets secrets;
  secrets.bytes_.resize(size);
  MOUNTD_TRY(ReadAll(memfd.get(), &secrets.bytes_));
  std::string_view rest(secrets.bytes_.data(), secrets.bytes_.size());
  while (!rest.empty()) {
    MOUNTD_ASSIGN(const std::string_view key, TakeText(&rest));
    MOUNTD_ASSIGN(const std::string_view value, TakeText(&rest));
    if (key.empty() || secrets.entries_.size() == kMaxSecrets) {
      return Invalid("must have at most 128 entries, and no empty key");
    }
    secrets.entries_.emplace_back(key, value);
  }
  std::sort(secrets.entries_.begin(), secrets.entries_.end());
  const auto same_key = [](const Secrets::Entry& a, const Secrets::Entry& b) {
    return a.first == b.first;
  };
  if (std::adjacent_find(secrets.entries_.begin(), secrets.entries_.end(),
                         same_key) != secrets.entries_.end()) {
    return Invalid("each key must occur only once");
  }
  return secrets;
}

}  // namespace mountd::csi
