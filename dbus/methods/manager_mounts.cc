// SPDX-License-Identifier: LGPL-2.1-or-later
#include <array>

#include "dbus/methods/bind_mount_request.h"
#include "dbus/methods/manager_serve.h"

// ManagerAdaptor's methods on bind mounts.
namespace mountd::dbus {
namespace {

Result<exec::UnmountMode> UnmountModeFrom(const std::string& name) {
  // In the order of UnmountMode.
  constexpr std::array<const char*, 4> kModes = {"plain", "detach", "force",
                                                 "abort"};
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    if (name == kModes.at(i)) {
      return static_cast<exec::UnmountMode>(i);
    }
  }
  return MakeError(Code::kInvalidArgument, "check", "options[\"mode\"]",
                   "must be plain, detach, force or abort");
}

}  // namespace

template <typename T>
Result<ManagerAdaptor::Decoded<T>> ManagerAdaptor::DecodeRequest(
    const MountArguments& arguments, const Dict& options,
    Result<T> (MountVerbs::*verb)(const CallContext&, BindMountRequest)) const {
  Decoded<T> call;
  OptionReader reader("options", options);
  call.patience = Patience(reader);
  MOUNTD_ASSIGN(const BindMountRequest request, RequestFrom(arguments, reader));
  MOUNTD_TRY(reader.Finish());
  call.strand = AllocationStrand(request.allocation);
  call.arguments = IdentityOf(request);
  call.work = [request, verb](Services& services, const CallContext& context) {
    return (services.mounts.*verb)(context, request);
  };
  return call;
}

void ManagerAdaptor::BindMount(sdbus::Result<Dict>&& answer,
                               std::string allocation, std::string task,
                               std::string name, std::string source_type,
                               std::string source, bool read_only,
                               std::string propagation, Dict options) {
  Serve<MountConfig>(
      std::move(answer), "BindMount",
      [&] {
        return DecodeRequest<MountConfig>({allocation, task, name, source_type,
                                           source, read_only, propagation},
                                          options, &MountVerbs::BindMount);
      },
      [](const MountConfig& config) { return ToDict(config); });
}

void ManagerAdaptor::BindMounts(sdbus::Result<std::vector<Dict>>&& answer,
                                std::string allocation,
                                std::vector<Dict> mounts, Dict options) {
  using T = std::vector<MountConfig>;
  Serve<T>(
      std::move(answer), "BindMounts",
      [&]() -> Result<Decoded<T>> {
        constexpr std::size_t kMostMounts = 256;
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        if (mounts.empty() || mounts.size() > kMostMounts) {
          return MakeError(Code::kInvalidArgument, "check", "mounts",
                           "must have 1 to 256 entries");
        }
        std::vector<BindMountRequest> requests;
        Arguments arguments;
        for (const Dict& mount : mounts) {
          MOUNTD_ASSIGN(BindMountRequest request,
                        RequestFrom(allocation, mount, requests.size()));
          arguments.Add(IdentityOf(request));
          requests.push_back(std::move(request));
        }
        call.strand = AllocationStrand(allocation);
        call.arguments = arguments.text();
        call.work = [requests](Services& services, const CallContext& context) {
          return services.mounts.BindMounts(context, requests);
        };
        return call;
      },
      [](const T& configs) { return ToDicts(configs); });
}

void ManagerAdaptor::ReplaceMount(sdbus::Result<Dict>&& answer,
                                  std::string allocation, std::string task,
                                  std::string name, std::string source_type,
                                  std::string source, bool read_only,
                                  std::string propagation, Dict options) {
  using T = Mounts::Replaced;
  Serve<T>(
      std::move(answer), "ReplaceMount",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const auto tasks = reader.Get<std::string>("tasks", "");
        const MountArguments arguments{allocation,  task,   name,
                                       source_type, source, read_only,
                                       propagation};
        MOUNTD_ASSIGN(const BindMountRequest request,
                      RequestFrom(arguments, reader));
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const OnTasks on_tasks, ParseOnTasks(tasks));
        call.strand = AllocationStrand(request.allocation);
        call.arguments = IdentityOf(request) + "\n" + tasks;
        call.work = [request, on_tasks](Services& services,
                                        const CallContext& context) {
          return services.mounts.ReplaceMount(context, request, on_tasks);
        };
        return call;
      },
      [](const T& replaced) { return ToDict(replaced); });
}

void ManagerAdaptor::RepairMount(sdbus::Result<Dict>&& answer,
                                 std::string allocation, std::string task,
                                 std::string name, Dict options) {
  using T = MountVerbs::Repaired;
  Serve<T>(
      std::move(answer), "RepairMount",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name task_name, Name::Parse("task", task));
        MOUNTD_ASSIGN(const Name mount_name, Name::Parse("name", name));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(allocation, task, name);
        call.work = [id, task_name, mount_name](Services& services,
                                                const CallContext& context) {
          return services.mounts.RepairMount(context, id, task_name,
                                             mount_name);
        };
        return call;
      },
      [](const T& repaired) {
        Dict result = ToDict(repaired.replaced);
        result.emplace("reaches_task", Value(repaired.reaches_task));
        result.emplace("reason", Value(repaired.reason));
        return result;
      });
}

void ManagerAdaptor::OpenTree(sdbus::Result<sdbus::UnixFd>&& answer,
                              std::string allocation, std::string source_type,
                              std::string source, std::string propagation,
                              Dict options) {
  using T = std::shared_ptr<UniqueFd>;  // shared, because results are copied
  Serve<T>(
      std::move(answer), "OpenTree",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        BindMountRequest request;
        request.allocation = allocation;
        request.wish.source = source;
        MOUNTD_ASSIGN(request.wish.source_kind,
                      ParseSourceKindName(source_type));
        MOUNTD_ASSIGN(request.wish.propagation,
                      ParsePropagationName(propagation));
        if (request.wish.source_kind != exec::SourceKind::kTmpfs &&
            request.wish.source_kind != exec::SourceKind::kDirectory) {
          MOUNTD_TRY(Name::Parse("source", source));
        }
        call.strand = AllocationStrand(allocation);
        call.arguments =
            Arguments::Of(allocation, source_type, source, propagation);
        call.work = [request](Services& services,
                              const CallContext& context) -> Result<T> {
          MOUNTD_ASSIGN(UniqueFd fd,
                        services.mounts.OpenTree(context, request));
          return std::make_shared<UniqueFd>(std::move(fd));
        };
        return call;
      },
      [](const T& tree) { return sdbus::UnixFd(tree->get()); });
}

void ManagerAdaptor::PrepareInbox(sdbus::Result<Dict>&& answer,
                                  std::string allocation, std::string task,
                                  Dict options) {
  using T = InboxVerbs::Inbox;
  Serve<T>(
      std::move(answer), "PrepareInbox",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const bool open = reader.Get<bool>("open", false);
        MOUNTD_TRY(reader.Finish());
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        MOUNTD_TRY(Name::Parse("task", task));
        call.strand = AllocationStrand(allocation);
        call.arguments = Arguments::Of(allocation, task, open ? "open" : "");
        call.work = [record = InboxRecord{allocation, task}, open](
                        Services& services, const CallContext& context) {
          return services.inboxes.PrepareInbox(context, record, open);
        };
        return call;
      },
      [where = parts_.services.capabilities.MountNamespace()](const T& inbox) {
        constexpr auto kSlave = exec::Propagation::kHostToTask;
        Dict dict = {
            {"host_path", Value(ToBytes(inbox.host_path))},
            {"propagation", Value(std::string(PropagationName(kSlave)))},
            {"required_rootfs_propagation",
             Value(std::string(RequiredRootfsPropagation(kSlave)))}};
        if (inbox.tree != nullptr) {
          dict.emplace("tree", Value(sdbus::UnixFd(inbox.tree->get())));
        }
        return WithNamespace(where, std::move(dict));
      });
}

void ManagerAdaptor::RemoveInbox(sdbus::Result<>&& answer,
                                 std::string allocation, std::string task,
                                 Dict options) {
  Serve<void>(
      std::move(answer), "RemoveInbox",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        MOUNTD_TRY(Name::Parse("task", task));
        call.strand = AllocationStrand(allocation);
        call.arguments = Arguments::Of(allocation, task);
        call.work = [inbox = InboxRecord{allocation, task}](
                        Services& services, const CallContext& context) {
          return services.inboxes.RemoveInbox(context, inbox);
        };
        return call;
      },
      NoConversion());
}

void ManagerAdaptor::Unmount(sdbus::Result<>&& answer, std::string allocation,
                             std::string task, std::string name, Dict options) {
  Serve<void>(
      std::move(answer), "Unmount",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const std::string mode_name = reader.Get<std::string>("mode", "plain");
        const auto tasks = reader.Get<std::string>("tasks", "");
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const OnTasks on_tasks, ParseOnTasks(tasks));
        MOUNTD_ASSIGN(const exec::UnmountMode mode, UnmountModeFrom(mode_name));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name task_name, Name::Parse("task", task));
        MOUNTD_ASSIGN(const Name mount_name, Name::Parse("name", name));
        call.strand = AllocationStrand(id.str());
        call.arguments =
            Arguments::Of(allocation, task, name, mode_name, tasks);
        call.work = [id, task_name, mount_name, mode, on_tasks](
                        Services& services, const CallContext& context) {
          return services.mounts.Unmount(context, id, task_name, mount_name,
                                         mode, on_tasks);
        };
        return call;
      },
      NoConversion());
}

}  // namespace mountd::dbus
