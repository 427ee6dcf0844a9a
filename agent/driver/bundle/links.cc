// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/links.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "agent/driver/bundle/checks.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

UniqueFd OpenInRoot(int rootfs, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_openat2, rootfs, path.c_str(), &how, sizeof(how))));
}

// Opens the directory `path`, and makes each directory that is missing.
Result<UniqueFd> MakeInRoot(int rootfs, const std::string& path) {
  UniqueFd directory = OpenInRoot(rootfs, "/");
  for (std::size_t begin = 1; directory.valid() && begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string upto = path.substr(0, end);
    UniqueFd next = OpenInRoot(rootfs, upto);
    if (!next.valid() && errno == ENOENT) {
      const std::string name = path.substr(begin, end - begin);
      if (::mkdirat(directory.get(), name.c_str(), 0755) != 0) {
        // EEXIST: the image has a symlink here that leads to nothing.
        return ErrnoError(errno, "mkdir", upto);
      }
      next = OpenInRoot(rootfs, upto);
    }
    directory = std::move(next);
    begin = end + 1;
  }
  if (!directory.valid()) {
    return ErrnoError(errno, "open", path);
  }
  return directory;
}

bool IsLinkTo(const UniqueFd& directory, const char* name,
              const std::string& target) {
  std::string text(PATH_MAX, '\0');
  const ssize_t got =
      ::readlinkat(directory.get(), name, text.data(), text.size());
  return got >= 0 && std::string_view(text).substr(
                         0, static_cast<std::size_t>(got)) == target;
}

}  // namespace

Result<void> PlaceLink(int rootfs, const std::string& destination,
                       const std::string& target) {
  MOUNTD_TRY(CheckDestination("link", destination));
  MOUNTD_TRY(CheckPath("link target", target));
  const std::size_t slash = destination.rfind('/');
  const char* const name = destination.c_str() + slash + 1;
  MOUNTD_ASSIGN(const UniqueFd directory,
                MakeInRoot(rootfs, destination.substr(0, slash)));
  const auto link = [&] {
    return ::symlinkat(target.c_str(), directory.get(), name) == 0;
  };
  if (link()) {
    return Ok();
  }
  if (errno != EEXIST) {
    return ErrnoError(errno, "symlink", destination);
  }
  if (IsLinkTo(directory, name, target) ||
      (::unlinkat(directory.get(), name, AT_REMOVEDIR) == 0 && link())) {
    return Ok();
  }
  return MakeError(Code::kAlreadyExists, "symlink", destination,
                   "the image has a file or a full directory there; choose "
                   "another path, or mount without a link");
}

}  // namespace mountd::driver
