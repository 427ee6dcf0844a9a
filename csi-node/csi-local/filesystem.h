// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "csi-node/csi-local/loop_device.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Makes, mounts, grows and freezes the file systems of images, and tmpfs.
namespace mountd::csi_local {

inline constexpr std::int64_t kMiB = 1 << 20;

// IsImageFsType is true if images can have the type; LeastBytes is the type's
// smallest size.
bool IsImageFsType(const std::string& fs_type);
std::int64_t LeastBytes(const std::string& fs_type);

// Makes a file system in an image that nobody uses. NotSupported if its mkfs is
// missing.
Result<void> MakeFilesystem(const std::string& fs_type, const UniqueFd& image);

// Returns the size of the file system in the image, from its superblock; 0 if
// the image has none of that type.
Result<std::int64_t> FilesystemBytes(const std::string& fs_type,
                                     const UniqueFd& image);

// Grows an unused file system to the image's size. Does nothing for XFS, which
// can only grow while it is mounted.
Result<void> GrowUnused(const std::string& fs_type, const UniqueFd& image);

// Grows a mounted file system to the size of its device; `root` is a directory
// of it. FailedPrecondition if the kernel demands more rights than this process
// has (ext4: CAP_SYS_RESOURCE).
Result<void> GrowMounted(const std::string& fs_type, const UniqueFd& root,
                         const UniqueFd& image, std::int64_t bytes);

// Return mounts that are attached nowhere yet, nosuid and nodev.
Result<UniqueFd> MountDevice(const std::string& fs_type,
                             const LoopDevice& device);
Result<UniqueFd> MountTmpfs(const std::string& source, std::int64_t bytes);

// `root` is any directory of the tmpfs.
Result<void> ResizeTmpfs(const UniqueFd& root, std::int64_t bytes);

// Blocks writes to the file system while this object lives (FIFREEZE). Earlier
// writes are on its device. Leaves a freeze by somebody else as it is.
class Frozen {
 public:
  static Result<Frozen> Freeze(const UniqueFd& root);
  ~Frozen();
  Frozen(Frozen&&) = default;
  Frozen& operator=(Frozen&&) = delete;

 private:
  explicit Frozen(UniqueFd root) : root_(std::move(root)) {}
  UniqueFd root_;
};

// Ends the freeze of a process that was killed while it had one.
void Thaw(const UniqueFd& root);

}  // namespace mountd::csi_local
