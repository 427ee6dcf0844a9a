// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Loop devices (loop(4)), by ioctls alone. A task that has a device may set its
// label, its flags and even its file; only the number, which csi-local chooses,
// and the image's inode, which the kernel reads from the open file, say whose a
// device is.
namespace mountd::csi_local {

struct LoopDevice {
  int number = -1;
  UniqueFd fd;
  // Of the file that it is bound to.
  dev_t image_device = 0;
  ino_t image_inode = 0;
  std::string label;  // for people, and for what an older version has left
  bool read_only = false;
  bool autoclear = false;

  std::string Path() const { return "/dev/loop" + std::to_string(number); }
};

enum class LoopUse {
  kFilesystem,  // goes with its last mount
  kDevice,      // stays until it is removed
  kDeviceReadOnly,
};

inline constexpr std::size_t kMaxLoopLabel = 63;

// The device number of the loop device.
dev_t LoopDeviceId(int number);

// Makes the loop device of that number, bound to nothing. AlreadyExists if
// there is one; Unavailable without /dev/loop-control.
Result<void> AddLoop(int number);

// Binds it to `image`.
Result<LoopDevice> BindLoop(int number, const UniqueFd& image,
                            const std::string& label, LoopUse use);

// Nothing if there is no such device, or it is bound to nothing.
Result<std::optional<LoopDevice>> OpenLoop(int number);

// Only opened, whatever it is bound to; nothing if it cannot be.
std::optional<UniqueFd> HoldLoop(int number);

// The device that bears that label. An older version kept no numbers.
Result<std::optional<LoopDevice>> FindLabelledLoop(const std::string& label);

// Makes the device as large as its image has become.
Result<void> UpdateLoopSize(const LoopDevice& loop);

// Removes the device if it is bound to nothing and nobody has it open: then no
// descriptor, mapping, mount or other device leads to its image. False while
// somebody has.
Result<bool> RemoveIdleLoop(int number);

// The same, and asks for it to be unbound first.
Result<bool> RemoveLoop(int number);

}  // namespace mountd::csi_local
