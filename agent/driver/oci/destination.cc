// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/destination.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "agent/driver/bundle/checks.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's bound

// Returns the target of a symlink of the image; "" for anything else.
std::string TargetInImage(int rootfs, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const UniqueFd file(static_cast<int>(
      ::syscall(SYS_openat2, rootfs, path.c_str(), &how, sizeof(how))));
  std::string target(PATH_MAX, '\0');
  const ssize_t got =
      file.valid() ? ::readlinkat(file.get(), "", target.data(), target.size())
                   : -1;
  target.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return target;
}

}  // namespace

Result<std::string> FollowInImage(int rootfs, const std::string& path) {
  std::string rest = path;
  std::string done;
  int links = 0;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string part = rest.substr(0, end);
    rest.erase(0, std::min(end + 1, rest.size()));
    if (part.empty() || part == ".") {
      continue;
    }
    if (part == "..") {
      done.erase(std::min(done.rfind('/'), done.size()));
      continue;
    }
    const std::string next = done + "/" + part;
    const std::string target = TargetInImage(rootfs, next);
    if (target.empty()) {
      done = next;
      continue;
    }
    if (++links > kMostLinks) {
      return MakeError(Code::kInvalidArgument, "mount", path,
                       "the image's symlinks lead in circles");
    }
    if (target.front() == '/') {
      done.clear();
    }
    rest = target + "/" + rest;
  }
  return done.empty() ? "/" : done;
}

Result<void> CheckDestinationInImage(int rootfs,
                                     const std::string& destination) {
  MOUNTD_ASSIGN(const std::string real, FollowInImage(rootfs, destination));
  const auto checked = CheckDestination("destination", real);
  if (checked) {
    return Ok();
  }
  return MakeError(Code::kInvalidArgument, "mount", destination,
                   "a symlink of the image leads to " + real +
                       ", which no mount may cover; choose another path");
}

}  // namespace mountd::driver
