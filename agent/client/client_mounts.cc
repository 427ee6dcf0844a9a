// SPDX-License-Identifier: LGPL-2.1-or-later
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "agent/client/client_impl.h"
#include "agent/client/fields.h"
#include "agent/client/types_to_dict.h"

namespace mountd::agent {
namespace {

void AddTmpfs(dbus::Dict& sent, const TmpfsOptions& tmpfs) {
  const auto add = [&](const char* key, const auto& value) {
    if (value) {
      sent.emplace(key, dbus::Value(*value));
    }
  };
  sent.emplace("size", dbus::Value(tmpfs.size));
  add("inodes", tmpfs.inodes);
  add("mode", tmpfs.mode);
  add("uid", tmpfs.uid);
  add("gid", tmpfs.gid);
  if (tmpfs.noswap) {
    sent.emplace("noswap", dbus::Value(true));
  }
}

dbus::Dict OptionsOf(const BindMountSpec& spec) {
  dbus::Dict sent;
  AddText(sent, "task_path", spec.task_path);
  for (const auto& [key, value] :
       {std::pair("noexec", spec.noexec), std::pair("noatime", spec.noatime)}) {
    if (value) {
      sent.emplace(key, dbus::Value(true));
    }
  }
  if (!spec.id_map.empty()) {
    std::vector<sdbus::Struct<std::uint32_t, std::uint32_t, std::uint32_t>> map;
    for (const IdExtent& extent : spec.id_map) {
      map.emplace_back(extent.on_disk, extent.shown, extent.count);
    }
    sent.emplace("idmap", dbus::Value(map));
  }
  if (spec.tmpfs) {
    AddTmpfs(sent, *spec.tmpfs);
  }
  if (spec.directory >= 0) {
    sent.emplace("directory", dbus::Value(sdbus::UnixFd(spec.directory)));
  }
  if (spec.container >= 0) {
    sent.emplace("container", dbus::Value(sdbus::UnixFd(spec.container)));
  }
  return sent;
}

// Converts one element of BindMounts' array.
dbus::Dict ToWire(const BindMountSpec& spec) {
  dbus::Dict sent = OptionsOf(spec);
  sent.emplace("task", dbus::Value(spec.task));
  sent.emplace("name", dbus::Value(spec.name));
  sent.emplace("source_type", dbus::Value(ToWire(spec.source_type)));
  sent.emplace("source", dbus::Value(spec.source));
  sent.emplace("read_only", dbus::Value(spec.read_only));
  sent.emplace("propagation", dbus::Value(ToWire(spec.propagation)));
  return sent;
}

std::string ObjectOf(const std::string& allocation, const BindMountSpec& spec) {
  return allocation + "/" + spec.task + "/" + spec.name;
}

// Calls one of the methods that take a BindMountSpec's fields and options.
template <typename Impl, typename Method>
Result<dbus::Dict> CallWith(Impl& impl, const char* name, Method method,
                            const std::string& allocation,
                            const BindMountSpec& spec, dbus::Dict more = {}) {
  dbus::Dict sent = OptionsOf(spec);
  sent.merge(more);
  return impl.Call(name, ObjectOf(allocation, spec), std::move(sent),
                   [&](ManagerProxy& proxy, dbus::Dict& opts) {
                     return (proxy.*method)(allocation, spec.task, spec.name,
                                            ToWire(spec.source_type),
                                            spec.source, spec.read_only,
                                            ToWire(spec.propagation), opts);
                   });
}

}  // namespace

Result<MountConfig> Client::BindMount(std::string_view allocation,
                                      const BindMountSpec& spec) {
  MOUNTD_ASSIGN(const dbus::Dict answer,
                CallWith(*impl_, "BindMount", &ManagerProxy::BindMount,
                         std::string(allocation), spec));
  return ToMountConfig(answer);
}

Result<std::vector<MountConfig>> Client::BindMounts(
    std::string_view allocation, const std::vector<BindMountSpec>& specs) {
  const std::string id(allocation);
  std::vector<dbus::Dict> mounts;
  mounts.reserve(specs.size());
  for (const BindMountSpec& spec : specs) {
    mounts.push_back(ToWire(spec));
  }
  MOUNTD_ASSIGN(const std::vector<dbus::Dict> answer,
                impl_->Call("BindMounts", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.BindMounts(id, mounts, opts);
                            }));
  return ToList(answer, &ToMountConfig);
}

Result<ReplacedMount> Client::ReplaceMount(std::string_view allocation,
                                           const BindMountSpec& spec,
                                           OnTasks on_tasks) {
  MOUNTD_ASSIGN(const dbus::Dict answer,
                CallWith(*impl_, "ReplaceMount", &ManagerProxy::ReplaceMount,
                         std::string(allocation), spec, ToOptions(on_tasks)));
  return ToReplacedMount(answer);
}

Result<RepairedMount> Client::RepairMount(std::string_view allocation,
                                          std::string_view task,
                                          std::string_view name) {
  const std::string id(allocation);
  const std::string task_name(task);
  const std::string mount(name);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("RepairMount", id + "/" + task_name + "/" + mount,
                            {}, [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.RepairMount(id, task_name, mount,
                                                       opts);
                            }));
  return ToRepairedMount(answer);
}

Result<UniqueFd> Client::OpenTree(std::string_view allocation,
                                  const BindMountSpec& spec) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(sdbus::UnixFd answer,
                impl_->Call("OpenTree", id + "/" + spec.source, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.OpenTree(
                                  id, ToWire(spec.source_type), spec.source,
                                  ToWire(spec.propagation), opts);
                            }));
  return UniqueFd(answer.release());
}

Result<InboxConfig> Client::PrepareInbox(std::string_view allocation,
                                         std::string_view task) {
  const std::string id(allocation);
  const std::string name(task);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("PrepareInbox", id + "/" + name, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.PrepareInbox(id, name, opts);
                            }));
  return ToInboxConfig(answer);
}

Result<UniqueFd> Client::OpenInbox(std::string_view allocation,
                                   std::string_view task) {
  const std::string id(allocation);
  const std::string name(task);
  dbus::Dict sent = {{"open", dbus::Value(true)}};
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("PrepareInbox", id + "/" + name, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.PrepareInbox(id, name, opts);
                            }));
  sdbus::UnixFd tree;
  MOUNTD_TRY(Fields(answer).Read("tree", tree).status());
  return tree.isValid() ? Result<UniqueFd>(UniqueFd(tree.release()))
                        : MakeError(Code::kInternal, "answer", "tree",
                                    "is missing from mountd's answer");
}

Result<void> Client::RemoveInbox(std::string_view allocation,
                                 std::string_view task) {
  const std::string id(allocation);
  const std::string name(task);
  return impl_->Call("RemoveInbox", id + "/" + name, {},
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.RemoveInbox(id, name, opts);
                     });
}

Result<void> Client::Unmount(std::string_view allocation, std::string_view task,
                             std::string_view name, UnmountMode mode,
                             OnTasks on_tasks) {
  const std::string id(allocation);
  const std::string task_name(task);
  const std::string mount(name);
  dbus::Dict sent = ToOptions(on_tasks);
  if (mode != UnmountMode::kPlain) {
    sent.emplace("mode", dbus::Value(ToWire(mode)));
  }
  return impl_->Call("Unmount", id + "/" + task_name + "/" + mount,
                     std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.Unmount(id, task_name, mount, opts);
                     });
}

Result<Holders> Client::ListHolders(std::string_view allocation,
                                    std::string_view task,
                                    std::string_view name, bool node) {
  dbus::Dict sent;
  AddText(sent, "scope", node ? "node" : "");
  const std::string id(allocation);
  const std::string task_name(task);
  const std::string mount(name);
  MOUNTD_ASSIGN(
      const dbus::Dict answer,
      impl_->Call("ListHolders", id + "/" + task_name + "/" + mount,
                  std::move(sent), [&](ManagerProxy& proxy, dbus::Dict& opts) {
                    return proxy.ListHolders(id, task_name, mount, opts);
                  }));
  return ToHolders(answer);
}

Result<HandedOutList> Client::ListHandedOut(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("ListHandedOut", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListHandedOut(id, opts);
                            }));
  return ToHandedOutList(answer);
}

Result<TaskReport> Client::VerifyTask(std::string_view allocation,
                                      std::string_view task, int pidfd) {
  const std::string id(allocation);
  const std::string task_name(task);
  const sdbus::UnixFd process(pidfd);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("VerifyTask", id + "/" + task_name, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.VerifyTask(id, task_name, process,
                                                      opts);
                            }));
  return ToTaskReport(answer);
}

}  // namespace mountd::agent
