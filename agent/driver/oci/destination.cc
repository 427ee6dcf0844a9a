// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/destination.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

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

// A mount, and where its destination leads in the image.
struct RealMount {
  const TaskMount* mount = nullptr;
  std::string path;
};

const RealMount* MountAbove(const std::vector<RealMount>& all,
                            const RealMount& one) {
  const RealMount* above = nullptr;
  for (const RealMount& other : all) {
    if (other.path.size() < one.path.size() &&
        IsAtOrBeneath(one.path, other.path) &&
        (above == nullptr || other.path.size() > above->path.size())) {
      above = &other;
    }
  }
  return above;
}

enum class Way { kClear, kLink, kHidden };

// Takes a missing part for no symlink, because the runtime makes a missing
// part. A task can make a directory of a subordinate id that this user may not
// read. The runtime follows symlinks in that directory, so the answer is then
// kHidden.
Way WayBeneath(const std::string& source, const std::string& path) {
  const UniqueFd top(::open(source.c_str(), O_PATH | O_CLOEXEC));
  if (!top.valid()) {
    return errno == ENOENT ? Way::kClear : Way::kHidden;
  }
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  const UniqueFd found(static_cast<int>(
      ::syscall(SYS_openat2, top.get(), path.c_str(), &how, sizeof(how))));
  if (found.valid() || errno == ENOENT || errno == ENOTDIR) {
    return Way::kClear;
  }
  return errno == ELOOP ? Way::kLink : Way::kHidden;
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

Result<void> CheckDestinationsInMounts(int rootfs,
                                       const std::vector<TaskMount>& mounts) {
  std::vector<RealMount> all;
  for (const TaskMount& mount : mounts) {
    MOUNTD_ASSIGN(std::string path, FollowInImage(rootfs, mount.destination));
    all.push_back({&mount, std::move(path)});
  }
  for (const RealMount& one : all) {
    const RealMount* const above = MountAbove(all, one);
    const Way way = above == nullptr
                        ? Way::kClear
                        : WayBeneath(above->mount->source,
                                     one.path.substr(above->path.size() + 1));
    if (way == Way::kLink) {
      return MakeError(Code::kInvalidArgument, "mount", one.mount->destination,
                       "a symlink in " + above->mount->source +
                           " leads it elsewhere; remove the symlink, or choose "
                           "another path");
    }
    if (way == Way::kHidden) {
      return MakeError(Code::kPermissionDenied, "mount", one.mount->destination,
                       "this user may not look in " + above->mount->source +
                           " for a symlink there; choose another path");
    }
  }
  return Ok();
}

}  // namespace mountd::driver
