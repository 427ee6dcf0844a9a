// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/filesystem.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "csi-node/csi-local/tool.h"

namespace mountd::csi_local {
namespace {

// These definitions are copies, because ext4's header (fs/ext4/ext4.h) is not
// public and XFS's belong to xfsprogs.
constexpr unsigned long kExt4ResizeFs = _IOW('f', 16, __u64);
struct XfsGrowData {
  __u64 new_blocks;
  __u32 max_inode_percent;
};
constexpr unsigned long kXfsGrowData = _IOW('X', 110, XfsGrowData);

struct Superblock {
  std::uint64_t block_bytes = 0;
  std::uint64_t blocks = 0;
  std::uint32_t max_inode_percent = 0;  // XFS
};

template <typename Number>
Number At(const std::array<char, 512>& block, std::size_t offset) {
  Number number{};
  std::memcpy(&number, block.data() + offset, sizeof(number));
  return number;
}

// The superblock is 1024 bytes from the start
// (Documentation/filesystems/ext4/super.rst).
std::optional<Superblock> ParseExt4(const std::array<char, 512>& block) {
  if (le16toh(At<std::uint16_t>(block, 0x38)) != 0xEF53) {
    return std::nullopt;
  }
  const std::uint32_t log = le32toh(At<std::uint32_t>(block, 0x18));
  // INCOMPAT_64BIT: the upper half of the number of blocks is valid.
  const bool large = (le32toh(At<std::uint32_t>(block, 0x60)) & 0x80) != 0;
  Superblock found;
  // Bounds the shift, because the image may hold any number. 64 KiB is the
  // largest block.
  found.block_bytes = 1024ULL << std::min(log, 6U);
  found.blocks = le32toh(At<std::uint32_t>(block, 0x4));
  if (large) {
    found.blocks |=
        static_cast<std::uint64_t>(le32toh(At<std::uint32_t>(block, 0x150)))
        << 32;
  }
  return found;
}

// struct xfs_dsb, big-endian, is at the start.
std::optional<Superblock> ParseXfs(const std::array<char, 512>& block) {
  if (std::memcmp(block.data(), "XFSB", 4) != 0) {
    return std::nullopt;
  }
  Superblock found;
  found.block_bytes = be32toh(At<std::uint32_t>(block, 4));
  found.blocks = be64toh(At<std::uint64_t>(block, 8));
  found.max_inode_percent = At<std::uint8_t>(block, 127);
  return found;
}

Result<Superblock> ReadSuperblock(const std::string& fs_type,
                                  const UniqueFd& image) {
  const bool ext4 = fs_type == "ext4";
  std::array<char, 512> block{};
  const ssize_t got =
      ::pread(image.get(), block.data(), block.size(), ext4 ? 1024 : 0);
  if (got < 0) {
    return ErrnoError(errno, "pread", fs_type);
  }
  const auto found = got == static_cast<ssize_t>(block.size())
                         ? (ext4 ? ParseExt4(block) : ParseXfs(block))
                         : std::nullopt;
  if (!found || found->block_bytes == 0) {
    return MakeError(Code::kFailedPrecondition, "superblock", fs_type,
                     "the image does not contain this file system");
  }
  return *found;
}

Result<void> Succeeded(const Result<int>& status, const std::string& name,
                       int highest) {
  if (!status) {
    return status.error();
  }
  if (*status > highest) {
    return MakeError(Code::kInternal, "tool", name,
                     "failed with exit status " + std::to_string(*status));
  }
  return Ok();
}

Result<void> Set(const UniqueFd& context, const char* key,
                 const std::string& value) {
  return ::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(),
                    0) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "fsconfig", key));
}

Result<UniqueFd> Create(const UniqueFd& context, const std::string& object) {
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) !=
      0) {
    return ErrnoError(errno, "mount", object);
  }
  UniqueFd tree(::fsmount(context.get(), FSMOUNT_CLOEXEC,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  if (!tree.valid()) {
    return ErrnoError(errno, "fsmount", object);
  }
  return tree;
}

// Opens the directory again, because ioctls do not work on O_PATH.
Result<UniqueFd> OpenRoot(const UniqueFd& root) {
  UniqueFd opened(
      ::openat(root.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.valid()) {
    return ErrnoError(errno, "open", "the file system's directory");
  }
  return opened;
}

}  // namespace

bool IsImageFsType(const std::string& fs_type) {
  return fs_type == "ext4" || fs_type == "xfs";
}

std::int64_t LeastBytes(const std::string& fs_type) {
  // mkfs.xfs refuses less than 300 MiB, and ext4's journal needs some room.
  return fs_type == "xfs" ? 300 * kMiB : fs_type == "ext4" ? 8 * kMiB : kMiB;
}

Result<void> MakeFilesystem(const std::string& fs_type, const UniqueFd& image) {
  // No discard, because the image is one hole anyway.
  // -F, because the image is no block device (mkfs.ext4(8)). -m 0, because root
  // needs no reserved blocks in a volume.
  const std::vector<std::string> arguments =
      fs_type == "ext4"
          ? std::vector<std::string>{"-q", "-F",        "-m",     "0",
                                     "-E", "nodiscard", kToolFile}
          : std::vector<std::string>{"-q", "-f", "-K", kToolFile};
  const std::string name = "mkfs." + fs_type;
  return Succeeded(RunTool(name, arguments, image), name, 0);
}

Result<std::int64_t> FilesystemBytes(const std::string& fs_type,
                                     const UniqueFd& image) {
  MOUNTD_ASSIGN(const Superblock found, ReadSuperblock(fs_type, image));
  return static_cast<std::int64_t>(found.blocks * found.block_bytes);
}

Result<void> GrowUnused(const std::string& fs_type, const UniqueFd& image) {
  // XFS grows only while it is mounted (xfs_growfs(8)).
  if (fs_type != "ext4") {
    return Ok();
  }
  // Exit status 1 means that e2fsck found errors and corrected them.
  // resize2fs refuses an image that was not checked with -f.
  MOUNTD_TRY(Succeeded(RunTool("e2fsck", {"-f", "-p", kToolFile}, image),
                       "e2fsck", 1));
  return Succeeded(RunTool("resize2fs", {kToolFile}, image), "resize2fs", 0);
}

Result<void> GrowMounted(const std::string& fs_type, const UniqueFd& root,
                         const UniqueFd& image, std::int64_t bytes) {
  MOUNTD_ASSIGN(const Superblock now, ReadSuperblock(fs_type, image));
  const std::uint64_t blocks =
      static_cast<std::uint64_t>(bytes) / now.block_bytes;
  if (blocks <= now.blocks) {
    return Ok();
  }
  MOUNTD_ASSIGN(const UniqueFd opened, OpenRoot(root));
  int failed = 0;
  if (fs_type == "ext4") {
    const __u64 wanted = blocks;
    failed = ::ioctl(opened.get(), kExt4ResizeFs, &wanted);
  } else {
    const XfsGrowData wanted{blocks, now.max_inode_percent};
    failed = ::ioctl(opened.get(), kXfsGrowData, &wanted);
  }
  if (failed == 0) {
    return Ok();
  }
  Error error = ErrnoError(errno, "grow", fs_type);
  // EPERM: ext4's resize needs CAP_SYS_RESOURCE.
  if (error.sys_errno == EPERM) {
    error.code = Code::kFailedPrecondition;
    error.detail =
        "csi-local may not grow a mounted file system; it grows at its next "
        "staging";
  }
  return error;
}

Result<UniqueFd> MountDevice(const std::string& fs_type,
                             const LoopDevice& device) {
  const UniqueFd context(::fsopen(fs_type.c_str(), FSOPEN_CLOEXEC));
  if (!context.valid()) {
    Error error = ErrnoError(errno, "fsopen", fs_type);
    error.code = Code::kNotSupported;
    return error;
  }
  MOUNTD_TRY(Set(context, "source", device.Path()));
  if (fs_type == "ext4") {
    // Read-only after an error, so that the volume's condition shows the error.
    MOUNTD_TRY(Set(context, "errors", "remount-ro"));
  } else if (::fsconfig(context.get(), FSCONFIG_SET_FLAG, "nouuid", nullptr,
                        0) != 0) {
    // A copy has the UUID of its source, and XFS refuses to mount a UUID twice.
    return ErrnoError(errno, "fsconfig", "nouuid");
  }
  return Create(context, device.label);
}

Result<UniqueFd> MountTmpfs(const std::string& source, std::int64_t bytes) {
  const UniqueFd context(::fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (!context.valid()) {
    return ErrnoError(errno, "fsopen", "tmpfs");
  }
  MOUNTD_TRY(Set(context, "source", source));
  MOUNTD_TRY(Set(context, "size", std::to_string(bytes)));
  MOUNTD_TRY(Set(context, "mode", "0777"));
  return Create(context, source);
}

Result<void> ResizeTmpfs(const UniqueFd& root, std::int64_t bytes) {
  const UniqueFd context(
      ::fspick(root.get(), "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
  if (!context.valid()) {
    return ErrnoError(errno, "fspick", "tmpfs");
  }
  MOUNTD_TRY(Set(context, "size", std::to_string(bytes)));
  if (::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr,
                 0) != 0) {
    return ErrnoError(errno, "reconfigure", "tmpfs");
  }
  return Ok();
}

Result<Frozen> Frozen::Freeze(const UniqueFd& root) {
  MOUNTD_ASSIGN(UniqueFd opened, OpenRoot(root));
  if (::ioctl(opened.get(), FIFREEZE, 0) != 0) {
    return ErrnoError(errno, "FIFREEZE", "volume");
  }
  return Frozen(std::move(opened));
}

Frozen::~Frozen() {
  if (root_.valid()) {
    ::ioctl(root_.get(), FITHAW, 0);
  }
}

void Thaw(const UniqueFd& root) {
  const Result<UniqueFd> opened = OpenRoot(root);
  if (opened) {
    ::ioctl(opened->get(), FITHAW, 0);
  }
}

}  // namespace mountd::csi_local
