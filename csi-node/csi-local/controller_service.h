// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include <string>
#include <utility>

#include "csi-node/csi-local/store.h"
#include "csi-node/csi-local/topology.h"

namespace mountd::csi_local {

// Serves the Controller service: checks requests, and has the Store do the
// work. Ignores secrets. gRPC's threads call it, several at once.
class ControllerService final : public ::csi::v1::Controller::Service {
 public:
  // `store` outlives the service.
  ControllerService(Store* store, std::string node_id)
      : store_(store),
        node_id_(std::move(node_id)),
        here_(TopologyOf(node_id_)) {}

#define MOUNTD_CONTROLLER_CALL(name)                         \
  grpc::Status name(grpc::ServerContext* context,            \
                    const ::csi::v1::name##Request* request, \
                    ::csi::v1::name##Response* response) override

  MOUNTD_CONTROLLER_CALL(CreateVolume);
  MOUNTD_CONTROLLER_CALL(DeleteVolume);
  // Accepts this node only.
  MOUNTD_CONTROLLER_CALL(ControllerPublishVolume);
  MOUNTD_CONTROLLER_CALL(ControllerUnpublishVolume);
  MOUNTD_CONTROLLER_CALL(ValidateVolumeCapabilities);
  MOUNTD_CONTROLLER_CALL(ListVolumes);
  MOUNTD_CONTROLLER_CALL(ControllerGetVolume);
  MOUNTD_CONTROLLER_CALL(GetCapacity);
  MOUNTD_CONTROLLER_CALL(ControllerGetCapabilities);
  MOUNTD_CONTROLLER_CALL(ControllerExpandVolume);
  MOUNTD_CONTROLLER_CALL(ControllerListVolumeHealth);
  MOUNTD_CONTROLLER_CALL(ControllerGetVolumeHealth);
  MOUNTD_CONTROLLER_CALL(CreateSnapshot);
  MOUNTD_CONTROLLER_CALL(DeleteSnapshot);
  MOUNTD_CONTROLLER_CALL(ListSnapshots);
  MOUNTD_CONTROLLER_CALL(GetSnapshot);

#undef MOUNTD_CONTROLLER_CALL

 private:
  void Fill(const VolumeRecord& record, ::csi::v1::Volume* volume) const;
  void Fill(const SnapshotRecord& record, ::csi::v1::Snapshot* snapshot) const;
  template <typename Status>
  void FillStatus(const VolumeRecord& record, Status* status) const;

  Store* store_;
  const std::string node_id_;
  const ::csi::v1::Topology here_;
};

}  // namespace mountd::csi_local
