// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/controller_rpcs.h"

#include <algorithm>
#include <array>

namespace mountd::csi {
namespace {

// Numbers of ControllerServiceCapability.RPC.Type.
enum Capability : int {
  kNone = 0,
  kCreateDeleteVolume = 1,
  kPublishUnpublishVolume = 2,
  kListVolumes = 3,
  kGetCapacity = 4,
  kCreateDeleteSnapshot = 5,
  kListSnapshots = 6,
  kExpandVolume = 9,
  kGetVolume = 12,
  kModifyVolume = 14,
  kGetSnapshot = 15,
  kGetVolumeHealth = 16,
  kListVolumeHealth = 17,
};

constexpr bool kChanges = true;
constexpr bool kReads = false;
constexpr bool kTyped = false;
constexpr bool kHandedOn = true;
constexpr bool kGroup = true;

constexpr ControllerRpcTraits kRpcs[] = {
    {"CreateVolume", kCreateDeleteVolume, kChanges, kTyped},
    {"DeleteVolume", kCreateDeleteVolume, kChanges, kTyped},
    {"ControllerPublishVolume", kPublishUnpublishVolume, kChanges, kTyped},
    {"ControllerUnpublishVolume", kPublishUnpublishVolume, kChanges, kTyped},
    {"ValidateVolumeCapabilities", kNone, kReads, kTyped},
    {"ListVolumes", kListVolumes, kReads, kTyped},
    {"GetCapacity", kGetCapacity, kReads, kTyped},
    {"ControllerExpandVolume", kExpandVolume, kChanges, kTyped},
    {"ControllerGetVolume", kGetVolume, kReads, kHandedOn},
    {"ControllerModifyVolume", kModifyVolume, kChanges, kHandedOn},
    {"ControllerGetVolumeHealth", kGetVolumeHealth, kReads, kHandedOn},
    {"ControllerListVolumeHealth", kListVolumeHealth, kReads, kHandedOn},
    {"CreateSnapshot", kCreateDeleteSnapshot, kChanges, kHandedOn},
    {"DeleteSnapshot", kCreateDeleteSnapshot, kChanges, kHandedOn},
    {"ListSnapshots", kListSnapshots, kReads, kHandedOn},
    {"GetSnapshot", kGetSnapshot, kReads, kHandedOn},
    // No capability here, because the first of these asks the plugin which ones
    // it has.
    {"GroupControllerGetCapabilities", kNone, kReads, kHandedOn, kGroup},
    {"CreateVolumeGroupSnapshot", kNone, kChanges, kHandedOn, kGroup},
    {"DeleteVolumeGroupSnapshot", kNone, kChanges, kHandedOn, kGroup},
    {"GetVolumeGroupSnapshot", kNone, kReads, kHandedOn, kGroup},
};

}  // namespace

const ControllerRpcTraits* FindControllerRpc(std::string_view name) {
  const auto* const end = std::end(kRpcs);
  const auto* const found = std::find_if(
      std::begin(kRpcs), end,
      [&](const ControllerRpcTraits& rpc) { return rpc.name == name; });
  return found == end ? nullptr : found;
}

}  // namespace mountd::csi
