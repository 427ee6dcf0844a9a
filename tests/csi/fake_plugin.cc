// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A plugin that does what no good plugin does.
//   csi-fake-plugin SOCKET
// NodeStageVolume goes by the volume id: "tell" answers INTERNAL with every
// secret and mount flag of the request in its text, "trace" with the metadata
// "traceparent", "hang" never answers, others answer OK. NodeGetVolumeStats of
// "worn" is valid, with a long text that contains a line's end.
// NodeExpandVolume of "grow" answers the required size. ControllerPublishVolume
// goes by the volume id, too: "tell" as above; "huge" answers a context of 8
// MiB, "many" of 100,000 entries, "long" of 2 MiB, "wide" of 5 KiB, and "bytes"
// one that is no UTF-8; others answer the request in it.
// ValidateVolumeCapabilities answers the requested flags in its text.
// CreateVolume makes the volume "made". All other answers exceed their bounds,
// and Probe's has no `ready`.
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

template <typename Request>
Status Tell(const Request& request) {
  std::string text = "login failed:";
  for (const auto& [key, value] : request.secrets()) {
    text += " " + key + "=" + value;
  }
  for (const std::string& flag :
       request.volume_capability().mount().mount_flags()) {
    text += " -o " + flag;
  }
  return {grpc::StatusCode::INTERNAL, text};
}

class Controller final : public pb::Controller::Service {
 public:
  Status ControllerPublishVolume(
      grpc::ServerContext* /*context*/,
      const pb::ControllerPublishVolumeRequest* request,
      pb::ControllerPublishVolumeResponse* response) override {
    auto& map = *response->mutable_publish_context();
    const std::string& id = request->volume_id();
    if (id == "tell") {
      return Tell(*request);
    }
    if (id == "huge" || id == "long") {
      map["k"] = std::string(std::size_t{id == "huge" ? 8U : 2U} << 20U, 'v');
    } else if (id == "many") {
      for (int i = 0; i < 100'000; ++i) {
        map[std::to_string(i)] = "v";
      }
    } else if (id == "wide") {
      map["k"] = std::string(5000, 'v');
    } else if (id == "bytes") {
      map["k"] = "\xff";
    } else {
      map["node"] = request->node_id();
      map["mode"] =
          std::to_string(request->volume_capability().access_mode().mode());
      map["secrets"] = std::to_string(request->secrets_size());
      map["readonly"] = request->readonly() ? "yes" : "no";
      map["context"] = std::to_string(request->volume_context_size());
    }
    return Status::OK;
  }
  Status ValidateVolumeCapabilities(
      grpc::ServerContext* /*context*/,
      const pb::ValidateVolumeCapabilitiesRequest* request,
      pb::ValidateVolumeCapabilitiesResponse* response) override {
    std::string text = "not:";
    for (const auto& capability : request->volume_capabilities()) {
      for (const std::string& flag : capability.mount().mount_flags()) {
        text += " " + flag;
      }
    }
    response->set_message(text + std::string(5000, '.'));
    return Status::OK;
  }
  Status CreateVolume(grpc::ServerContext* /*context*/,
                      const pb::CreateVolumeRequest* request,
                      pb::CreateVolumeResponse* response) override {
    response->mutable_volume()->set_volume_id("made");
    response->mutable_volume()->set_capacity_bytes(
        request->capacity_range().required_bytes());
    auto* segments = response->mutable_volume()->add_accessible_topology();
    (*segments->mutable_segments())["zone"] = "z1";
    return Status::OK;
  }
};

class Node final : public pb::Node::Service {
 public:
  Status NodeStageVolume(grpc::ServerContext* context,
                         const pb::NodeStageVolumeRequest* request,
                         pb::NodeStageVolumeResponse* /*response*/) override {
    if (request->volume_id() == "tell") {
      return Tell(*request);
    }
    if (request->volume_id() == "trace") {
      const auto range = context->client_metadata().equal_range("traceparent");
      std::string text = "traceparent:";
      for (auto entry = range.first; entry != range.second; ++entry) {
        text += " " + std::string(entry->second.data(), entry->second.size());
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
    response->add_usage();  // without a unit
    response->mutable_volume_condition()->set_abnormal(true);
    response->mutable_volume_condition()->set_message("worn\n" +
                                                      std::string(5000, 'x'));
    return Status::OK;
  }
  Status NodeGetVolumeHealth(
      grpc::ServerContext* /*context*/,
      const pb::NodeGetVolumeHealthRequest* request,
      pb::NodeGetVolumeHealthResponse* response) override {
    if (request->volume_publish_path() != "/p" ||
        request->staging_target_path() != "/s") {
      return Status(grpc::StatusCode::INVALID_ARGUMENT, "other paths");
    }
    pb::VolumeHealth* health = response->mutable_volume_health();
    if (request->volume_id() == "worn") {
      auto* entry = health->add_health_statuses();
      entry->set_status(pb::DEGRADED);
      entry->set_reason("Slow");
      entry->set_message("worn\n" + std::string(5000, 'x'));
      health->add_health_statuses()->set_status(pb::DATA_LOSS);
    } else if (request->volume_id() == "lost") {
      health->add_health_statuses()->set_status(pb::DATA_LOSS);
      health->add_health_statuses();
    }
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
  Controller controller;
  Node node;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix:") + argv[1],
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&identity);
  builder.RegisterService(&controller);
  builder.RegisterService(&node);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    return 1;
  }
  server->Wait();
}
