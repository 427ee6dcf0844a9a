// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/publications.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "csi-node/csi-local/files.h"
#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

// This bound is above PATH_MAX and the two fields before the path.
constexpr std::size_t kMaxPublication = 8192;
constexpr char kNewPublication[] = ".new";

std::string FileName(const std::string& volume, const std::string& path) {
  return VolumeKey::Derive(volume, path).str();
}

Result<UniqueFd> OpenVolume(int directory, const std::string& volume) {
  UniqueFd fd(::openat(directory, volume.c_str(),
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(errno, "openat", volume);
  }
  return fd;
}

std::optional<Publication> Parse(std::string_view text) {
  // "<mode> <0|1> <path>", where the mode is one digit.
  if (text.size() < 5 || text[0] < '1' || text[0] > '7' || text[1] != ' ' ||
      (text[2] != '0' && text[2] != '1') || text[3] != ' ') {
    return std::nullopt;
  }
  return Publication{text[0] - '0', text[2] == '1',
                     std::string(text.substr(4))};
}

std::optional<Publication> Read(int directory, const char* name) {
  const UniqueFd file(
      ::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::array<char, kMaxPublication> bytes{};
  const ssize_t got =
      file.valid() ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
  if (got <= 0) {
    return std::nullopt;
  }
  return Parse({bytes.data(), static_cast<std::size_t>(got)});
}

}  // namespace

Result<void> Publications::Put(const std::string& volume,
                               const Publication& publication) {
  // EEXIST: the volume has another publication.
  if (::mkdirat(directory_.get(), volume.c_str(), 0700) != 0 &&
      errno != EEXIST) {
    return ErrnoError(errno, "mkdirat", volume);
  }
  MOUNTD_ASSIGN(const UniqueFd directory, OpenVolume(directory_.get(), volume));
  const std::string text = std::to_string(publication.access_mode) +
                           (publication.read_only ? " 1 " : " 0 ") +
                           publication.target_path;
  // O_TRUNC and not O_EXCL, because a crash before the rename leaves this file.
  const UniqueFd file(
      ::openat(directory.get(), kNewPublication,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) !=
                           static_cast<ssize_t>(text.size())) {
    return ErrnoError(errno, "write", volume);
  }
  // Renames the finished file, so that a kill never leaves half a record. Does
  // not sync it, because a power cut ends the mount, too.
  if (::renameat(directory.get(), kNewPublication, directory.get(),
                 FileName(volume, publication.target_path).c_str()) != 0) {
    return ErrnoError(errno, "renameat", volume);
  }
  return Ok();
}

Result<void> Publications::Remove(const std::string& volume,
                                  const std::string& target_path) {
  const std::string path = volume + "/" + FileName(volume, target_path);
  if (::unlinkat(directory_.get(), path.c_str(), 0) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "unlinkat", volume);
  }
  return Ok();
}

Result<std::vector<Publication>> Publications::List(const std::string& volume) {
  std::vector<Publication> publications;
  Result<UniqueFd> directory = OpenVolume(directory_.get(), volume);
  // ENOENT: the volume has no publication.
  if (!directory && directory.error().sys_errno == ENOENT) {
    return publications;
  }
  if (!directory) {
    return directory.error();
  }
  MOUNTD_ASSIGN(const auto names, ListNames(directory->get()));
  for (const std::string& name : names) {
    // Skips kNewPublication.
    if (name.size() != VolumeKey::kHexDigits) {
      continue;
    }
    if (auto found = Read(directory->get(), name.c_str())) {
      publications.push_back(std::move(*found));
    }
  }
  return publications;
}

Result<void> Publications::Forget(const std::string& volume) {
  Result<UniqueFd> directory = OpenVolume(directory_.get(), volume);
  if (!directory) {
    // ENOENT: the volume has no publication.
    return directory.error().sys_errno == ENOENT
               ? Ok()
               : Result<void>(directory.error());
  }
  MOUNTD_ASSIGN(const auto names, ListNames(directory->get()));
  for (const std::string& name : names) {
    if (::unlinkat(directory->get(), name.c_str(), 0) != 0) {
      return ErrnoError(errno, "unlinkat", volume);
    }
  }
  return ::unlinkat(directory_.get(), volume.c_str(), AT_REMOVEDIR) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "rmdir", volume));
}

}  // namespace mountd::csi_local
