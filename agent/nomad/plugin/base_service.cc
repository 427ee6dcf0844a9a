// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/base_service.h"

#include "agent/nomad/plugin/call_status.h"
#include "agent/nomad/plugin/settings.h"

namespace mountd::nomad {
namespace {

namespace base = hashicorp::nomad::plugins::base::proto;

// The only version that there is.
constexpr char kApiVersion[] = "v0.1.0";

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context,
                                 const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

Result<void> Configure(DriverSource& source, const std::string& msgpack) {
  MOUNTD_ASSIGN(const Settings settings, ReadSettings(msgpack));
  return source.Configure(settings);
}

}  // namespace

grpc::ServerUnaryReactor* BaseService::PluginInfo(
    Context* context, const base::PluginInfoRequest* /*request*/,
    base::PluginInfoResponse* response) {
  response->set_type(base::DRIVER);
  response->add_plugin_api_versions(kApiVersion);
  response->set_plugin_version("v" MOUNTD_VERSION);
  response->set_name(kPluginName);
  return Finish(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* BaseService::ConfigSchema(
    Context* context, const base::ConfigSchemaRequest* /*request*/,
    base::ConfigSchemaResponse* response) {
  *response->mutable_spec() = SpecOf(SettingKeys());
  return Finish(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* BaseService::SetConfig(
    Context* context, const base::SetConfigRequest* request,
    base::SetConfigResponse* /*response*/) {
  return Finish(context,
                StatusOf(Configure(source_, request->msgpack_config())));
}

}  // namespace mountd::nomad
