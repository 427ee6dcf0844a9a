// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nomad_base.grpc.pb.h>

#include "agent/nomad/plugin/driver_source.h"

namespace mountd::nomad {

// The name of the driver in a job, and of the plugin in a client's file.
inline constexpr char kPluginName[] = "mountd";

// Tells what the plugin is, and takes its configuration. Makes nothing.
class BaseService final : public hashicorp::nomad::plugins::base::proto::
                              BasePlugin::CallbackService {
 public:
  // The source outlives the service.
  explicit BaseService(DriverSource& source) : source_(source) {}

 private:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* PluginInfo(
      Context* context,
      const hashicorp::nomad::plugins::base::proto::PluginInfoRequest* request,
      hashicorp::nomad::plugins::base::proto::PluginInfoResponse* response)
      override;
  Reactor* ConfigSchema(
      Context* context,
      const hashicorp::nomad::plugins::base::proto::ConfigSchemaRequest*
          request,
      hashicorp::nomad::plugins::base::proto::ConfigSchemaResponse* response)
      override;
  Reactor* SetConfig(
      Context* context,
      const hashicorp::nomad::plugins::base::proto::SetConfigRequest* request,
      hashicorp::nomad::plugins::base::proto::SetConfigResponse* response)
      override;

  DriverSource& source_;
};

}  // namespace mountd::nomad
