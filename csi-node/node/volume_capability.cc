// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/volume_capability.h"

#include <array>
#include <utility>

namespace mountd::csi {
namespace {

constexpr std::array<std::pair<std::string_view, AccessMode>, 7> kAccessModes =
    {{
        {"single-node-writer", AccessMode::kSingleNodeWriter},
        {"single-node-reader-only", AccessMode::kSingleNodeReaderOnly},
        {"multi-node-reader-only", AccessMode::kMultiNodeReaderOnly},
        {"multi-node-single-writer", AccessMode::kMultiNodeSingleWriter},
        {"multi-node-multi-writer", AccessMode::kMultiNodeMultiWriter},
        {"single-node-single-writer", AccessMode::kSingleNodeSingleWriter},
        {"single-node-multi-writer", AccessMode::kSingleNodeMultiWriter},
    }};

}  // namespace

std::string_view AccessModeName(AccessMode mode) {
  for (const auto& [name, value] : kAccessModes) {
    if (value == mode) {
      return name;
    }
  }
  return "unknown";
}

std::optional<AccessMode> ParseAccessMode(std::string_view name) {
  for (const auto& [known, value] : kAccessModes) {
    if (known == name) {
      return value;
    }
  }
  return std::nullopt;
}

bool IsReaderMode(AccessMode mode) {
  return mode == AccessMode::kSingleNodeReaderOnly ||
         mode == AccessMode::kMultiNodeReaderOnly;
}

bool WritersMayShare(AccessMode mode) {
  return mode == AccessMode::kMultiNodeMultiWriter ||
         mode == AccessMode::kSingleNodeMultiWriter ||
         mode == AccessMode::kSingleNodeWriter;
}

std::string ToText(const VolumeCapability& capability) {
  std::string text = capability.block ? "block-device " : "file-system ";
  text += AccessModeName(capability.access_mode);
  if (!capability.fs_type.empty()) {
    text += " " + capability.fs_type;
  }
  return capability.mount_flags.empty() ? text : text + " flags=[REDACTED]";
}

std::string DigestOf(const VolumeCapability& capability) {
  std::string flags;
  for (const std::string& flag : capability.mount_flags) {
    flags += std::to_string(flag.size()) + ":" + flag;
  }
  return VolumeKey::Derive(
             capability.fs_type + "\n" + capability.volume_mount_group, flags)
      .str();
}

Result<void> CheckCapability(const VolumeCapability& capability,
                             const PluginCapabilities& offered, bool read_only,
                             const std::string& object) {
  const auto refused = [&](Code code, const char* why) {
    return MakeError(code, "publish", object, why);
  };
  if (IsReaderMode(capability.access_mode) && !read_only) {
    return refused(Code::kInvalidArgument,
                   "a reader-only access mode needs read_only = true");
  }
  if (capability.block &&
      (!capability.fs_type.empty() || !capability.mount_flags.empty() ||
       !capability.volume_mount_group.empty())) {
    return refused(Code::kInvalidArgument,
                   "a block device takes no fs_type, mount_flags or "
                   "volume_mount_group; leave them out");
  }
  if (!capability.volume_mount_group.empty() &&
      !Offers(offered, NodeRpc::kVolumeMountGroup)) {
    return refused(Code::kNotSupported,
                   "the plugin does not offer VOLUME_MOUNT_GROUP");
  }
  // CSI spec, NodeServiceCapability: a plugin supports these two modes only if
  // it offers SINGLE_NODE_MULTI_WRITER.
  const bool alpha_mode =
      capability.access_mode == AccessMode::kSingleNodeSingleWriter ||
      capability.access_mode == AccessMode::kSingleNodeMultiWriter;
  if (alpha_mode && !Offers(offered, NodeRpc::kSingleNodeMultiWriter)) {
    return refused(Code::kNotSupported,
                   "the plugin does not offer SINGLE_NODE_MULTI_WRITER, which "
                   "this access mode needs");
  }
  return Ok();
}

}  // namespace mountd::csi
