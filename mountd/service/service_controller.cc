// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/service.h"

// Service's verbs on plugins' controllers. They serve agents that decide about
// volumes, on any node, so they need no allocation.
namespace mountd {

Result<StringMap> Service::ControllerPublish(
    const CallContext& call, const std::string& plugin,
    const csi::ControllerPublishRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.Publish(plugin, request,
                                   {secrets, call.cancelled, call.progress});
}

Result<void> Service::ControllerUnpublish(
    const CallContext& call, const std::string& plugin,
    const csi::ControllerUnpublishRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.Unpublish(plugin, request,
                                     {secrets, call.cancelled, call.progress});
}

Result<csi::Validation> Service::ValidateVolume(
    const CallContext& call, const std::string& plugin,
    const csi::ValidateRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.Validate(plugin, request,
                                    {secrets, call.cancelled, call.progress});
}

Result<csi::ControllerVolume> Service::CreateVolume(
    const CallContext& call, const std::string& plugin,
    const csi::CreateVolumeRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.Create(plugin, request,
                                  {secrets, call.cancelled, call.progress});
}

Result<void> Service::DeleteVolume(const CallContext& call,
                                   const std::string& plugin,
                                   const csi::DeleteVolumeRequest& request,
                                   const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.Delete(plugin, request,
                                  {secrets, call.cancelled, call.progress});
}

Result<csi::ControllerExpansion> Service::ControllerExpand(
    const CallContext& call, const std::string& plugin,
    const csi::ControllerExpandRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.Expand(plugin, request,
                                  {secrets, call.cancelled, call.progress});
}

Result<csi::VolumePage> Service::ListPluginVolumes(
    const CallContext& call, const std::string& plugin,
    const csi::ListVolumesRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.List(plugin, request,
                                {secrets, call.cancelled, call.progress});
}

Result<csi::Capacity> Service::GetCapacity(
    const CallContext& call, const std::string& plugin,
    const csi::GetCapacityRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.GetCapacity(
      plugin, request, {secrets, call.cancelled, call.progress});
}

Result<std::string> Service::CallController(const CallContext& call,
                                            const std::string& plugin,
                                            const std::string& rpc,
                                            const std::string& request,
                                            const UniqueFd& secrets) {
  MOUNTD_TRY(PolicyFor(call).MayControlPlugin(call.caller, plugin));
  return parts_.controller.HandOn(plugin, rpc, request,
                                  {secrets, call.cancelled, call.progress});
}

}  // namespace mountd
