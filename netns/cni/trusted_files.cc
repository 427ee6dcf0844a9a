// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/trusted_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "mountd/base/paths.h"

namespace mountd::cni {
namespace {

// Whether a directory may be like /tmp, where others can add files but cannot
// replace root's.
enum class Sticky { kAllowed, kRefused };

Error Untrusted(const std::string& name, const char* why) {
  return MakeError(Code::kPermissionDenied, "trust", name, why);
}

Result<UniqueFd> OpenPart(int parent, const std::string& name,
                          std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH;
  UniqueFd fd(static_cast<int>(
      ::syscall(SYS_openat2, parent, name.c_str(), &how, sizeof(how))));
  if (!fd.valid()) {
    // ELOOP: a part is a link (RESOLVE_NO_SYMLINKS).
    return errno == ELOOP ? Untrusted(name, "must not be a symlink")
                          : ErrnoError(errno, "open", name);
  }
  return fd;
}

// PermissionDenied unless the file belongs to root or this process's user, and
// nobody else may write it.
Result<void> CheckOwner(const struct stat& facts, const std::string& name,
                        Sticky sticky) {
  if (facts.st_uid != 0 && facts.st_uid != ::geteuid()) {
    return Untrusted(name, "must belong to root");
  }
  const bool kept = sticky == Sticky::kAllowed && S_ISDIR(facts.st_mode) &&
                    (facts.st_mode & S_ISVTX) != 0;
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !kept) {
    return Untrusted(name, "must be writable by root alone");
  }
  return Ok();
}

Result<struct stat> StatOf(int fd, const std::string& name) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) {
    return ErrnoError(errno, "fstat", name);
  }
  return facts;
}

Result<void> CheckPart(int fd, const std::string& name, Sticky sticky) {
  MOUNTD_ASSIGN(const struct stat facts, StatOf(fd, name));
  return CheckOwner(facts, name, sticky);
}

// Opens each part of `path` and checks all but the last.
Result<UniqueFd> Walk(std::string_view path) {
  UniqueFd at(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) {
    return ErrnoError(errno, "open", "/");
  }
  while (!path.empty()) {
    MOUNTD_TRY(CheckPart(at.get(), "a parent directory", Sticky::kAllowed));
    path.remove_prefix(1);
    const std::string part(path.substr(0, path.find('/')));
    path.remove_prefix(part.size());
    MOUNTD_ASSIGN(at, OpenPart(at.get(), part, O_PATH | O_DIRECTORY));
  }
  return at;
}

Result<void> CheckNormalised(const std::string& path) {
  if (!paths::IsNormalised(path)) {
    return MakeError(Code::kInvalidArgument, "check", path,
                     "must be an absolute path without ., .. or a trailing /");
  }
  return Ok();
}

}  // namespace

Result<UniqueFd> OpenTrustedDirectory(const std::string& path) {
  MOUNTD_TRY(CheckNormalised(path));
  MOUNTD_ASSIGN(const UniqueFd at, Walk(path));
  MOUNTD_TRY(CheckPart(at.get(), path, Sticky::kRefused));
  // Open it again for reading, because `at` is O_PATH.
  return OpenPart(at.get(), ".", O_RDONLY | O_DIRECTORY);
}

Result<UniqueFd> OpenPrivateDirectory(const std::string& path) {
  MOUNTD_TRY(CheckNormalised(path));
  const std::size_t slash = path.rfind('/');
  MOUNTD_ASSIGN(const UniqueFd parent, Walk(path.substr(0, slash)));
  MOUNTD_TRY(CheckPart(parent.get(), "a parent directory", Sticky::kAllowed));
  return OpenPrivateDirectoryAt(parent.get(), path.substr(slash + 1));
}

Result<UniqueFd> OpenPrivateDirectoryAt(int parent, const std::string& name) {
  // EEXIST is checked below: owner and mode must fit.
  if (::mkdirat(parent, name.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", name);
  }
  MOUNTD_ASSIGN(UniqueFd at, OpenPart(parent, name, O_RDONLY | O_DIRECTORY));
  MOUNTD_ASSIGN(const struct stat facts, StatOf(at.get(), name));
  MOUNTD_TRY(CheckOwner(facts, name, Sticky::kRefused));
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Untrusted(name, "must be accessible to root alone (mode 0700)");
  }
  return at;
}

Result<UniqueFd> OpenTrustedFile(int directory, const std::string& name) {
  // Open without I/O first, because opening a device or a FIFO has effects.
  MOUNTD_ASSIGN(const UniqueFd found, OpenPart(directory, name, O_PATH));
  MOUNTD_ASSIGN(const struct stat facts, StatOf(found.get(), name));
  if (!S_ISREG(facts.st_mode)) {
    return Untrusted(name, "must be a regular file");
  }
  MOUNTD_TRY(CheckOwner(facts, name, Sticky::kRefused));
  // The name may be a FIFO or a terminal by now. O_NONBLOCK and O_NOCTTY keep
  // such a file from blocking the open or becoming the controlling terminal,
  // and the comparison then refuses it.
  MOUNTD_ASSIGN(UniqueFd file,
                OpenPart(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  MOUNTD_ASSIGN(const struct stat opened, StatOf(file.get(), name));
  if (opened.st_dev != facts.st_dev || opened.st_ino != facts.st_ino) {
    return MakeError(Code::kUnavailable, "open", name,
                     "was replaced during the call; call again");
  }
  return file;
}

Result<std::string> ReadTrustedFile(int directory, const std::string& name,
                                    std::size_t limit) {
  MOUNTD_ASSIGN(const UniqueFd file, OpenTrustedFile(directory, name));
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "read", name);
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > limit) {
      return MakeError(Code::kInvalidArgument, "read", name,
                       "must have at most " + std::to_string(limit) + " bytes");
    }
  }
}

Result<void> CheckTrustedProgram(int directory, const std::string& name) {
  MOUNTD_ASSIGN(const UniqueFd file, OpenTrustedFile(directory, name));
  MOUNTD_ASSIGN(const struct stat facts, StatOf(file.get(), name));
  if ((facts.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0) {
    return Untrusted(name, "must be executable");
  }
  return Ok();
}

Result<std::vector<std::string>> ListNames(int directory) {
  // fdopendir(3) takes the descriptor over and moves its offset, so it gets one
  // of its own.
  MOUNTD_ASSIGN(UniqueFd copy,
                OpenPart(directory, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()),
                                                   &::closedir);
  if (stream == nullptr) {
    return ErrnoError(errno, "fdopendir", "");
  }
  // The stream owns the fd now.
  static_cast<void>(copy.release());
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = &entry->d_name[0];
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  if (errno != 0) {
    return ErrnoError(errno, "readdir", "");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mountd::cni
