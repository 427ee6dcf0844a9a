// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/cgroups/cgroup_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "mountd/base/number.h"

namespace mountd::driver {
namespace {

// memory.stat and cgroup.procs are the longest files.
constexpr std::size_t kMostFileBytes = std::size_t{4} << 20U;

}  // namespace

Result<UniqueFd> OpenCgroup(int parent, const std::string& name) {
  UniqueFd cgroup(::openat(parent, name.c_str(),
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!cgroup.valid()) {
    return ErrnoError(errno, "open", name);
  }
  return cgroup;
}

bool HasCgroupFile(const UniqueFd& cgroup, const char* file) {
  return ::faccessat(cgroup.get(), file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::string> ReadCgroupFile(const UniqueFd& cgroup, const char* file) {
  const UniqueFd opened(
      ::openat(cgroup.get(), file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid()) {
    return ErrnoError(errno, "open", file);
  }
  std::string text;
  std::array<char, 8192> part{};
  for (;;) {
    const ssize_t got = ::read(opened.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "read", file);
    }
    if (got == 0 || text.size() > kMostFileBytes) {
      return text;
    }
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

// Writes the text by one write(2), because the kernel takes each write(2) for a
// request of its own.
Result<void> WriteCgroupFile(const UniqueFd& cgroup, const char* file,
                             std::string_view text) {
  const UniqueFd opened(::openat(cgroup.get(), file,
                                 O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid()) {
    return ErrnoError(errno, "open", file);
  }
  ssize_t written = 0;
  do {
    written = ::write(opened.get(), text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(text.size())) {
    return ErrnoError(written < 0 ? errno : EIO, "write", file);
  }
  return Ok();
}

std::vector<std::string> WordsOfText(const std::string& text) {
  constexpr char kSpaces[] = " \n\t";
  std::vector<std::string> words;
  std::size_t at = text.find_first_not_of(kSpaces);
  while (at != std::string::npos) {
    const std::size_t end = text.find_first_of(kSpaces, at);
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpaces, end);
  }
  return words;
}

std::optional<std::uint64_t> NumberAfter(const std::string& text,
                                         std::string_view key) {
  const std::vector<std::string> words = WordsOfText(text);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == key) {
      return ParseNumber<std::uint64_t>(words[i + 1]);
    }
  }
  return std::nullopt;
}

}  // namespace mountd::driver
