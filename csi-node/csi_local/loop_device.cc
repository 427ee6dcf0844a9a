// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi_local/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "csi-node/csi_local/files.h"
#include "mountd/base/number.h"

namespace mountd::csi_local {
namespace {

constexpr unsigned kLoopMajor = 7;
constexpr std::string_view kPrefix = "loop";
// Others take free devices as well, between our two calls.
constexpr int kTries = 32;

Result<LoopDevice> Open(int number, int mode) {
  LoopDevice loop;
  loop.number = number;
  loop.fd.reset(::open(loop.Path().c_str(), mode | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!loop.fd.valid() || ::fstat(loop.fd.get(), &status) != 0) {
    Error error = ErrnoError(errno, "open", loop.Path());
    error.code = Code::kUnavailable;
    return error;
  }
  if (!S_ISBLK(status.st_mode) ||
      status.st_rdev != makedev(kLoopMajor, static_cast<unsigned>(number))) {
    return MakeError(Code::kUnavailable, "open", loop.Path(),
                     "not that loop device");
  }
  return loop;
}

// False if it is not bound.
bool ReadStatus(LoopDevice* loop) {
  loop_info64 info{};
  if (::ioctl(loop->fd.get(), LOOP_GET_STATUS64, &info) != 0) {
    return false;
  }
  const auto* name =
      static_cast<const char*>(static_cast<void*>(info.lo_file_name));
  loop->label.assign(name, ::strnlen(name, sizeof(info.lo_file_name)));
  loop->read_only = (info.lo_flags & LO_FLAGS_READ_ONLY) != 0;
  loop->autoclear = (info.lo_flags & LO_FLAGS_AUTOCLEAR) != 0;
  return true;
}

loop_config ConfigOf(const UniqueFd& image, const std::string& label,
                     LoopUse use) {
  loop_config config{};
  config.fd = static_cast<__u32>(image.get());
  std::memcpy(config.info.lo_file_name, label.data(),
              std::min(label.size(), kMaxLoopLabel));
  if (use == LoopUse::kFilesystem) {
    config.info.lo_flags |= LO_FLAGS_AUTOCLEAR;
  }
  if (use == LoopUse::kDeviceReadOnly) {
    config.info.lo_flags |= LO_FLAGS_READ_ONLY;
  }
  return config;
}

}  // namespace

Result<LoopDevice> AttachLoop(const UniqueFd& image, const std::string& label,
                              LoopUse use) {
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control.valid()) {
    Error error = ErrnoError(errno, "open", "/dev/loop-control");
    error.code = Code::kUnavailable;
    return error;
  }
  const loop_config config = ConfigOf(image, label, use);
  for (int i = 0; i < kTries; ++i) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) {
      return ErrnoError(errno, "LOOP_CTL_GET_FREE", label);
    }
    MOUNTD_ASSIGN(LoopDevice loop, Open(number, O_RDWR));
    if (::ioctl(loop.fd.get(), LOOP_CONFIGURE, &config) == 0) {
      ReadStatus(&loop);
      return loop;
    }
    if (errno != EBUSY) {
      return ErrnoError(errno, "LOOP_CONFIGURE", label);
    }
  }
  return MakeError(Code::kUnavailable, "LOOP_CONFIGURE", label,
                   "others take every free loop device");
}

Result<std::optional<LoopDevice>> FindLoop(const std::string& label) {
  const UniqueFd devices(::open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC));
  MOUNTD_ASSIGN(const auto names, ListNames(devices.get()));
  for (const std::string& name : names) {
    const auto number =
        name.compare(0, kPrefix.size(), kPrefix) == 0
            ? ParseNumber<int>(std::string_view(name).substr(kPrefix.size()))
            : std::nullopt;
    if (!number) {
      continue;
    }
    Result<LoopDevice> loop = Open(*number, O_RDONLY);
    if (loop && ReadStatus(&*loop) && loop->label == label) {
      return std::optional(std::move(*loop));
    }
  }
  return std::optional<LoopDevice>();
}

std::optional<std::string> LoopLabelOf(dev_t device) {
  if (major(device) != kLoopMajor) {
    return std::nullopt;
  }
  Result<LoopDevice> loop = Open(static_cast<int>(minor(device)), O_RDONLY);
  if (!loop || !ReadStatus(&*loop)) {
    return std::nullopt;
  }
  return loop->label;
}

Result<void> UpdateLoopSize(const LoopDevice& loop) {
  if (::ioctl(loop.fd.get(), LOOP_SET_CAPACITY) != 0) {
    return ErrnoError(errno, "LOOP_SET_CAPACITY", loop.label);
  }
  return Ok();
}

Result<void> DetachLoop(const LoopDevice& loop) {
  if (::ioctl(loop.fd.get(), LOOP_CLR_FD) != 0 && errno != ENXIO) {
    return ErrnoError(errno, "LOOP_CLR_FD", loop.label);
  }
  return Ok();
}

}  // namespace mountd::csi_local
