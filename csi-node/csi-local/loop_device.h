// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Manages loop devices (loop(4)), by ioctls alone. A task that has a device may
// set its label, its flags and even its file. So only two facts identify the
// volume of a device: the number, which csi-local chooses, and the image's
// inode, which the kernel reads from the open file.
namespace mountd::csi_local {

struct LoopDevice {
  int number = -1;
  UniqueFd fd;
  // The file that the device is bound to.
  dev_t image_device = 0;
  ino_t image_inode = 0;
  std::string label;  // for people, and to find devices of an older version
  bool read_only = false;
  bool autoclear = false;

  std::string Path() const { return "/dev/loop" + std::to_string(number); }
};

enum class LoopUse {
  kFilesystem,  // unbound with its last mount
  kDevice,      // bound until RemoveLoop
  kDeviceReadOnly,
};

inline constexpr std::size_t kMaxLoopLabel = 63;

// Returns the device number of the loop device.
dev_t LoopDeviceId(int number);

// Makes the loop device of that number, bound to no file. AlreadyExists if
// there is one; Unavailable without /dev/loop-control.
Result<void> AddLoop(int number);

// Binds the device to `image`.
Result<LoopDevice> BindLoop(int number, const UniqueFd& image,
                            const std::string& label, LoopUse use);

// Returns nothing if there is no such device, or it is bound to no file.
Result<std::optional<LoopDevice>> OpenLoop(int number);

// Opens the device without asking about its file; nothing if that fails.
std::optional<UniqueFd> HoldLoop(int number);

// Returns the device with that label, for volumes of an older version, which
// recorded no numbers.
Result<std::optional<LoopDevice>> FindLabelledLoop(const std::string& label);

// Makes the device as large as its image is now.
Result<void> UpdateLoopSize(const LoopDevice& loop);

// Removes the device if it is bound to no file and nobody has it open. If so,
// no descriptor, mapping, mount or other device leads to its image. False while
// somebody has the device.
Result<bool> RemoveIdleLoop(int number);

// Asks the kernel to unbind the device, and then works as RemoveIdleLoop.
Result<bool> RemoveLoop(int number);

}  // namespace mountd::csi_local
