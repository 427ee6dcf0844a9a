// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <tuple>

#include "dbus/manager_serve.h"
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

// `reader` has the options, still to be finished.
Result<BindMountSpec> SpecFrom(const MountArguments& arguments,
                               OptionReader& reader) {
  BindMountSpec spec;
  spec.task_path = reader.Get<std::string>("task_path", "");
  spec.attributes = reader.Get("noexec", false) ? exec::kNoExec : 0U;
  spec.attributes |= reader.Get("noatime", false) ? exec::kNoAtime : 0U;
  spec.attributes |= arguments.read_only ? exec::kReadOnly : 0U;
  spec.ids = IdsFrom(reader);
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
  return arguments.Add(spec.task_path).text();
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

void ManagerAdaptor::Unmount(sdbus::Result<>&& answer, std::string allocation,
                             std::string task, std::string name, Dict options) {
  Serve<void>(
      std::move(answer), "Unmount",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_ASSIGN(const Name task_name, Name::Parse("task", task));
        MOUNTD_ASSIGN(const Name mount_name, Name::Parse("name", name));
        call.strand = AllocationStrand(id.str());
        call.arguments = Arguments::Of(allocation, task, name);
        call.work = [id, task_name, mount_name](Service& service,
                                                const CallContext& context) {
          return service.Unmount(context, id, task_name, mount_name);
        };
        return call;
      },
      NoConversion());
}

}  // namespace mountd::dbus
