// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A plugin that does what no good plugin does.
//   csi-fake-plugin SOCKET
// NodeStageVolume, by volume id: "tell" answers INTERNAL with every secret and
// mount flag of the request in its text, "hang" never answers; others are OK.
// NodeGetVolumeStats of "worn" is right, its text long and with a line's end;
// NodeExpandVolume of "grow" answers what was required.
// All other answers are beyond their bounds, Probe's `ready` is absent.
#include <csi.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>
#include <thread>

namespace {

namespace pb = ::csi::v1;
using grpc::Status;

class Identity final : public pb::Identity::Service {
 public:
  Status GetPluginInfo(grpc::ServerContext* /*context*/,
                       const pb::GetPluginInfoRequest* /*request*/,
                       pb::GetPluginInfoResponse* response) override {
    response->set_name(std::string(200, 'x'));
    return Status::OK;
  }
  Status GetPluginCapabilities(
      grpc::ServerContext* /*context*/,
      const pb::GetPluginCapabilitiesRequest* /*request*/,
      pb::GetPluginCapabilitiesResponse* response) override {
    for (int i = 0; i < 100; ++i) {
      response->add_capabilities()->mutable_service();
    }
    return Status::OK;
  }
  Status Probe(grpc::ServerContext* /*context*/,
               const pb::ProbeRequest* /*request*/,
               pb::ProbeResponse* /*response*/) override {
    return Status::OK;
  }
};

class Node final : public pb::Node::Service {
 public:
  Status NodeStageVolume(grpc::ServerContext* context,
                         const pb::NodeStageVolumeRequest* request,
                         pb::NodeStageVolumeResponse* /*response*/) override {
    if (request->volume_id() == "tell") {
      std::string text = "login failed:";
      for (const auto& [key, value] : request->secrets()) {
        text += " " + key + "=" + value;
      }
      for (const std::string& flag :
           request->volume_capability().mount().mount_flags()) {
        text += " -o " + flag;
      }
      return {grpc::StatusCode::INTERNAL, text};
    }
    while (request->volume_id() == "hang" && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return Status::OK;
  }
  Status NodeGetVolumeStats(grpc::ServerContext* /*context*/,
                            const pb::NodeGetVolumeStatsRequest* request,
                            pb::NodeGetVolumeStatsResponse* response) override {
    const int usages = request->volume_id() == "worn" ? 1 : 100;
    for (int i = 0; i < usages; ++i) {
      pb::VolumeUsage* usage = response->add_usage();
      usage->set_available(1);
      usage->set_total(3);
      usage->set_used(2);
      usage->set_unit(pb::VolumeUsage::INODES);
    }
    response->add_usage();  // of no unit
    response->mutable_volume_condition()->set_abnormal(true);
    response->mutable_volume_condition()->set_message("worn\n" +
                                                      std::string(5000, 'x'));
    return Status::OK;
  }
  Status NodeExpandVolume(grpc::ServerContext* /*context*/,
                          const pb::NodeExpandVolumeRequest* request,
                          pb::NodeExpandVolumeResponse* response) override {
    const auto& secrets = request->secrets();
    const bool right = request->volume_id() == "grow" &&
                       request->volume_path() == "/p" &&
                       request->staging_target_path() == "/s" &&
                       secrets.find("password") != secrets.end();
    response->set_capacity_bytes(
        right ? request->capacity_range().required_bytes() : -1);
    return Status::OK;
  }
  Status NodeGetInfo(grpc::ServerContext* /*context*/,
                     const pb::NodeGetInfoRequest* /*request*/,
                     pb::NodeGetInfoResponse* response) override {
    response->set_node_id("node");
    auto* segments =
        response->mutable_accessible_topology()->mutable_segments();
    for (int i = 0; i < 100; ++i) {
      (*segments)["key" + std::to_string(i)] = std::string(100, 'v');
    }
    return Status::OK;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  Identity identity;
  Node node;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix:") + argv[1],
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&identity);
  builder.RegisterService(&node);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    return 1;
  }
  server->Wait();
}
