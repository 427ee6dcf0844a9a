// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "csi-node/csi_local/loop_device.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// File systems of images, and tmpfs: made, mounted, grown, held still.
namespace mountd::csi_local {

inline constexpr std::int64_t kMiB = 1 << 20;

// Whether images can have it, and the least size one of it has.
bool IsImageFsType(const std::string& fs_type);
std::int64_t LeastBytes(const std::string& fs_type);

// Makes a file system in an image that nobody uses. NotSupported without its
// mkfs.
Result<void> MakeFilesystem(const std::string& fs_type, const UniqueFd& image);

// How large the file system in the image is, by its superblock; 0 if there is
// none of that type.
Result<std::int64_t> FilesystemBytes(const std::string& fs_type,
                                     const UniqueFd& image);

// Grows one that nobody uses to the image's size. XFS has no such thing: it is
// grown when it is mounted.
Result<void> GrowUnused(const std::string& fs_type, const UniqueFd& image);

// The same of a mounted one, to the size of its device; `root` is a directory
// of it. FailedPrecondition where the kernel lets only somebody with more
// rights do that (ext4: CAP_SYS_RESOURCE).
Result<void> GrowMounted(const std::string& fs_type, const UniqueFd& root,
                         const UniqueFd& image, std::int64_t bytes);

// Mounts that nobody sees yet, nosuid and nodev.
Result<UniqueFd> MountDevice(const std::string& fs_type,
                             const LoopDevice& device);
Result<UniqueFd> MountTmpfs(const std::string& source, std::int64_t bytes);

// `root` is any directory of it.
Result<void> ResizeTmpfs(const UniqueFd& root, std::int64_t bytes);

// Writes to the file system wait while it lives (FIFREEZE), and what was
// written is on its device. What another freeze holds stays held.
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

// For one that was killed while it held something.
void Thaw(const UniqueFd& root);

}  // namespace mountd::csi_local
