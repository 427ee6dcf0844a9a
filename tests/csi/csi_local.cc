// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/csi/csi_local.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "mountd/base/unique_fd.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace pb = ::csi::v1;
namespace fs = std::filesystem;

}  // namespace

std::vector<int> CsiLocalPlugin::Loops() const {
  // The kernel reports an image by its path in the reader's mount namespace.
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/sys/block")) {
    std::smatch match;
    const std::string name = entry.path().filename();
    std::ifstream file(entry.path() / "loop/backing_file");
    std::string backing;
    if (std::regex_match(name, match, std::regex("loop([0-9]+)")) &&
        std::getline(file, backing) && backing.rfind(Data(), 0) == 0) {
      found.push_back(std::stoi(match[1]));
    }
  }
  return found;
}

void CsiLocalPlugin::SetUp() {
  Sandbox::SetUp();
  if (IsSkipped()) {
    return;
  }
  fs::create_directory(root() + "/staging");
  fs::create_directory(root() + "/publish");
  Start();
}

void CsiLocalPlugin::TearDown() {
  Kill();
  for (const int number : Loops()) {
    ADD_FAILURE() << "the test left /dev/loop" << number;
    const UniqueFd device(::open(("/dev/loop" + std::to_string(number)).c_str(),
                                 O_RDONLY | O_CLOEXEC));
    ::ioctl(device.get(), LOOP_CLR_FD);
  }
  Sandbox::TearDown();
}

void CsiLocalPlugin::Kill() {
  node_.reset();
  controller_.reset();
  identity_.reset();
  plugin_ = Process();
}

void CsiLocalPlugin::Start(const std::vector<std::string>& options) {
  Kill();
  const std::string socket = root() + "/csi.sock";
  std::vector<std::string> argv{CSI_LOCAL, "--endpoint", socket,  "--data-dir",
                                Data(),    "--node-id",  "node-1"};
  argv.insert(argv.end(), options.begin(), options.end());
  plugin_ = Process(argv);
  ASSERT_TRUE(ConnectWithin(socket, 20).valid());
  // Each connection has a channel of its own, without the back-off of an
  // earlier channel.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(
      "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  identity_ = pb::Identity::NewStub(channel);
  controller_ = pb::Controller::NewStub(channel);
  node_ = pb::Node::NewStub(channel);
  // A tool that a killed plugin was just starting can hold the plugin's
  // listening socket a moment longer.
  EXPECT_TRUE(Eventually([this] {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    pb::ProbeResponse response;
    return identity_->Probe(&context, {}, &response).ok();
  }));
}

pb::VolumeCapability CsiLocalPlugin::MountCapability(const std::string& fs_type,
                                                     Mode::Mode mode) {
  pb::VolumeCapability capability;
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

pb::VolumeCapability CsiLocalPlugin::BlockCapability(Mode::Mode mode) {
  pb::VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

pb::CreateVolumeRequest CsiLocalPlugin::CreateRequest(
    const std::string& name, const std::string& kind, std::int64_t bytes,
    const pb::VolumeCapability& capability) {
  pb::CreateVolumeRequest request;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(bytes);
  *request.add_volume_capabilities() = capability;
  (*request.mutable_parameters())["kind"] = kind;
  return request;
}

// Makes one call of a stub. Returns any answer.
#define MOUNTD_CALL(stub, name, request)                   \
  [&] {                                                    \
    Answer<pb::name##Response> answer;                     \
    grpc::ClientContext context;                           \
    const grpc::Status status =                            \
        (stub)->name(&context, request, &answer.response); \
    answer.code = status.error_code();                     \
    answer.message = status.error_message();               \
    return answer;                                         \
  }()

auto CsiLocalPlugin::Create(const pb::CreateVolumeRequest& request)
    -> Answer<pb::CreateVolumeResponse> {
  return MOUNTD_CALL(controller_, CreateVolume, request);
}

std::string CsiLocalPlugin::MustCreate(const pb::CreateVolumeRequest& request) {
  const auto answer = Create(request);
  EXPECT_EQ(grpc::StatusCode::OK, answer.code) << answer.message;
  return answer.response.volume().volume_id();
}

grpc::StatusCode CsiLocalPlugin::Delete(const std::string& volume) {
  pb::DeleteVolumeRequest request;
  request.set_volume_id(volume);
  return MOUNTD_CALL(controller_, DeleteVolume, request).code;
}

auto CsiLocalPlugin::Snapshot(const std::string& name,
                              const std::string& volume)
    -> Answer<pb::CreateSnapshotResponse> {
  pb::CreateSnapshotRequest request;
  request.set_name(name);
  request.set_source_volume_id(volume);
  return MOUNTD_CALL(controller_, CreateSnapshot, request);
}

grpc::StatusCode CsiLocalPlugin::DeleteSnapshot(const std::string& id) {
  pb::DeleteSnapshotRequest request;
  request.set_snapshot_id(id);
  return MOUNTD_CALL(controller_, DeleteSnapshot, request).code;
}

auto CsiLocalPlugin::Expand(const std::string& volume, std::int64_t required,
                            std::int64_t limit)
    -> Answer<pb::ControllerExpandVolumeResponse> {
  pb::ControllerExpandVolumeRequest request;
  request.set_volume_id(volume);
  request.mutable_capacity_range()->set_required_bytes(required);
  request.mutable_capacity_range()->set_limit_bytes(limit);
  return MOUNTD_CALL(controller_, ControllerExpandVolume, request);
}

auto CsiLocalPlugin::List(int max_entries, const std::string& token)
    -> Answer<pb::ListVolumesResponse> {
  pb::ListVolumesRequest request;
  request.set_max_entries(max_entries);
  request.set_starting_token(token);
  return MOUNTD_CALL(controller_, ListVolumes, request);
}

auto CsiLocalPlugin::Health(const std::string& volume)
    -> Answer<pb::ControllerGetVolumeHealthResponse> {
  pb::ControllerGetVolumeHealthRequest request;
  request.set_volume_id(volume);
  return MOUNTD_CALL(controller_, ControllerGetVolumeHealth, request);
}

grpc::StatusCode CsiLocalPlugin::Stage(const std::string& volume,
                                       const pb::VolumeCapability& capability) {
  fs::create_directory(Staging(volume));
  pb::NodeStageVolumeRequest request;
  request.set_volume_id(volume);
  request.set_staging_target_path(Staging(volume));
  *request.mutable_volume_capability() = capability;
  return MOUNTD_CALL(node_, NodeStageVolume, request).code;
}

auto CsiLocalPlugin::TryUnstage(const std::string& volume)
    -> Answer<pb::NodeUnstageVolumeResponse> {
  pb::NodeUnstageVolumeRequest request;
  request.set_volume_id(volume);
  request.set_staging_target_path(Staging(volume));
  return MOUNTD_CALL(node_, NodeUnstageVolume, request);
}

grpc::StatusCode CsiLocalPlugin::Publish(
    const std::string& volume, const std::string& target,
    const pb::VolumeCapability& capability) {
  pb::NodePublishVolumeRequest request;
  request.set_volume_id(volume);
  request.set_staging_target_path(Staging(volume));
  request.set_target_path(Target(target));
  *request.mutable_volume_capability() = capability;
  return MOUNTD_CALL(node_, NodePublishVolume, request).code;
}

grpc::StatusCode CsiLocalPlugin::Unpublish(const std::string& volume,
                                           const std::string& target) {
  pb::NodeUnpublishVolumeRequest request;
  request.set_volume_id(volume);
  request.set_target_path(Target(target));
  return MOUNTD_CALL(node_, NodeUnpublishVolume, request).code;
}

auto CsiLocalPlugin::NodeExpand(const std::string& volume,
                                const std::string& path)
    -> Answer<pb::NodeExpandVolumeResponse> {
  pb::NodeExpandVolumeRequest request;
  request.set_volume_id(volume);
  request.set_volume_path(path);
  return MOUNTD_CALL(node_, NodeExpandVolume, request);
}

auto CsiLocalPlugin::Stats(const std::string& volume, const std::string& path)
    -> Answer<pb::NodeGetVolumeStatsResponse> {
  pb::NodeGetVolumeStatsRequest request;
  request.set_volume_id(volume);
  request.set_volume_path(path);
  return MOUNTD_CALL(node_, NodeGetVolumeStats, request);
}

}  // namespace mountd::testing
