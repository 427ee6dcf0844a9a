// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "mountd/kernel/kernel_abi.h"
#include "mountd/kernel/real_kernel.h"

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
  // AT_EMPTY_PATH clones by the descriptor, because a path may lead elsewhere
  // by now.
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
  // Name both ends by descriptor, so that the kernel looks up no path.
  return Done(::move_mount(tree, "", target, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

Sys<void> RealKernel::AttachBeneath(int tree, int target) {
  // Linux has MOVE_MOUNT_BENEATH since 6.5.
  return Done(::move_mount(tree, "", target, "",
                           MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH |
                               abi::kMoveMountBeneath));
}

Sys<void> RealKernel::JoinGroup(int from, int fd) {
  // MOVE_MOUNT_SET_GROUP (Linux 5.15) moves nothing. It only puts the mount
  // into the group of `from` (move_mount(2)).
  return Done(::move_mount(from, "", fd, "",
                           MOVE_MOUNT_SET_GROUP | MOVE_MOUNT_F_EMPTY_PATH |
                               MOVE_MOUNT_T_EMPTY_PATH));
}

Sys<void> RealKernel::Unmount(int parent, const std::string& name, int flags) {
  // Unmount by a name in the working directory, because umount2(2) takes no
  // directory fd. An fd of the mount itself would make the mount busy, and in a
  // container /proc may be anything.
  const UniqueFd before(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!before.valid() || ::fchdir(parent) < 0) {
    return errno;
  }
  const Sys<void> unmounted =
      Done(::umount2(name.c_str(), flags | UMOUNT_NOFOLLOW));
  // Leave `parent` in any case, because a working directory keeps its mount
  // busy.
  // busy.
  return ::fchdir(before.get()) < 0 && ::chdir("/") < 0 ? Sys<void>(errno)
                                                        : unmounted;
}

bool RealKernel::CanMountBeneath() {
  // The kernel checks flags first, so an unknown flag gives EINVAL before it
  // finds the path missing.
  return ::move_mount(-1, "", -1, "", abi::kMoveMountBeneath) < 0 &&
         errno != EINVAL;
}

namespace {

// Has room for two paths, a type and a source. If a path is longer, the kernel
// leaves it out. A user who mounts by a helper can make such a path.
struct StatmountAnswer {
  alignas(abi::Statmount) std::array<
      char, sizeof(abi::Statmount) + std::size_t{2} * PATH_MAX + 256> buffer;
  abi::Statmount head;
  bool has_paths;

  std::string Text(std::uint32_t offset) const {
    const std::size_t at = sizeof(abi::Statmount) + offset;
    return at < buffer.size()
               ? std::string(&buffer.at(at),
                             ::strnlen(&buffer.at(at), buffer.size() - at))
               : std::string();
  }
};

Sys<void> AskStatmount(abi::MountIdRequest request, StatmountAnswer* answer) {
  constexpr std::uint64_t kPaths = abi::kRoot | abi::kPoint;
  request.param =
      abi::kSuperblock | abi::kMount | abi::kType | abi::kSource | kPaths;
  const auto ask = [&] {
    return ::syscall(abi::kSysStatmount, &request, answer->buffer.data(),
                     answer->buffer.size(), 0);
  };
  answer->has_paths = true;
  long status = ask();
  // The paths do not fit, so ask for all facts but the paths.
  if (status < 0 && errno == EOVERFLOW) {
    answer->has_paths = false;
    request.param &= ~kPaths;
    status = ask();
  }
  if (status < 0) {
    return errno;
  }
  std::memcpy(&answer->head, answer->buffer.data(), sizeof(answer->head));
  return {};
}

MountFacts FactsIn(const StatmountAnswer& answer) {
  const abi::Statmount& head = answer.head;
  MountFacts facts;
  facts.id = head.id;
  facts.parent_id = head.parent_id;
  facts.device = makedev(head.device_major, head.device_minor);
  facts.attributes = head.attributes;
  facts.peer_group = head.peer_group;
  facts.master = head.master;
  facts.type = answer.Text(head.type);
  if ((head.mask & abi::kSource) != 0) {
    facts.source = answer.Text(head.source);
  }
  facts.root = answer.has_paths ? answer.Text(head.root) : "";
  facts.point = answer.has_paths ? answer.Text(head.point) : "";
  return facts;
}

// Returns all ids of the request, in as many calls as needed.
Sys<std::vector<std::uint64_t>> AskListmount(abi::MountIdRequest request) {
  std::vector<std::uint64_t> ids;
  std::array<std::uint64_t, 256> some{};
  for (;;) {
    const long count =
        ::syscall(abi::kSysListmount, &request, some.data(), some.size(), 0);
    if (count < 0) {
      return errno;
    }
    ids.insert(ids.end(), some.begin(), some.begin() + count);
    if (static_cast<std::size_t>(count) < some.size()) {
      return ids;
    }
    // Go on after the last id.
    request.param = ids.back();
  }
}

abi::MountIdRequest OfNamespace(std::uint64_t id, std::uint64_t mount_id) {
  abi::MountIdRequest request;
  request.size = sizeof(request);
  request.mount_id = mount_id;
  request.mount_namespace = id;
  return request;
}

}  // namespace

Sys<MountFacts> RealKernel::MountById(std::uint64_t id) {
  abi::MountIdRequest request;
  request.mount_id = id;
  StatmountAnswer answer;
  const Sys<void> asked = AskStatmount(request, &answer);
  return asked ? Sys<MountFacts>(FactsIn(answer)) : asked.error();
}

Sys<std::vector<std::uint64_t>> RealKernel::MountsBelow(std::uint64_t id,
                                                        std::uint64_t after) {
  abi::MountIdRequest request;
  request.mount_id = id;
  request.param = after;
  return AskListmount(request);
}

Sys<std::vector<MountFacts>> RealKernel::MountsOfNamespace(std::uint64_t id) {
  const Sys<std::vector<std::uint64_t>> ids =
      AskListmount(OfNamespace(id, abi::kAllMounts));
  if (!ids) {
    return ids.error();
  }
  std::vector<MountFacts> mounts;
  mounts.reserve(ids->size());
  StatmountAnswer answer;
  for (const std::uint64_t mount : *ids) {
    const Sys<void> asked = AskStatmount(OfNamespace(id, mount), &answer);
    if (FailedWith(asked, ENOENT)) {
      continue;  // unmounted meanwhile
    }
    if (!asked) {
      return asked.error();
    }
    mounts.push_back(FactsIn(answer));
    // mountinfo shows the reusable ids.
    mounts.back().id = answer.head.id_old;
    mounts.back().parent_id = answer.head.parent_id_old;
  }
  return mounts;
}

}  // namespace mountd::exec
