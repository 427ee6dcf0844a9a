// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/capability.h"

#include <sys/mount.h>

#include <limits>
#include <optional>
#include <string>

#include "csi-node/csi-local/status.h"
#include "mountd/base/number.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;
using Mode = pb::VolumeCapability::AccessMode;

std::optional<std::uint64_t> AttributeOf(const std::string& flag) {
  if (flag == "ro") {
    return MOUNT_ATTR_RDONLY;
  }
  if (flag == "noexec") {
    return MOUNT_ATTR_NOEXEC;
  }
  if (flag == "noatime") {
    return MOUNT_ATTR_NOATIME;
  }
  // These hold for every volume anyway.
  if (flag == "rw" || flag == "nosuid" || flag == "nodev") {
    return 0;
  }
  return std::nullopt;
}

// The error does not quote the flag, because the flag may hold a secret.
grpc::Status CheckMount(const pb::VolumeCapability::MountVolume& mount,
                        MountOptions* options) {
  options->fs_type = mount.fs_type();
  for (const std::string& flag : mount.mount_flags()) {
    const std::optional<std::uint64_t> attribute = AttributeOf(flag);
    if (!attribute) {
      return Invalid(
          "each mount flag must be ro, rw, noexec, noatime, nosuid or nodev");
    }
    options->attributes |= *attribute;
  }
  if (!mount.volume_mount_group().empty()) {
    const auto group = ParseNumber<gid_t>(mount.volume_mount_group());
    if (!group || *group == std::numeric_limits<gid_t>::max()) {
      return Invalid("volume_mount_group must be the number of a group");
    }
    options->group = *group;
  }
  return grpc::Status::OK;
}

grpc::Status CheckMode(Mode::Mode mode, MountOptions* options) {
  options->access_mode = mode;
  switch (mode) {
    case Mode::SINGLE_NODE_READER_ONLY:
      options->attributes |= MOUNT_ATTR_RDONLY;
      return grpc::Status::OK;
    case Mode::SINGLE_NODE_WRITER:
    case Mode::SINGLE_NODE_SINGLE_WRITER:
    case Mode::SINGLE_NODE_MULTI_WRITER:
      return grpc::Status::OK;
    case Mode::MULTI_NODE_READER_ONLY:
    case Mode::MULTI_NODE_SINGLE_WRITER:
    case Mode::MULTI_NODE_MULTI_WRITER:
      return {grpc::StatusCode::FAILED_PRECONDITION,
              "volumes exist on this node only; use a SINGLE_NODE access mode"};
    default:
      return Missing("volume_capability.access_mode");
  }
}

}  // namespace

grpc::Status CheckCapability(const pb::VolumeCapability& capability,
                             MountOptions* options) {
  *options = MountOptions();
  options->block = capability.has_block();
  if (!capability.has_block() && !capability.has_mount()) {
    return Missing("volume_capability.access_type");
  }
  if (capability.has_mount()) {
    grpc::Status checked = CheckMount(capability.mount(), options);
    if (!checked.ok()) {
      return checked;
    }
  }
  return CheckMode(capability.access_mode().mode(), options);
}

}  // namespace mountd::csi_local
