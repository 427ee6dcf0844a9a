// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Loop devices (loop(4)), by ioctls alone. Which device is whose is read from
// the kernel: each bears a label, set in the call that binds it, by root only.
namespace mountd::csi_local {

struct LoopDevice {
  int number = -1;
  UniqueFd fd;  // keeps it from being cleared
  std::string label;
  bool read_only = false;
  // Cleared by the kernel once nobody has it open or mounted.
  bool autoclear = false;

  std::string Path() const { return "/dev/loop" + std::to_string(number); }
};

enum class LoopUse {
  kFilesystem,  // goes with its last mount
  kDevice,      // stays until it is detached
  kDeviceReadOnly,
};

inline constexpr std::size_t kMaxLoopLabel = 63;

// Binds a free device to `image`. Unavailable if there is none, or no
// /dev/loop-control.
Result<LoopDevice> AttachLoop(const UniqueFd& image, const std::string& label,
                              LoopUse use);

// The device that bears that label.
Result<std::optional<LoopDevice>> FindLoop(const std::string& label);

// The label of the device with that number (of st_dev or st_rdev); nothing if
// it is no loop device, or not bound.
std::optional<std::string> LoopLabelOf(dev_t device);

// Makes the device as large as its image has become.
Result<void> UpdateLoopSize(const LoopDevice& loop);

// At once if nobody has it open, otherwise when the last one closes it.
Result<void> DetachLoop(const LoopDevice& loop);

}  // namespace mountd::csi_local
