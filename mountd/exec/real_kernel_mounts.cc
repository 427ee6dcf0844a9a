// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "mountd/exec/kernel_abi.h"
#include "mountd/exec/real_kernel.h"

namespace mountd::exec {
namespace {

Sys<UniqueFd> Opened(int fd) {
  if (fd < 0) {
    return errno;
  }
  return UniqueFd(fd);
}

}  // namespace

Sys<UniqueFd> RealKernel::OpenFilesystem(const char* type) {
  return Opened(::fsopen(type, FSOPEN_CLOEXEC));
}

Sys<void> RealKernel::ConfigureFilesystem(int fs, const char* key,
                                          const char* value) {
  return Done(
      ::fsconfig(fs, value == nullptr ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING,
                 key, value, 0));
}

Sys<void> RealKernel::CreateFilesystem(int fs) {
  return Done(::fsconfig(fs, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0));
}

Sys<UniqueFd> RealKernel::MountFilesystem(int fs, unsigned attributes) {
  return Opened(::fsmount(fs, FSMOUNT_CLOEXEC, attributes));
}

Sys<UniqueFd> RealKernel::CloneTree(int fd, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                         static_cast<unsigned>(AT_EMPTY_PATH) |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  return Opened(::open_tree(fd, "", flags));
}

Sys<void> RealKernel::SetMount(int tree, bool recursive,
                               const MountChange& change) {
  struct mount_attr attributes = {};
  attributes.attr_set = change.set;
  attributes.attr_clr = change.clear;
  attributes.propagation = change.propagation;
  if (change.user_namespace >= 0) {
    attributes.userns_fd = static_cast<unsigned>(change.user_namespace);
  }
  const unsigned flags = static_cast<unsigned>(AT_EMPTY_PATH) |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0U);
  return Done(
      ::mount_setattr(tree, "", flags, &attributes, sizeof(attributes)));
}

Sys<void> RealKernel::AttachTree(int tree, int target) {
  return Done(::move_mount(tree, "", target, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

Sys<void> RealKernel::AttachBeneath(int tree, int target) {
  return Done(::move_mount(tree, "", target, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH |
                               abi::kMoveMountBeneath));
}

Sys<void> RealKernel::JoinGroup(int from, int fd) {
  return Done(::move_mount(from, "", fd, "",
                           MOVE_MOUNT_SET_GROUP | MOVE_MOUNT_F_EMPTY_PATH |
                               MOVE_MOUNT_T_EMPTY_PATH));
}

Sys<void> RealKernel::Unmount(int parent, const std::string& name, int flags) {
  // umount2(2) takes no directory fd, an fd of the mount itself would make it
  // busy, and in a container /proc may be anything: hence the parent as working
  // directory, and the name.
  const UniqueFd before(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!before.valid() || ::fchdir(parent) < 0) {
    return errno;
  }
  const Sys<void> unmounted =
      Done(::umount2(name.c_str(), flags | UMOUNT_NOFOLLOW));
  return ::fchdir(before.get()) < 0 && ::chdir("/") < 0 ? Sys<void>(errno)
                                                        : unmounted;
}

bool RealKernel::CanMountBeneath() {
  // Flags are checked first: an unknown one is EINVAL, before the missing path.
  return ::move_mount(-1, "", -1, "", abi::kMoveMountBeneath) < 0 &&
         errno != EINVAL;
}

Sys<MountFacts> RealKernel::MountById(std::uint64_t id) {
  abi::MountIdRequest request;
  request.mount_id = id;
  request.param =
      abi::kSuperblock | abi::kMount | abi::kRoot | abi::kPoint | abi::kType;
  // Two paths and a type. Of longer paths, which anybody can have who may mount
  // by a helper, nothing is told.
  alignas(abi::Statmount)
      std::array<char, sizeof(abi::Statmount) + std::size_t{2} * PATH_MAX + 256>
          buffer{};
  long status =
      ::syscall(abi::kSysStatmount, &request, buffer.data(), buffer.size(), 0);
  if (status < 0 && errno == EOVERFLOW) {
    request.param = abi::kSuperblock | abi::kMount | abi::kType;
    status = ::syscall(abi::kSysStatmount, &request, buffer.data(),
                       buffer.size(), 0);
  }
  if (status < 0) {
    return errno;
  }
  abi::Statmount out{};
  std::memcpy(&out, buffer.data(), sizeof(out));
  const bool has_paths = (request.param & abi::kPoint) != 0;
  const auto text = [&](std::uint32_t offset) {
    const std::size_t at = sizeof(abi::Statmount) + offset;
    return at < buffer.size()
               ? std::string(&buffer.at(at),
                             ::strnlen(&buffer.at(at), buffer.size() - at))
               : std::string();
  };
  MountFacts facts;
  facts.id = out.id;
  facts.parent_id = out.parent_id;
  facts.device = makedev(out.device_major, out.device_minor);
  facts.attributes = out.attributes;
  facts.peer_group = out.peer_group;
  facts.master = out.master;
  facts.type = text(out.type);
  facts.root = has_paths ? text(out.root) : "";
  facts.point = has_paths ? text(out.point) : "";
  return facts;
}

Sys<std::vector<std::uint64_t>> RealKernel::MountsBelow(std::uint64_t id,
                                                        std::uint64_t after) {
  std::vector<std::uint64_t> ids;
  abi::MountIdRequest request;
  request.mount_id = id;
  request.param = after;
  std::array<std::uint64_t, 256> some{};
  for (;;) {
    const long count =
        ::syscall(abi::kSysListmount, &request, some.data(), some.size(), 0);
    if (count < 0) {
      return errno;
    }
    const auto end = some.begin() + count;
    ids.insert(ids.end(), some.begin(), end);
    if (static_cast<std::size_t>(count) < some.size()) {
      return ids;
    }
    request.param = ids.back();
  }
}

}  // namespace mountd::exec
