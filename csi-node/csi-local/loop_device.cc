// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "csi-node/csi-local/files.h"
#include "csi-node/csi-local/loop_numbers.h"
#include "mountd/base/number.h"

namespace mountd::csi_local {
namespace {

// LOOP_MAJOR of linux/major.h.
constexpr unsigned kLoopMajor = 7;
constexpr std::string_view kPrefix = "loop";
constexpr char kControl[] = "/dev/loop-control";

std::string PathOf(int number) { return "/dev/loop" + std::to_string(number); }

Result<UniqueFd> OpenControl() {
  UniqueFd control(::open(kControl, O_RDWR | O_CLOEXEC));
  if (!control.valid()) {
    Error error = ErrnoError(errno, "open", kControl);
    error.code = Code::kUnavailable;
    return error;
  }
  return control;
}

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
  if (!S_ISBLK(status.st_mode) || status.st_rdev != LoopDeviceId(number)) {
    return MakeError(Code::kUnavailable, "open", loop.Path(),
                     "is not the expected loop device");
  }
  return loop;
}

// Makes the node of the device if it is missing. devtmpfs makes nodes by
// itself, but a container's /dev may be a plain tmpfs.
Result<void> MakeNode(int number) {
  const std::string path = PathOf(number);
  if (::mknod(path.c_str(), S_IFBLK | 0600, LoopDeviceId(number)) != 0 &&
      errno != EEXIST) {
    Error error = ErrnoError(errno, "mknod", path);
    error.code = Code::kUnavailable;
    return error;
  }
  return Ok();
}

void RemoveOwnNode(int number) {
  const std::string path = PathOf(number);
  struct stat status {};
  // Nodes of other programs' devices stay.
  if (number >= kFirstLoopNumber && ::lstat(path.c_str(), &status) == 0 &&
      S_ISBLK(status.st_mode) && status.st_rdev == LoopDeviceId(number)) {
    ::unlink(path.c_str());
  }
}

// False if the device is not bound.
bool ReadStatus(LoopDevice* loop) {
  loop_info64 info{};
  if (::ioctl(loop->fd.get(), LOOP_GET_STATUS64, &info) != 0) {
    return false;
  }
  const auto* name =
      static_cast<const char*>(static_cast<void*>(info.lo_file_name));
  loop->label.assign(name, ::strnlen(name, sizeof(info.lo_file_name)));
  // The kernel's huge_encode_dev() equals makedev() for numbers of 12 and 20
  // bits.
  loop->image_device = info.lo_device;
  loop->image_inode = info.lo_inode;
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
  // AUTOCLEAR unbinds the device at its last close (loop(4)), so the device
  // goes with the file system's mount.
  if (use == LoopUse::kFilesystem) {
    config.info.lo_flags |= LO_FLAGS_AUTOCLEAR;
  }
  if (use == LoopUse::kDeviceReadOnly) {
    config.info.lo_flags |= LO_FLAGS_READ_ONLY;
  }
  return config;
}

}  // namespace

dev_t LoopDeviceId(int number) {
  return makedev(kLoopMajor, static_cast<unsigned>(number));
}

Result<void> AddLoop(int number) {
  MOUNTD_ASSIGN(const UniqueFd control, OpenControl());
  if (::ioctl(control.get(), LOOP_CTL_ADD, number) < 0) {
    Error error = ErrnoError(errno, "LOOP_CTL_ADD", PathOf(number));
    // EEXIST: the number is another device's already.
    if (error.sys_errno == EEXIST) {
      error.code = Code::kAlreadyExists;
    }
    return error;
  }
  Result<void> node = MakeNode(number);
  if (!node) {
    IgnoreBecauseBestEffort(RemoveIdleLoop(number));
  }
  return node;
}

Result<LoopDevice> BindLoop(int number, const UniqueFd& image,
                            const std::string& label, LoopUse use) {
  MOUNTD_ASSIGN(LoopDevice loop, Open(number, O_RDWR));
  const loop_config config = ConfigOf(image, label, use);
  // LOOP_CONFIGURE (Linux 5.8) binds the image and sets the flags in one step,
  // so nobody sees the device without its flags (loop(4)).
  if (::ioctl(loop.fd.get(), LOOP_CONFIGURE, &config) != 0) {
    return ErrnoError(errno, "LOOP_CONFIGURE", label);
  }
  ReadStatus(&loop);
  return loop;
}

Result<std::optional<LoopDevice>> OpenLoop(int number) {
  Result<LoopDevice> loop = Open(number, O_RDONLY);
  if (!loop) {
    // These errnos mean that there is no such device.
    const int why = loop.error().sys_errno;
    return why == ENOENT || why == ENXIO || why == ENODEV
               ? Result<std::optional<LoopDevice>>(std::optional<LoopDevice>())
               : Result<std::optional<LoopDevice>>(loop.error());
  }
  return ReadStatus(&*loop) ? std::optional(std::move(*loop))
                            : std::optional<LoopDevice>();
}

std::optional<UniqueFd> HoldLoop(int number) {
  Result<LoopDevice> loop = Open(number, O_RDONLY);
  return loop ? std::optional(std::move(loop->fd)) : std::nullopt;
}

Result<std::optional<LoopDevice>> FindLabelledLoop(const std::string& label) {
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

Result<void> UpdateLoopSize(const LoopDevice& loop) {
  // A bound device keeps its size until this call, whatever the image's size is
  // (loop(4)).
  if (::ioctl(loop.fd.get(), LOOP_SET_CAPACITY) != 0) {
    return ErrnoError(errno, "LOOP_SET_CAPACITY", loop.label);
  }
  return Ok();
}

Result<bool> RemoveIdleLoop(int number) {
  MOUNTD_ASSIGN(const UniqueFd control, OpenControl());
  // ENODEV: the device is gone already. EBUSY: it is bound, or somebody has it.
  if (::ioctl(control.get(), LOOP_CTL_REMOVE, number) < 0 && errno != ENODEV) {
    return errno == EBUSY ? Result<bool>(false)
                          : Result<bool>(ErrnoError(errno, "LOOP_CTL_REMOVE",
                                                    PathOf(number)));
  }
  RemoveOwnNode(number);
  return true;
}

Result<bool> RemoveLoop(int number) {
  {
    // Unbinds whatever file the device has now, because the number belongs to
    // this volume alone.
    const Result<LoopDevice> loop = Open(number, O_RDONLY);
    if (loop) {
      // While somebody has the device open, the kernel only notes this request.
      ::ioctl(loop->fd.get(), LOOP_CLR_FD);
    }
  }
  return RemoveIdleLoop(number);
}

}  // namespace mountd::csi_local
