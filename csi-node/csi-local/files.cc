// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

namespace mountd::csi_local {
namespace {

struct CloseDir {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

// Copies byte by byte where copy_file_range(2) is refused, as between some file
// systems.
Result<void> CopyBytes(int from, int to, off_t at, off_t end,
                       const std::string& object) {
  std::vector<char> buffer(1 << 20);
  while (at < end) {
    const std::size_t wanted =
        std::min(buffer.size(), static_cast<std::size_t>(end - at));
    const ssize_t got = ::pread(from, buffer.data(), wanted, at);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "pread", object);
    }
    if (got == 0) {
      return Ok();  // the file has become shorter
    }
    for (ssize_t done = 0; done < got;) {
      const ssize_t put =
          ::pwrite(to, buffer.data() + done,
                   static_cast<std::size_t>(got - done), at + done);
      if (put < 0 && errno != EINTR) {
        return ErrnoError(errno, "pwrite", object);
      }
      done += std::max<ssize_t>(put, 0);
    }
    at += got;
  }
  return Ok();
}

Result<void> CopyRange(int from, int to, off_t at, off_t end,
                       const std::string& object) {
  while (at < end) {
    off_t in = at;
    off_t out = at;
    const ssize_t copied = ::copy_file_range(
        from, &in, to, &out, static_cast<std::size_t>(end - at), 0);
    // These errnos mean that the kernel cannot copy between these two files.
    if (copied < 0 && (errno == EXDEV || errno == EINVAL ||
                       errno == EOPNOTSUPP || errno == ENOSYS)) {
      return CopyBytes(from, to, at, end, object);
    }
    if (copied < 0 && errno != EINTR) {
      return ErrnoError(errno, "copy_file_range", object);
    }
    // CopyBytes finds out whether the file has ended or this call just copies
    // nothing.
    if (copied == 0) {
      return CopyBytes(from, to, at, end, object);
    }
    at += std::max<ssize_t>(copied, 0);
  }
  return Ok();
}

}  // namespace

Result<std::string> ReadAll(int fd, std::size_t limit,
                            const std::string& object) {
  std::string bytes;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) {
      return bytes;
    }
    if (got < 0 && errno != EINTR) {
      return ErrnoError(errno, "read", object);
    }
    bytes.append(buffer.data(),
                 static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (bytes.size() > limit) {
      return MakeError(Code::kInternal, "read", object, "is too long");
    }
  }
}

Result<std::vector<std::string>> ListNames(int directory) {
  UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseDir> stream(fd.valid() ? ::fdopendir(fd.get())
                                                         : nullptr);
  if (stream == nullptr) {
    return ErrnoError(errno, "opendir", "");
  }
  fd.release();  // the stream owns it now
  std::vector<std::string> names;
  // readdir returns null at the end and after an error; errno tells the two
  // apart.
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
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

Result<void> CopyData(int from, int to, const std::string& object) {
  // FICLONE shares the blocks where the file system can (ioctl_ficlone(2)).
  // After a failure the bytes are copied.
  if (::ioctl(to, FICLONE, from) == 0) {
    return Ok();
  }
  struct stat status {};
  if (::fstat(from, &status) != 0 || ::ftruncate(to, status.st_size) != 0) {
    return ErrnoError(errno, "copy", object);
  }
  for (off_t at = 0; at < status.st_size;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      return Ok();  // only a hole is left
    }
    // If lseek fails, the file system has no holes and all is data.
    const off_t start = data < 0 ? at : data;
    const off_t hole = data < 0 ? -1 : ::lseek(from, start, SEEK_HOLE);
    const off_t end =
        hole < 0 ? status.st_size : std::min(hole, status.st_size);
    MOUNTD_TRY(CopyRange(from, to, start, end, object));
    // Always moves forward, even if the file changes between the two lseeks.
    at = std::max(end, start + 1);
  }
  return Ok();
}

}  // namespace mountd::csi_local
