// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/devices.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "agent/driver/bundle/checks.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

Error Refusal(Code code, const Device& device, std::string detail) {
  return MakeError(code, "device", device.host_path, std::move(detail));
}

// Opens with O_PATH, because another open may do something, such as start a
// watchdog.
Result<UniqueFd> OpenNode(const Device& device) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  UniqueFd node(static_cast<int>(::syscall(
      SYS_openat2, AT_FDCWD, device.host_path.c_str(), &how, sizeof(how))));
  if (!node.valid() && errno == ELOOP) {
    return Refusal(Code::kInvalidArgument, device,
                   "is a symlink or lies beneath one; name the node itself");
  }
  if (!node.valid()) {
    return ErrnoError(errno, "open", device.host_path);
  }
  return node;
}

// Says whether only an additional group gives the user these rights. A
// container has none of the user's groups but the main one.
bool IsByAdditionalGroup(const struct stat& node, int rights) {
  if (node.st_uid == ::geteuid() || node.st_gid == ::getegid()) {
    return false;
  }
  return (static_cast<int>(node.st_mode & S_IRWXO) & rights) != rights;
}

bool MayOpen(int node, int rights) {
  return ::syscall(SYS_faccessat2, node, "", rights,
                   AT_EMPTY_PATH | AT_EACCESS) == 0;
}

Result<int> RightsOf(const Device& device) {
  int rights = 0;
  for (const char letter : device.cgroup_permissions) {
    if (letter == 'm') {
      return Refusal(Code::kNotSupported, device,
                     "the permission \"m\" is for a container that makes "
                     "nodes, and a rootless one makes none; leave it out");
    }
    if (letter != 'r' && letter != 'w') {
      return Refusal(Code::kInvalidArgument, device,
                     "the permissions are of \"r\" and \"w\"");
    }
    rights |= letter == 'r' ? R_OK : W_OK;
  }
  if (rights == 0) {
    return Refusal(Code::kInvalidArgument, device,
                   "the device has no permissions; give \"r\", \"w\" or "
                   "\"rw\"");
  }
  return rights;
}

Result<void> CheckNode(const Device& device) {
  MOUNTD_ASSIGN(const int rights, RightsOf(device));
  MOUNTD_ASSIGN(const UniqueFd node, OpenNode(device));
  struct stat found = {};
  struct statvfs where = {};
  if (::fstat(node.get(), &found) != 0 || ::fstatvfs(node.get(), &where) != 0) {
    return ErrnoError(errno, "stat", device.host_path);
  }
  if (!S_ISCHR(found.st_mode) && !S_ISBLK(found.st_mode)) {
    return Refusal(Code::kInvalidArgument, device, "is no device");
  }
  if ((where.f_flag & ST_NODEV) != 0) {
    return Refusal(Code::kPermissionDenied, device,
                   "lies in a file system without devices (nodev)");
  }
  if (!MayOpen(node.get(), rights)) {
    return Refusal(Code::kPermissionDenied, device,
                   "this user may not open it so, and a task may not either");
  }
  if (IsByAdditionalGroup(found, rights)) {
    return Refusal(Code::kPermissionDenied, device,
                   "this user may open it by an additional group or an ACL, "
                   "and a container has neither");
  }
  const int more = (R_OK | W_OK) & ~rights;
  // The root of a container overrides the mode of its own user's node.
  if (more != 0 && (found.st_uid == ::geteuid() || MayOpen(node.get(), more))) {
    return Refusal(Code::kNotSupported, device,
                   "this user may open it with \"rw\", and no cgroup of an "
                   "ordinary user keeps a task from it; ask for \"rw\"");
  }
  return Ok();
}

}  // namespace

Result<std::vector<TaskDevice>> DevicesOf(const std::vector<Device>& devices) {
  std::vector<TaskDevice> all;
  for (const Device& device : devices) {
    MOUNTD_TRY(CheckPath("device", device.host_path));
    MOUNTD_TRY(CheckNode(device));
    all.push_back({device.host_path, device.task_path});
  }
  MOUNTD_TRY(CheckTaskDevices(all));
  return all;
}

}  // namespace mountd::driver
