// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/sealed_secrets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace mountd::agent {
namespace {

constexpr char kSecrets[] = "secrets";

// Writes the text and its terminating NUL straight from the caller's memory, so
// that no other copy is made.
Result<void> WriteWithNul(int fd, const std::string& text) {
  const char* next = text.c_str();
  std::size_t left = text.size() + 1;
  while (left > 0) {
    const ssize_t written = ::write(fd, next, left);
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return ErrnoError(errno, kSecrets, "memfd");
    }
    next += written;
    left -= static_cast<std::size_t>(written);
  }
  return Ok();
}

}  // namespace

Result<UniqueFd> SealSecrets(
    const std::map<std::string, std::string>& secrets) {
  for (const auto& [key, value] : secrets) {
    // The memfd's format separates texts by NUL.
    if (key.empty() || key.find('\0') != std::string::npos ||
        value.find('\0') != std::string::npos) {
      return MakeError(Code::kInvalidArgument, kSecrets, "",
                       "a secret has an empty key or contains a NUL byte");
    }
  }
  // CLOEXEC, because programs that the agent starts must not get the secrets.
  // Without ALLOW_SEALING the file could get no seals (memfd_create(2)).
  UniqueFd fd(
      ::memfd_create("mountd-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return ErrnoError(errno, kSecrets, "memfd");
  }
  for (const auto& [key, value] : secrets) {
    MOUNTD_TRY(WriteWithNul(fd.get(), key));
    MOUNTD_TRY(WriteWithNul(fd.get(), value));
  }
  // Seals come after the writes, because F_SEAL_WRITE refuses all writes
  // (fcntl(2)).
  if (::lseek(fd.get(), 0, SEEK_SET) < 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS,
              F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) {
    return ErrnoError(errno, kSecrets, "memfd");
  }
  return fd;
}

}  // namespace mountd::agent
