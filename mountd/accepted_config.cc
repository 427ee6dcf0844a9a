// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/accepted_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "mountd/base/unique_fd.h"
#include "mountd/config.h"
#include "mountd/config_file.h"

namespace mountd {
namespace {

Result<void> WriteWhole(int fd, std::string_view text,
                        const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return ErrnoError(errno, "write", path);
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return Ok();
}

Result<void> WriteFile(const std::string& path, std::string_view text,
                       gid_t readers) {
  unlink(path.c_str());  // of one that was killed
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                         S_IRUSR | S_IWUSR));
  if (!fd.valid()) {
    return ErrnoError(errno, "open", path);
  }
  MOUNTD_TRY(WriteWhole(fd.get(), text, path));
  if (fchown(fd.get(), 0, readers) != 0) {
    return ErrnoError(errno, "fchown", path);
  }
  if (fchmod(fd.get(), S_IRUSR | S_IWUSR | S_IRGRP) != 0) {
    return ErrnoError(errno, "fchmod", path);
  }
  return Ok();
}

}  // namespace

Result<void> AcceptConfig(const std::string& from, const std::string& to,
                          gid_t readers) {
  MOUNTD_ASSIGN(const ConfigFile file, ReadConfigFile(from, true));
  MOUNTD_TRY(ParseConfig(file.text, from));
  const std::string next = to + ".new";
  Result<void> written = WriteFile(next, file.text, readers);
  if (written && rename(next.c_str(), to.c_str()) != 0) {
    written = ErrnoError(errno, "rename", to);
  }
  if (!written) {
    unlink(next.c_str());
  }
  return written;
}

}  // namespace mountd
