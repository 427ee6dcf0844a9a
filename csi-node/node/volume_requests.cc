// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/volume_requests.h"

#include "csi-node/node/volume_paths.h"

namespace mountd::csi {

StageRequest StageRequestOf(const VolumeRecord& volume,
                            const VolumeCapability& capability,
                            const PluginRecord& plugin) {
  return {volume.volume_id, volume.publish_context,
          PluginViewPath(plugin, StagingPart(volume.key)), capability,
          volume.volume_context};
}

PublishRequest PublishRequestOf(const VolumeRecord& volume,
                                const PublicationRecord& publication,
                                const VolumeCapability& capability,
                                const Plugins::Session& session) {
  const VolumePaths paths = PathsOf(volume, publication, session);
  return {volume.volume_id,     volume.publish_context,
          paths.staging,        paths.target,
          capability,           publication.read_only,
          volume.volume_context};
}

VolumePaths PathsOf(const VolumeRecord& volume,
                    const PublicationRecord& publication,
                    const Plugins::Session& session) {
  const PluginRecord& plugin = session.status.record;
  return {
      session.status.stages() ? PluginViewPath(plugin, StagingPart(volume.key))
                              : std::string(),
      PluginViewPath(plugin, PublishPart(volume.key, publication.allocation))};
}

VolumeCapability CapabilityOf(const VolumeRecord& volume) {
  VolumeCapability capability;
  capability.block = volume.block;
  capability.access_mode = static_cast<AccessMode>(volume.access_mode);
  capability.fs_type = volume.fs_type;
  capability.volume_mount_group = volume.volume_mount_group;
  return capability;
}

PublishedVolume ResultOf(const PublicationRecord& record,
                         const std::string& plugin) {
  return {
      PluginHostPath(plugin) + "/" + PublishPart(record.key, record.allocation),
      record.read_only, record};
}

std::string FaultOfPublished(const exec::MountState& state, bool block,
                             bool bare_allowed) {
  if (state.exists == 0) {
    return "made nothing at the target";
  }
  if (block) {
    return state.block_device != 0 ? ""
                                   : "the file that it made is not a device";
  }
  if (state.is_directory == 0) {
    return "the file that it made is not a directory";
  }
  if (state.mount_id == 0 && !bare_allowed) {
    return "it mounted nothing; register a plugin that publishes plain "
           "directories with bare_directories";
  }
  return "";
}

}  // namespace mountd::csi
