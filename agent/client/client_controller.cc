// SPDX-License-Identifier: LGPL-2.1-or-later
#include <utility>

#include "agent/client.h"
#include "agent/client/client_impl.h"
#include "agent/client/dict_to_types.h"
#include "agent/client/types_to_dict.h"
#include "agent/fields/volume_fields.h"

// Client's calls of plugins' controllers.
namespace mountd::agent {

Result<std::map<std::string, std::string>> Client::ControllerPublishVolume(
    const ControllerPublishSpec& spec) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(spec.secrets, sent));
  const dbus::Dict usage = ToDict(spec.usage);
  return impl_->Call("ControllerPublishVolume", spec.plugin + "/" + spec.volume,
                     std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       return proxy.ControllerPublishVolume(
                           spec.plugin, spec.volume, spec.node_id, usage,
                           spec.volume_context, opts);
                     });
}

Result<void> Client::ControllerUnpublishVolume(
    std::string_view plugin, std::string_view volume, std::string_view node_id,
    const std::map<std::string, std::string>& secrets) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(secrets, sent));
  const std::string id(plugin);
  const std::string volume_id(volume);
  const std::string node(node_id);
  return impl_->Call(
      "ControllerUnpublishVolume", id + "/" + volume_id, std::move(sent),
      [&](ManagerProxy& proxy, dbus::Dict& opts) {
        proxy.ControllerUnpublishVolume(id, volume_id, node, opts);
      });
}

Result<VolumeValidation> Client::ValidateVolume(
    const VolumeValidationSpec& spec) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(spec.secrets, sent));
  AddMap(sent, "parameters", spec.parameters);
  AddMap(sent, "mutable_parameters", spec.mutable_parameters);
  const dbus::Dict usage = ToDict(spec.usage);
  MOUNTD_ASSIGN(
      const dbus::Dict answer,
      impl_->Call("ValidateVolume", spec.plugin + "/" + spec.volume,
                  std::move(sent), [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.ValidateVolume(spec.plugin, spec.volume, usage,
                                                spec.volume_context, opts);
                  }));
  return FromDict<VolumeValidation>(answer);
}

Result<PluginVolume> Client::CreateVolume(const VolumeCreation& creation) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(creation.secrets, sent));
  const dbus::Dict spec = ToDict(creation);
  MOUNTD_ASSIGN(
      const dbus::Dict answer,
      impl_->Call("CreateVolume", creation.plugin + "/" + creation.name,
                  std::move(sent), [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.CreateVolume(creation.plugin, creation.name,
                                              spec, opts);
                  }));
  return FromDict<PluginVolume>(answer);
}

Result<void> Client::DeleteVolume(
    std::string_view plugin, std::string_view volume,
    const std::map<std::string, std::string>& secrets) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(secrets, sent));
  const std::string id(plugin);
  const std::string volume_id(volume);
  return impl_->Call("DeleteVolume", id + "/" + volume_id, std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.DeleteVolume(id, volume_id, opts);
                     });
}

Result<ControllerExpansion> Client::ControllerExpandVolume(
    const ControllerExpansionSpec& spec) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(spec.secrets, sent));
  AddBytes(sent, "limit_bytes", spec.limit_bytes);
  if (spec.usage) {
    VolumeUsage usage = *spec.usage;
    if (usage.access_mode.empty()) {
      // mountd takes an empty usage for no usage at all.
      usage.access_mode = "single-node-writer";
    }
    sent.emplace("usage", dbus::Value(ToDict(usage)));
  }
  MOUNTD_ASSIGN(
      const dbus::Dict answer,
      impl_->Call("ControllerExpandVolume", spec.plugin + "/" + spec.volume,
                  std::move(sent), [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.ControllerExpandVolume(
                        spec.plugin, spec.volume, spec.required_bytes, opts);
                  }));
  return FromDict<ControllerExpansion>(answer);
}

Result<PluginVolumePage> Client::ListPluginVolumes(std::string_view plugin,
                                                   const PageRequest& page) {
  dbus::Dict sent;
  if (page.max_entries != 0) {
    sent.emplace("max_entries", dbus::Value(page.max_entries));
  }
  AddText(sent, "starting_token", page.starting_token);
  const std::string id(plugin);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("ListPluginVolumes", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListPluginVolumes(id, opts);
                            }));
  return FromDict<PluginVolumePage>(answer);
}

Result<PluginCapacity> Client::GetCapacity(std::string_view plugin,
                                           const CapacityQuery& query) {
  dbus::Dict sent;
  if (!query.usages.empty()) {
    sent.emplace("usages", dbus::Value(ToDicts(query.usages)));
  }
  AddMap(sent, "parameters", query.parameters);
  AddMap(sent, "topology", query.topology);
  const std::string id(plugin);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetCapacity", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetCapacity(id, opts);
                            }));
  return FromDict<PluginCapacity>(answer);
}

Result<std::string> Client::CallController(const ControllerCall& call) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(call.secrets, sent));
  const std::vector<std::uint8_t> request(call.request.begin(),
                                          call.request.end());
  MOUNTD_ASSIGN(
      const auto response,
      impl_->Call("CallController", call.plugin + "/" + call.rpc,
                  std::move(sent), [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.CallController(call.plugin, call.rpc, request,
                                                opts);
                  }));
  return std::string(response.begin(), response.end());
}

}  // namespace mountd::agent
