// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/csi/process.h"
#include "tests/csi/sandbox.h"

namespace mountd::testing {

inline constexpr std::int64_t kMiB = 1 << 20;
inline constexpr unsigned kLoopMajor = 7;

// Runs csi-local as an orchestrator uses it: a process, its socket, gRPC.
// Expects at the end that mounts and csi-local's loop devices are as before.
class CsiLocalPlugin : public Sandbox {
 protected:
  using Mode = ::csi::v1::VolumeCapability::AccessMode;
  template <typename Response>
  struct Answer {
    grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
    std::string message;
    Response response;
  };

  void SetUp() override;
  void TearDown() override;

  // Starts the plugin; kills a running one first.
  void Start(const std::vector<std::string>& options = {});
  void Kill();

  static ::csi::v1::VolumeCapability MountCapability(
      const std::string& fs_type = "",
      Mode::Mode mode = Mode::SINGLE_NODE_WRITER);
  static ::csi::v1::VolumeCapability BlockCapability(
      Mode::Mode mode = Mode::SINGLE_NODE_WRITER);
  static ::csi::v1::CreateVolumeRequest CreateRequest(
      const std::string& name, const std::string& kind, std::int64_t bytes,
      const ::csi::v1::VolumeCapability& capability = MountCapability());

  Answer<::csi::v1::CreateVolumeResponse> Create(
      const ::csi::v1::CreateVolumeRequest& request);
  // Creates the volume. Returns its id, and fails the test if there is none.
  std::string MustCreate(const ::csi::v1::CreateVolumeRequest& request);
  grpc::StatusCode Delete(const std::string& volume);
  Answer<::csi::v1::CreateSnapshotResponse> Snapshot(const std::string& name,
                                                     const std::string& volume);
  grpc::StatusCode DeleteSnapshot(const std::string& id);
  Answer<::csi::v1::ControllerExpandVolumeResponse> Expand(
      const std::string& volume, std::int64_t required, std::int64_t limit = 0);
  Answer<::csi::v1::ListVolumesResponse> List(int max_entries = 0,
                                              const std::string& token = "");
  Answer<::csi::v1::ControllerGetVolumeHealthResponse> Health(
      const std::string& volume);

  // Stage at Staging(volume), and publish at Target(target).
  grpc::StatusCode Stage(
      const std::string& volume,
      const ::csi::v1::VolumeCapability& capability = MountCapability());
  Answer<::csi::v1::NodeUnstageVolumeResponse> TryUnstage(
      const std::string& volume);
  grpc::StatusCode Unstage(const std::string& volume) {
    return TryUnstage(volume).code;
  }
  grpc::StatusCode Publish(
      const std::string& volume, const std::string& target,
      const ::csi::v1::VolumeCapability& capability = MountCapability());
  grpc::StatusCode Unpublish(const std::string& volume,
                             const std::string& target);
  Answer<::csi::v1::NodeExpandVolumeResponse> NodeExpand(
      const std::string& volume, const std::string& path);
  Answer<::csi::v1::NodeGetVolumeStatsResponse> Stats(const std::string& volume,
                                                      const std::string& path);

  std::string Staging(const std::string& volume) const {
    return root() + "/staging/" + volume;
  }
  std::string Target(const std::string& target) const {
    return root() + "/publish/" + target;
  }
  std::string Data() const { return root() + "/data"; }
  // Returns the numbers of the loop devices of csi-local's images.
  std::vector<int> Loops() const;

  Process plugin_;
  std::unique_ptr<::csi::v1::Identity::Stub> identity_;
  std::unique_ptr<::csi::v1::Controller::Stub> controller_;
  std::unique_ptr<::csi::v1::Node::Stub> node_;
};

}  // namespace mountd::testing
