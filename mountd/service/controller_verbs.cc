// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/controller_verbs.h"

namespace mountd {

Result<StringMap> ControllerVerbs::ControllerPublish(
    const CallContext& call, const std::string& plugin,
    const csi::ControllerPublishRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.Publish(plugin, request,
                                   {secrets, call.cancelled, call.progress});
}

Result<void> ControllerVerbs::ControllerUnpublish(
    const CallContext& call, const std::string& plugin,
    const csi::ControllerUnpublishRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.Unpublish(plugin, request,
                                     {secrets, call.cancelled, call.progress});
}

Result<csi::Validation> ControllerVerbs::ValidateVolume(
    const CallContext& call, const std::string& plugin,
    const csi::ValidateRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.Validate(plugin, request,
                                    {secrets, call.cancelled, call.progress});
}

Result<csi::ControllerVolume> ControllerVerbs::CreateVolume(
    const CallContext& call, const std::string& plugin,
    const csi::CreateVolumeRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.Create(plugin, request,
                                  {secrets, call.cancelled, call.progress});
}

Result<void> ControllerVerbs::DeleteVolume(
    const CallContext& call, const std::string& plugin,
    const csi::DeleteVolumeRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.Delete(plugin, request,
                                  {secrets, call.cancelled, call.progress});
}

Result<csi::ControllerExpansion> ControllerVerbs::ControllerExpand(
    const CallContext& call, const std::string& plugin,
    const csi::ControllerExpandRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.Expand(plugin, request,
                                  {secrets, call.cancelled, call.progress});
}

Result<csi::VolumePage> ControllerVerbs::ListPluginVolumes(
    const CallContext& call, const std::string& plugin,
    const csi::ListVolumesRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.List(plugin, request,
                                {secrets, call.cancelled, call.progress});
}

Result<csi::Capacity> ControllerVerbs::GetCapacity(
    const CallContext& call, const std::string& plugin,
    const csi::GetCapacityRequest& request, const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.GetCapacity(
      plugin, request, {secrets, call.cancelled, call.progress});
}

Result<std::string> ControllerVerbs::CallController(const CallContext& call,
                                                    const std::string& plugin,
                                                    const std::string& rpc,
                                                    const std::string& request,
                                                    const UniqueFd& secrets) {
  MOUNTD_TRY(
      access_.PolicyFor(call).plugins().MayControlPlugin(call.caller, plugin));
  return parts_.controller.HandOn(plugin, rpc, request,
                                  {secrets, call.cancelled, call.progress});
}

}  // namespace mountd
