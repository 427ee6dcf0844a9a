// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>

#include "mountd/base/names.h"
#include "mountd/plan/values.h"

// The plans about CSI plugins: their directories, their sockets and the
// directories of their volumes.
namespace mountd::exec {

struct PluginPlan {
  WireName plugin;
};

// The socket of one instance of the plugin.
struct PluginSocketPlan {
  WireName plugin;
  std::array<char, InstanceKey::kHexDigits> instance{};
  // The listener must be in this cgroup (kConnectPlugin); 0: anywhere.
  std::uint64_t cgroup = 0;
};

enum class VolumeArea : std::uint32_t {
  // p/<plugin>/staging/<volume>: the executor makes it before NodeStageVolume.
  kStaging = 1,
  // p/<plugin>/publish/<allocation>/<volume>: the executor makes the parent,
  // and the plugin the last part (CSI NodePublishVolume).
  kPublish = 2,
};

struct VolumeDirPlan {
  WireName plugin;
  VolumeArea area = VolumeArea::kStaging;
  WireName allocation;  // kPublish only
  std::array<char, VolumeKey::kHexDigits> volume{};
  // kRemoveVolumeDir of kPublish: first detaches the mount at the directory.
  // With or without this flag, the plan for the allocation's last volume also
  // detaches mounts that the plugin made beside the volumes.
  std::uint32_t detach = 0;
};

struct PluginReply {
  std::uint64_t socket_inode = 0;
  std::uint32_t peer_pid = 0;
  std::uint32_t peer_uid = 0;
};

}  // namespace mountd::exec
