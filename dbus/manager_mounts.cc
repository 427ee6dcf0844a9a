// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <tuple>

#include "dbus/manager_serve.h"
#include "dbus/passed_fd.h"
#include "mountd/exec/plan_ids.h"

// ManagerAdaptor's methods on bind mounts.
namespace mountd::dbus {
namespace {

// A path of the task's, only handed back: text for a driver, never opened here.
Result<void> CheckTaskPath(const std::string& path) {
  if (path.size() > 4095 || path.find('\0') != std::string::npos ||
      !IsValidUtf8(path)) {
    return MakeError(Code::kInvalidArgument, "check", "options[\"task_path\"]",
                     "is not a path");
  }
  return Ok();
}

// The keys of a tmpfs, which no other source has.
exec::TmpfsPlan TmpfsFrom(OptionReader& reader) {
  constexpr std::uint32_t kDefaultMode = 0700;
  exec::TmpfsPlan tmpfs;
  tmpfs.bytes = reader.Get<std::uint64_t>("size", 0);
  tmpfs.inodes = reader.Get<std::uint64_t>("inodes", 0);
  tmpfs.mode = reader.Get<std::uint32_t>("mode", kDefaultMode);
  tmpfs.uid = reader.Get<std::uint32_t>("uid", exec::kNoId);
  tmpfs.gid = reader.Get<std::uint32_t>("gid", exec::kNoId);
  tmpfs.no_swap = reader.Get("noswap", false) ? 1 : 0;
  return tmpfs;
}

// One that has too many extents keeps the count, and is refused by it.
exec::IdMapPlan IdsFrom(OptionReader& reader) {
  using Extent = sdbus::Struct<std::uint32_t, std::uint32_t, std::uint32_t>;
  exec::IdMapPlan ids;
  const auto given = reader.Get<std::vector<Extent>>("idmap", {});
  for (std::size_t i = 0; i < given.size() && i < ids.extents.size(); ++i) {
    ids.extents.at(i) = {std::get<0>(given[i]), std::get<1>(given[i]),
                         std::get<2>(given[i])};
  }
  ids.count = static_cast<std::uint32_t>(
      std::min(given.size(), ids.extents.size() + 1));
  return ids;
}

// What BindMount's arguments name; the same in each method that takes them.
struct MountArguments {
  std::string allocation;
  std::string task;
  std::string name;
  std::string source_type;
  std::string source;
  bool read_only = false;
  std::string propagation;
};

// The caller's directory, kept as an fd of our own; absent, the target is the
// inbox.
Result<void> ReadDirectory(OptionReader& reader, BindMountSpec* spec) {
  const auto given = reader.Get<sdbus::UnixFd>("directory", sdbus::UnixFd());
  if (!given.isValid()) {
    return Ok();
  }
  auto fd = std::make_shared<UniqueFd>(fcntl(given.get(), F_DUPFD_CLOEXEC, 3));
  std::array<char, PATH_MAX> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd->get());
  const ssize_t size =
      fd->valid() ? readlink(link.c_str(), text.data(), text.size()) : -1;
  if (size <= 0) {
    return ErrnoError(errno, "check", "options[\"directory\"]");
  }
  spec->directory_path.assign(text.data(), static_cast<std::size_t>(size));
  if (!IsValidUtf8(spec->directory_path)) {
    return MakeError(Code::kInvalidArgument, "check", "options[\"directory\"]",
                     "its path is not UTF-8");
  }
  spec->directory = std::move(fd);
  spec->target_kind = exec::TargetKind::kDirectory;
  return Ok();
}

std::string IdentityOf(const std::shared_ptr<const UniqueFd>& fd) {
  return fd ? dbus::IdentityOf(fd->get()) : std::string();
}

// `reader` has the options, still to be finished.
Result<BindMountSpec> SpecFrom(const MountArguments& arguments,
                               OptionReader& reader) {
  BindMountSpec spec;
  spec.task_path = reader.Get<std::string>("task_path", "");
  spec.attributes = reader.Get("noexec", false) ? exec::kNoExec : 0U;
  spec.attributes |= reader.Get("noatime", false) ? exec::kNoAtime : 0U;
  spec.attributes |= arguments.read_only ? exec::kReadOnly : 0U;
  spec.ids = IdsFrom(reader);
  MOUNTD_TRY(ReadDirectory(reader, &spec));
  MOUNTD_TRY(CheckTaskPath(spec.task_path));
  MOUNTD_TRY(Name::Parse("allocation", arguments.allocation));
  MOUNTD_TRY(Name::Parse("task", arguments.task));
  MOUNTD_TRY(Name::Parse("name", arguments.name));
  MOUNTD_ASSIGN(spec.source_kind, ParseSourceKindName(arguments.source_type));
  if (spec.source_kind == exec::SourceKind::kTmpfs) {
    spec.tmpfs = TmpfsFrom(reader);
  } else {
    MOUNTD_TRY(Name::Parse("source", arguments.source));
  }
  MOUNTD_ASSIGN(spec.propagation, ParsePropagationName(arguments.propagation));
  spec.allocation = arguments.allocation;
  spec.task = arguments.task;
  spec.name = arguments.name;
  spec.source = arguments.source;
  return spec;
}

// All that makes two specs different, for Operations::Call::arguments.
std::string IdentityOf(const BindMountSpec& spec) {
  const exec::TmpfsPlan& tmpfs = spec.tmpfs;
  Arguments arguments;
  arguments.Add(spec.allocation).Add(spec.task).Add(spec.name);
  arguments.Add(std::string(SourceKindName(spec.source_kind))).Add(spec.source);
  for (const std::uint64_t number :
       {tmpfs.bytes, tmpfs.inodes, std::uint64_t{tmpfs.mode},
        std::uint64_t{tmpfs.uid}, std::uint64_t{tmpfs.gid},
        std::uint64_t{tmpfs.no_swap}, std::uint64_t{spec.attributes}}) {
    arguments.Add(std::to_string(number));
  }
  for (const exec::IdExtent& extent : exec::ExtentsOf(spec.ids)) {
    arguments.Add(std::to_string(extent.on_disk))
        .Add(std::to_string(extent.shown))
        .Add(std::to_string(extent.count));
  }
  arguments.Add(std::to_string(spec.ids.count));
  arguments.Add(std::string(PropagationName(spec.propagation)));
  return arguments.Add(spec.task_path).Add(IdentityOf(spec.directory)).text();
}

// One element of BindMounts' @mounts.
Result<BindMountSpec> SpecFrom(const std::string& allocation, const Dict& mount,
                               std::size_t number) {
  OptionReader reader("mounts[" + std::to_string(number) + "]", mount);
  MountArguments arguments;
  arguments.allocation = allocation;
  arguments.task = reader.Get<std::string>("task", "");
  arguments.name = reader.Get<std::string>("name", "");
  arguments.source_type = reader.Get<std::string>("source_type", "");
  arguments.source = reader.Get<std::string>("source", "");
  arguments.read_only = reader.Get("read_only", false);
  arguments.propagation = reader.Get<std::string>("propagation", "private");
  MOUNTD_ASSIGN(BindMountSpec spec, SpecFrom(arguments, reader));
  MOUNTD_TRY(reader.Finish());
  return spec;
}

Result<exec::UnmountMode> UnmountModeFrom(const std::string& name) {
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

void ManagerAdaptor::BindMount(sdbus::Result<Dict>&& answer,
                               std::string allocation, std::string task,
                               std::string name, std::string source_type,
                               std::string source, bool read_only,
                               std::string propagation, Dict options) {
  Serve<MountConfig>(
      std::move(answer), "BindMount",
      [&]() -> Result<Decoded<MountConfig>> {
        Decoded<MountConfig> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        MOUNTD_ASSIGN(const BindMountSpec spec,
                      SpecFrom({allocation, task, name, source_type, source,
                                read_only, propagation},
                               reader));
        MOUNTD_TRY(reader.Finish());
        call.strand = AllocationStrand(allocation);
        call.arguments = IdentityOf(spec);
        call.work = [spec](Service& service, const CallContext& context) {
          return service.BindMount(context, spec);
        };
        return call;
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
                           "must be 1 to 256");
        }
        std::vector<BindMountSpec> specs;
        Arguments arguments;
        for (const Dict& mount : mounts) {
          MOUNTD_ASSIGN(BindMountSpec spec,
                        SpecFrom(allocation, mount, specs.size()));
          arguments.Add(IdentityOf(spec));
          specs.push_back(std::move(spec));
        }
        call.strand = AllocationStrand(allocation);
        call.arguments = arguments.text();
        call.work = [specs](Service& service, const CallContext& context) {
          return service.BindMounts(context, specs);
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
        MOUNTD_ASSIGN(const BindMountSpec spec,
                      SpecFrom({allocation, task, name, source_type, source,
                                read_only, propagation},
                               reader));
        MOUNTD_TRY(reader.Finish());
        call.strand = AllocationStrand(allocation);
        call.arguments = IdentityOf(spec);
        call.work = [spec](Service& service, const CallContext& context) {
          return service.ReplaceMount(context, spec);
        };
        return call;
      },
      [](const T& replaced) { return ToDict(replaced); });
}

void ManagerAdaptor::RepairMount(sdbus::Result<Dict>&& answer,
                                 std::string allocation, std::string task,
                                 std::string name, Dict options) {
  using T = Service::Repaired;
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
        call.work = [id, task_name, mount_name](Service& service,
                                                const CallContext& context) {
          return service.RepairMount(context, id, task_name, mount_name);
        };
        return call;
      },
      [](const T& repaired) {
        Dict result = ToDict(repaired.replaced);
        result.emplace("reaches_task", sdbus::Variant(repaired.reaches_task));
        result.emplace("reason", sdbus::Variant(repaired.reason));
        return result;
      });
}

void ManagerAdaptor::OpenTree(sdbus::Result<sdbus::UnixFd>&& answer,
                              std::string allocation, std::string source_type,
                              std::string source, std::string propagation,
                              Dict options) {
  using T = std::shared_ptr<UniqueFd>;  // results are copied
  Serve<T>(
      std::move(answer), "OpenTree",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        BindMountSpec spec;
        spec.allocation = allocation;
        spec.source = source;
        MOUNTD_ASSIGN(spec.source_kind, ParseSourceKindName(source_type));
        MOUNTD_ASSIGN(spec.propagation, ParsePropagationName(propagation));
        if (spec.source_kind != exec::SourceKind::kTmpfs) {
          MOUNTD_TRY(Name::Parse("source", source));
        }
        call.strand = AllocationStrand(allocation);
        call.arguments =
            Arguments::Of(allocation, source_type, source, propagation);
        call.work = [spec](Service& service,
                           const CallContext& context) -> Result<T> {
          MOUNTD_ASSIGN(UniqueFd fd, service.OpenTree(context, spec));
          return std::make_shared<UniqueFd>(std::move(fd));
        };
        return call;
      },
      [](const T& tree) { return sdbus::UnixFd(tree->get()); });
}

void ManagerAdaptor::PrepareInbox(sdbus::Result<Dict>&& answer,
                                  std::string allocation, std::string task,
                                  Dict options) {
  Serve<std::string>(
      std::move(answer), "PrepareInbox",
      [&]() -> Result<Decoded<std::string>> {
        Decoded<std::string> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_TRY(Name::Parse("allocation", allocation));
        MOUNTD_TRY(Name::Parse("task", task));
        call.strand = AllocationStrand(allocation);
        call.arguments = Arguments::Of(allocation, task);
        call.work = [inbox = InboxRecord{allocation, task}](
                        Service& service, const CallContext& context) {
          return service.PrepareInbox(context, inbox);
        };
        return call;
      },
      [](const std::string& path) {
        constexpr auto kSlave = exec::Propagation::kHostToTask;
        return Dict{
            {"host_path", sdbus::Variant(ToBytes(path))},
            {"propagation",
             sdbus::Variant(std::string(PropagationName(kSlave)))},
            {"required_rootfs_propagation",
             sdbus::Variant(std::string(RequiredRootfsPropagation(kSlave)))}};
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
                        Service& service, const CallContext& context) {
          return service.RemoveInbox(context, inbox);
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
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const exec::UnmountMode mode, UnmountModeFrom(mode_name));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name task_name, Name::Parse("task", task));
        MOUNTD_ASSIGN(const Name mount_name, Name::Parse("name", name));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(allocation, task, name, mode_name);
        call.work = [id, task_name, mount_name, mode](
                        Service& service, const CallContext& context) {
          return service.Unmount(context, id, task_name, mount_name, mode);
        };
        return call;
      },
      NoConversion());
}

}  // namespace mountd::dbus
