// SPDX-License-Identifier: LGPL-2.1-or-later
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "agent/client/client_impl.h"
#include "agent/client/dict_to_types.h"
#include "agent/client/types_to_dict.h"
#include "agent/fields/mount_fields.h"

namespace mountd::agent {
namespace {

dbus::Dict OptionsOf(const BindMountSpec& spec) {
  dbus::Dict sent = ToDict(spec);
  for (const MountFlag& flag : kMountFlags) {
    if (spec.*flag.member) {
      sent.emplace(flag.key, dbus::Value(true));
    }
  }
  return sent;
}

// Converts one element of BindMounts' array.
dbus::Dict ElementOfMounts(const BindMountSpec& spec) {
  dbus::Dict sent = OptionsOf(spec);
  AddFields(spec, kMountArguments, &sent);
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
  return FromDict<MountConfig>(answer);
}

Result<std::vector<MountConfig>> Client::BindMounts(
    std::string_view allocation, const std::vector<BindMountSpec>& specs) {
  const std::string id(allocation);
  std::vector<dbus::Dict> mounts;
  mounts.reserve(specs.size());
  for (const BindMountSpec& spec : specs) {
    mounts.push_back(ElementOfMounts(spec));
  }
  MOUNTD_ASSIGN(const std::vector<dbus::Dict> answer,
                impl_->Call("BindMounts", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.BindMounts(id, mounts, opts);
                            }));
  return FromDicts<MountConfig>(answer);
}

Result<ReplacedMount> Client::ReplaceMount(std::string_view allocation,
                                           const BindMountSpec& spec,
                                           OnTasks on_tasks) {
  MOUNTD_ASSIGN(const dbus::Dict answer,
                CallWith(*impl_, "ReplaceMount", &ManagerProxy::ReplaceMount,
                         std::string(allocation), spec, ToOptions(on_tasks)));
  return FromDict<ReplacedMount>(answer);
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
  return FromDict<RepairedMount>(answer);
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
  return FromDict<InboxConfig>(answer);
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
  MOUNTD_TRY(ReadKey(answer, "tree", tree));
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
  return FromDict<Holders>(answer);
}

Result<HandedOutList> Client::ListHandedOut(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("ListHandedOut", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListHandedOut(id, opts);
                            }));
  return FromDict<HandedOutList>(answer);
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
  return FromDict<TaskReport>(answer);
}

}  // namespace mountd::agent
