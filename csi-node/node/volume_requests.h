// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "csi-node/node/rpc_retry.h"
#include "csi-node/node/volumes.h"

// Shared by the .cc files of Volumes.
namespace mountd::csi {

struct Volumes::Call {
  const PublishSpec& spec;
  const UniqueFd& secrets;
  const CancelToken& cancelled;
  const Progress& progress;
  VolumeRecord volume;
  PublicationRecord publication;
  bool stages = false;  // the plugin stages volumes
  bool known = false;   // an earlier try may have published the volume
  bool there = false;   // the store has the volume
};

// Make the requests, with paths as the plugin sees them.
StageRequest StageRequestOf(const VolumeRecord& volume,
                            const VolumeCapability& capability,
                            const PluginRecord& plugin);
PublishRequest PublishRequestOf(const VolumeRecord& volume,
                                const PublicationRecord& publication,
                                const VolumeCapability& capability,
                                const Plugins::Session& session);

template <typename T, typename F>
RpcResult<T> Volumes::CallNode(const NodeCall& node, F call) {
  return RetryUntilFinal(
      config_.timeouts.rpc_retries, node.cancelled,
      [&]() -> RpcResult<T> {
        node.progress.At(Step::kPlugin);
        const RpcSlots::Slot slot(slots_, node.plugin);
        const Result<Plugins::Session> session = plugins_.Use(node.plugin);
        if (!session) {
          return RpcError{RpcCode::kUnavailable, session.error().Message()};
        }
        node.progress.At(node.step);
        RpcResult<T> outcome =
            call(*session, Clock::now() + config_.timeouts.rpc);
        if (!outcome && outcome.error().code == RpcCode::kResourceExhausted) {
          plugins_.DoubtNodeInfo(node.plugin);
        }
        return outcome;
      },
      node.progress);
}

// A volume's staging path and a user's target, as the plugin sees them.
// `staging` is empty if the plugin does not stage.
struct VolumePaths {
  std::string staging;
  std::string target;
};
VolumePaths PathsOf(const VolumeRecord& volume,
                    const PublicationRecord& publication,
                    const Plugins::Session& session);

// Returns the capability without the mount flags, which no record holds.
VolumeCapability CapabilityOf(const VolumeRecord& volume);

PublishedVolume ResultOf(const PublicationRecord& record,
                         const std::string& plugin);

// Returns the fault of a published directory; "" if it has none.
std::string FaultOfPublished(const exec::MountState& state, bool block,
                             bool bare_allowed);

}  // namespace mountd::csi
