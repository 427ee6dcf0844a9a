// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/usage.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

pb::VolumeUsage Make(pb::VolumeUsage::Unit unit, std::uint64_t total,
                     std::uint64_t free, std::uint64_t available) {
  pb::VolumeUsage usage;
  usage.set_unit(unit);
  usage.set_total(static_cast<std::int64_t>(total));
  usage.set_used(static_cast<std::int64_t>(total - free));
  usage.set_available(static_cast<std::int64_t>(available));
  return usage;
}

}  // namespace

Result<std::vector<pb::VolumeUsage>> UsageOf(const VolumeRecord& record,
                                             const UniqueFd& node) {
  struct stat status {};
  if (::fstat(node.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", record.id());
  }
  if (S_ISBLK(status.st_mode)) {
    // Leaves out the used bytes, because only the device's user knows them.
    pb::VolumeUsage usage;
    usage.set_unit(pb::VolumeUsage::BYTES);
    usage.set_total(record.content().capacity_bytes());
    return std::vector<pb::VolumeUsage>{usage};
  }
  struct statvfs space {};
  if (::fstatvfs(node.get(), &space) != 0) {
    return ErrnoError(errno, "fstatvfs", record.id());
  }
  const std::uint64_t unit = space.f_frsize;
  return std::vector<pb::VolumeUsage>{
      Make(pb::VolumeUsage::BYTES, space.f_blocks * unit, space.f_bfree * unit,
           space.f_bavail * unit),
      Make(pb::VolumeUsage::INODES, space.f_files, space.f_ffree,
           space.f_favail)};
}

}  // namespace mountd::csi_local
