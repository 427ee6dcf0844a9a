// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>

#include <memory>
#include <string>

#include "mountd/base/result.h"

namespace mountd::bench {

// Calls a plugin's services directly: the RPCs that mountd makes for a volume's
// first user and its last, in the same order.
class DirectPlugin {
 public:
  enum class Stages { kYes, kNo };

  // `directory` is for the staged and published volumes. A plugin that does not
  // stage, such as mountd-csi-proxy, gets no call of NodeStageVolume and
  // NodeUnstageVolume.
  DirectPlugin(const std::string& socket, std::string directory,
               Stages stages = Stages::kYes);

  // Waits until the plugin listens. Returns the volume's id.
  Result<std::string> CreateVolume(const std::string& name);
  // Calls NodeGetInfo.
  Result<void> EmptyCall();
  Result<void> Publish(const std::string& volume);
  Result<void> Unpublish(const std::string& volume);

 private:
  Result<void> Stage(const std::string& volume);
  Result<void> Unstage(const std::string& volume);
  std::string Staging() const { return directory_ + "/staging"; }
  std::string Target() const { return directory_ + "/target"; }

  const std::string directory_;
  const Stages stages_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<::csi::v1::Controller::Stub> controller_;
  const std::unique_ptr<::csi::v1::Node::Stub> node_;
  ::csi::v1::VolumeCapability capability_;
};

}  // namespace mountd::bench
