// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/mount_events.h"

#include <sys/fanotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mountd {
namespace {

// From linux/fanotify.h of 6.15, which Debian 12 and 13 do not have.
constexpr std::uint64_t kAttach = 0x01000000;  // FAN_MNT_ATTACH
constexpr std::uint64_t kDetach = 0x02000000;  // FAN_MNT_DETACH
constexpr std::uint8_t kInfoMount = 7;         // FAN_EVENT_INFO_TYPE_MNT

struct MountInfo {  // struct fanotify_event_info_mnt
  fanotify_event_info_header header;
  std::uint32_t padding;
  std::uint64_t mount_id;
};
static_assert(sizeof(MountInfo) == 16);

Error Malformed() {
  return MakeError(Code::kInternal, "read", "mount events",
                   "the kernel's answer has an unknown format");
}

// Takes one event at `at` and returns its length.
Result<std::size_t> Take(const char* at, std::size_t size, MountEvents* into) {
  fanotify_event_metadata event{};
  if (size < sizeof(event)) {
    return Malformed();
  }
  std::memcpy(&event, at, sizeof(event));
  if (event.vers != FANOTIFY_METADATA_VERSION ||
      event.metadata_len < sizeof(event) ||
      event.event_len < event.metadata_len || event.event_len > size) {
    return Malformed();
  }
  // An overflow event names no mount.
  if ((event.mask & FAN_Q_OVERFLOW) != 0) {
    into->overflowed = true;
    return event.event_len;
  }
  MountInfo info{};
  if (event.event_len - event.metadata_len < sizeof(info)) {
    return Malformed();
  }
  std::memcpy(&info, at + event.metadata_len, sizeof(info));
  if (info.header.info_type != kInfoMount) {
    return Malformed();
  }
  into->events.push_back({info.mount_id, (event.mask & kAttach) != 0,
                          (event.mask & kDetach) != 0});
  return event.event_len;
}

}  // namespace

Result<MountEvents> ReadMountEvents(int group) {
  MountEvents all;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t size = read(group, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) {
      continue;
    }
    // EAGAIN: the group is non-blocking and has no more events.
    if (size < 0 && errno == EAGAIN) {
      return all;
    }
    if (size <= 0) {
      return ErrnoError(size < 0 ? errno : EPIPE, "read", "mount events");
    }
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      MOUNTD_ASSIGN(
          const std::size_t length,
          Take(&buffer.at(at), static_cast<std::size_t>(size) - at, &all));
      at += length;
    }
  }
}

}  // namespace mountd
