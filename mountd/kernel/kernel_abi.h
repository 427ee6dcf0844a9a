// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

// Numbers and structs of the kernel that Debian 12's headers (6.1, glibc 2.36)
// lack. Source: include/uapi/linux/{mount,stat}.h of Linux 6.8 and the syscall
// table, which is the same on every architecture from number 424 on.
namespace mountd::exec::abi {

inline constexpr long kSysOpenat2 = 437;    // 5.6
inline constexpr long kSysStatmount = 457;  // 6.8
inline constexpr long kSysListmount = 458;  // 6.8

// statx(2): the 64-bit mount id that the kernel never uses again (6.8). An
// older kernel ignores the bit and leaves it out of stx_mask.
inline constexpr std::uint32_t kStatxMountId = 0x1000;
inline constexpr std::uint32_t kStatxMountIdUnique = 0x4000;

// include/linux/exportfs.h, FILEID_KERNFS (5.5): a handle of kernfs is the
// file's id.
inline constexpr int kFileidKernfs = 0xfe;

inline constexpr unsigned kMoveMountBeneath = 0x200;  // 6.5

// fanotify(7): mounts as objects (6.15; linux/fanotify.h).
inline constexpr unsigned kFanReportMount = 0x4000;        // FAN_REPORT_MNT
inline constexpr unsigned kFanMarkMountNamespace = 0x110;  // FAN_MARK_MNTNS
inline constexpr std::uint64_t kFanMountAttach = 0x01000000;
inline constexpr std::uint64_t kFanMountDetach = 0x02000000;

inline constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD, 6.5

// listmount(2): all mounts of a namespace (LSMT_ROOT).
inline constexpr std::uint64_t kAllMounts = ~std::uint64_t{0};

// ioctl_nsfs(2), NS_GET_MNTNS_ID (6.11).
inline constexpr unsigned long kNamespaceId = 0x8008b705;

// ioctl_nsfs(2), NS_MNT_GET_NEXT and NS_MNT_GET_PREV (6.12). Both return an fd
// of the mount namespace with the next id in that direction.
inline constexpr unsigned long kNextNamespace = 0x8010b70b;
inline constexpr unsigned long kPreviousNamespace = 0x8010b70c;

struct NamespaceInfo {  // struct mnt_ns_info
  std::uint32_t size = 16;
  std::uint32_t mounts = 0;
  std::uint64_t id = 0;
};
static_assert(sizeof(NamespaceInfo) == 16);

struct MountIdRequest {  // struct mnt_id_req, MNT_ID_REQ_SIZE_VER0 and _VER1
  std::uint32_t size = 24;
  std::uint32_t spare = 0;
  std::uint64_t mount_id = 0;
  std::uint64_t param = 0;  // statmount: mask; listmount: the last id seen
  std::uint64_t mount_namespace = 0;  // its id (6.11), if `size` is 32
};
static_assert(sizeof(MountIdRequest) == 32);

enum StatmountMask : std::uint64_t {
  kSuperblock = 0x1,
  kMount = 0x2,
  kRoot = 0x8,
  kPoint = 0x10,
  kType = 0x20,
  kSource = 0x200,  // 6.13; an older kernel leaves it out
};

struct Statmount {
  std::uint32_t size;
  std::uint32_t options;
  std::uint64_t mask;
  std::uint32_t device_major;
  std::uint32_t device_minor;
  std::uint64_t magic;
  std::uint32_t superblock_flags;
  std::uint32_t type;  // this and root, point: offsets into text
  std::uint64_t id;
  std::uint64_t parent_id;
  std::uint32_t id_old;
  std::uint32_t parent_id_old;
  std::uint64_t attributes;   // MOUNT_ATTR_*
  std::uint64_t propagation;  // MS_SHARED and so on
  std::uint64_t peer_group;
  std::uint64_t master;
  std::uint64_t propagate_from;
  std::uint32_t root;
  std::uint32_t point;
  std::uint64_t mount_namespace;
  std::uint32_t subtype;
  std::uint32_t source;
  std::uint64_t spare[48];
  // the text follows
};
static_assert(offsetof(Statmount, id) == 40);
static_assert(offsetof(Statmount, root) == 104);
static_assert(offsetof(Statmount, source) == 124);
static_assert(sizeof(Statmount) == 512);

}  // namespace mountd::exec::abi
