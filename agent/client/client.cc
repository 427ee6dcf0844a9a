// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client.h"

#include <utility>

#include "agent/client/client_impl.h"
#include "agent/client/dict_to_types.h"
#include "agent/client/types_to_dict.h"
#include "agent/fields/node_fields.h"

namespace mountd::agent {

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::Connect(ClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  MOUNTD_TRY(impl->Connect());
  return Client(std::move(impl));
}

void Client::SetNames(CallNames names) { impl_->SetNames(std::move(names)); }

Result<std::string> Client::Version() {
  return impl_->Call("Version", "", {}, [](ManagerProxy& proxy, dbus::Dict&) {
    return proxy.Version();
  });
}

Result<std::string> Client::PrepareAllocation(
    std::string_view allocation, const AllocationOptions& options) {
  dbus::Dict sent;
  AddText(sent, "scope", options.scope);
  if (options.cgroup >= 0) {
    sent.emplace("cgroup", dbus::Value(sdbus::UnixFd(options.cgroup)));
  }
  if (options.group != 0) {
    sent.emplace("group", dbus::Value(options.group));
  }
  if (options.lease_required) {
    sent.emplace("lease_required", dbus::Value(true));
  }
  const std::string id(allocation);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("PrepareAllocation", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.PrepareAllocation(id, opts);
                            }));
  std::string path;
  MOUNTD_TRY(ReadKey<Form::kPath>(answer, "host_path", path));
  return path;
}

Result<AllocationStatus> Client::GetAllocation(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetAllocation", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetAllocation(id, opts);
                            }));
  return FromDict<AllocationStatus>(answer);
}

Result<std::vector<AllocationEntry>> Client::ListAllocations() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListAllocations", "", impl_->ListOptions(),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListAllocations(opts);
                            }));
  return FromRows<AllocationEntry>(answer);
}

Result<Receipt> Client::ReleaseAllocation(std::string_view allocation,
                                          OnTasks on_tasks, OnlyIf only_if) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(
      const dbus::Dict answer,
      impl_->Call("ReleaseAllocation", id, ToOptions(on_tasks, only_if),
                  [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.ReleaseAllocation(id, opts);
                  }));
  return FromDict<Receipt>(answer);
}

Result<Receipt> Client::GetReceipt(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetReceipt", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetReceipt(id, opts);
                            }));
  return FromDict<Receipt>(answer);
}

Result<std::vector<ReconciledAllocation>> Client::Reconcile(
    const Reconciliation& reconciliation) {
  const Reconciliation& sent = reconciliation;
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("Reconcile", sent.scope, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.Reconcile(sent.scope, sent.epoch,
                                                     sent.wanted, sent.dry_run,
                                                     opts);
                            }));
  return FromDicts<ReconciledAllocation>(answer);
}

Result<NetworkStatus> Client::SetupNetwork(std::string_view allocation,
                                           const NetworkSpec& spec) {
  dbus::Dict sent = ToDict(spec);
  const std::string id(allocation);
  const auto ports = ToRows(spec.ports);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("SetupNetwork", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.SetupNetwork(id, spec.mode, ports,
                                                        opts);
                            }));
  return FromDict<NetworkStatus>(answer);
}

Result<void> Client::TeardownNetwork(std::string_view allocation,
                                     std::string_view interface) {
  const std::string id(allocation);
  dbus::Dict sent;
  AddText(sent, "interface", std::string(interface));
  return impl_->Call("TeardownNetwork", id, std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.TeardownNetwork(id, opts);
                     });
}

Result<PublishedVolume> Client::PublishVolume(std::string_view allocation,
                                              const VolumeSpec& spec) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(spec.secrets, sent));
  const std::string id(allocation);
  const dbus::Dict usage = ToDict(spec.usage);
  MOUNTD_ASSIGN(
      const dbus::Dict answer,
      impl_->Call("PublishVolume", id + "/" + spec.alias, std::move(sent),
                  [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.PublishVolume(
                        id, spec.alias, spec.volume, spec.plugin, usage,
                        spec.publish_context, spec.volume_context, opts);
                  }));
  return FromDict<PublishedVolume>(answer);
}

Result<void> Client::UnpublishVolume(std::string_view allocation,
                                     std::string_view alias, OnTasks on_tasks) {
  const std::string id(allocation);
  const std::string name(alias);
  return impl_->Call("UnpublishVolume", id + "/" + name, ToOptions(on_tasks),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.UnpublishVolume(id, name, opts);
                     });
}

Result<std::int64_t> Client::ExpandVolume(std::string_view allocation,
                                          std::string_view alias,
                                          const VolumeExpansion& expansion) {
  dbus::Dict sent;
  MOUNTD_TRY(AddSecrets(expansion.secrets, sent));
  if (expansion.limit_bytes != 0) {
    sent.emplace("limit_bytes", dbus::Value(expansion.limit_bytes));
  }
  const std::string id(allocation);
  const std::string name(alias);
  return impl_->Call("ExpandVolume", id + "/" + name, std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       return proxy.ExpandVolume(
                           id, name, expansion.required_bytes, opts);
                     });
}

Result<VolumeStats> Client::GetVolumeStats(std::string_view allocation,
                                           std::string_view alias) {
  const std::string id(allocation);
  const std::string name(alias);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetVolumeStats", id + "/" + name, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetVolumeStats(id, name, opts);
                            }));
  return FromDict<VolumeStats>(answer);
}

Result<std::vector<StagedVolume>> Client::ListVolumes() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListVolumes", "", impl_->ListOptions(),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListVolumes(opts);
                            }));
  return FromDicts<StagedVolume>(answer);
}

Result<TreeResult> Client::RemoveTree(int directory) {
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("RemoveTree", "directory", {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.RemoveTree(sdbus::UnixFd(directory),
                                                      opts);
                            }));
  return FromDict<TreeResult>(answer);
}

Result<TreeResult> Client::ChownTree(int directory, std::uint32_t uid,
                                     std::uint32_t gid) {
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("ChownTree", "directory", {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ChownTree(sdbus::UnixFd(directory),
                                                     uid, gid, opts);
                            }));
  return FromDict<TreeResult>(answer);
}

Result<PluginRegistration> Client::RegisterPlugin(const PluginSpec& spec) {
  dbus::Dict sent;
  AddText(sent, "mount_dir", spec.mount_dir);
  AddText(sent, "stage_publish_base_dir", spec.stage_publish_base_dir);
  if (spec.bare_directories) {
    sent.emplace("bare_directories", dbus::Value(true));
  }
  if (spec.health_timeout.count() > 0) {
    sent.emplace(
        "health_timeout_ms",
        dbus::Value(static_cast<std::uint32_t>(spec.health_timeout.count())));
  }
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("RegisterPlugin", spec.plugin, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.RegisterPlugin(
                                  spec.plugin, ToWire(spec.type),
                                  spec.allocation, opts);
                            }));
  return FromDict<PluginRegistration>(answer);
}

Result<void> Client::UnregisterPlugin(std::string_view plugin,
                                      const PluginSelection& which) {
  const std::string id(plugin);
  dbus::Dict sent;
  if (which.type) {
    sent.emplace("type", dbus::Value(ToWire(*which.type)));
  }
  if (which.allocation) {
    sent.emplace("allocation", dbus::Value(*which.allocation));
  }
  if (which.force) {
    sent.emplace("force", dbus::Value(true));
  }
  return impl_->Call("UnregisterPlugin", id, std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.UnregisterPlugin(id, opts);
                     });
}

Result<PluginStatus> Client::GetPlugin(std::string_view plugin) {
  const std::string id(plugin);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetPlugin", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetPlugin(id, opts);
                            }));
  return FromDict<PluginStatus>(answer);
}

Result<std::vector<PluginStatus>> Client::ListPlugins() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListPlugins", "", {},
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListPlugins(opts);
                            }));
  return FromDicts<PluginStatus>(answer);
}

Result<std::vector<OwedTeardown>> Client::ListOwed() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListOwed", "", impl_->ListOptions(),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListOwed(opts);
                            }));
  return FromRows<OwedTeardown>(answer);
}

Result<OwedSummary> Client::Owed() {
  MOUNTD_ASSIGN(
      const auto owed,
      impl_->Call("Owed", "", {}, [](ManagerProxy& proxy, dbus::Dict&) {
        return proxy.Owed();
      }));
  return OwedSummary{owed.get<0>(), ToTimestamp(owed.get<1>())};
}

Result<std::uint32_t> Client::FreeHostPorts() {
  return impl_->Call(
      "FreeHostPorts", "", {},
      [](ManagerProxy& proxy, dbus::Dict&) { return proxy.FreeHostPorts(); });
}

Result<std::map<std::string, std::uint64_t>> Client::DroppedPeers() {
  return impl_->Call(
      "DroppedPeers", "", {},
      [](ManagerProxy& proxy, dbus::Dict&) { return proxy.DroppedPeers(); });
}

Result<std::uint32_t> Client::RetryOwed() {
  return impl_->Call("RetryOwed", "", impl_->ListOptions(),
                     [](ManagerProxy& proxy, dbus::Dict& opts) {
                       return proxy.RetryOwed(opts);
                     });
}

Result<std::vector<OperationStatus>> Client::ListOperations() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListOperations", "", {},
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListOperations(opts);
                            }));
  return FromDicts<OperationStatus>(answer);
}

Result<void> Client::Cancel(std::string_view operation) {
  const std::string id(operation);
  return impl_->Call(
      "Cancel", id, {},
      [&](ManagerProxy& proxy, dbus::Dict& opts) { proxy.Cancel(id, opts); });
}

Result<Capabilities> Client::GetCapabilities() {
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetCapabilities", "", {},
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetCapabilities(opts);
                            }));
  return FromDict<Capabilities>(answer);
}

Result<std::vector<MethodStatistics>> Client::GetStatistics() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("GetStatistics", "", {},
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetStatistics(opts);
                            }));
  return FromRows<MethodStatistics>(answer);
}

Result<std::vector<std::string>> Client::Reload() {
  return impl_->Call(
      "Reload", "", {},
      [](ManagerProxy& proxy, dbus::Dict& opts) { return proxy.Reload(opts); });
}

}  // namespace mountd::agent
