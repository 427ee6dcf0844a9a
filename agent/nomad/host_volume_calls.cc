// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/host_volume_calls.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mountd::nomad {
namespace {

constexpr char kScope[] = "nomad-volumes";
constexpr char kTask[] = "nomad";
constexpr char kAlias[] = "volume";

bool IsMissing(const Error& error) { return error.code == Code::kNotFound; }

template <typename T>
Result<void> OkIfMissing(const Result<T>& result) {
  return result || IsMissing(result.error()) ? Ok()
                                             : Result<void>(result.error());
}

Result<void> CheckDetached(const agent::Receipt& receipt) {
  return receipt.node_detached && receipt.owed.empty()
             ? Ok()
             : Result<void>(MakeError(
                   Code::kUnavailable, "delete", "the volume",
                   "a process or the CSI plugin still has it; call again"));
}

}  // namespace

agent::VolumeUsage HostVolumeCalls::Usage() const {
  agent::VolumeUsage usage;
  usage.fs_type = request_.fs_type;
  return usage;
}

Result<CreatedVolume> HostVolumeCalls::FindDeclared() {
  MOUNTD_ASSIGN(const auto granted, client_.ListHostVolumes());
  const auto found =
      std::find_if(granted.begin(), granted.end(), [this](const auto& one) {
        return one.source.name == request_.host_volume;
      });
  if (found == granted.end()) {
    return MakeError(Code::kFailedPrecondition, "create",
                     "host volume " + request_.host_volume,
                     "mountd.toml has no such volume that a rule grants this "
                     "user");
  }
  return CreatedVolume{found->path, 0};
}

// Returns the CSI plugin's id of the volume, which is in the allocation, or
// after its release in the receipt.
Result<std::optional<std::string>> HostVolumeCalls::KnownVolume() {
  const auto allocation = client_.GetAllocation(allocation_);
  if (allocation) {
    return allocation->volumes.empty() ? std::optional<std::string>()
                                       : allocation->volumes.front().volume;
  }
  MOUNTD_TRY(OkIfMissing(allocation));
  const auto receipt = client_.GetReceipt(allocation_);
  MOUNTD_TRY(OkIfMissing(receipt));
  return receipt && !receipt->volumes.empty() ? receipt->volumes.front().volume
                                              : std::optional<std::string>();
}

Result<agent::PluginVolume> HostVolumeCalls::Expand(const std::string& volume) {
  agent::ControllerExpansionSpec spec;
  spec.plugin = request_.plugin;
  spec.volume = volume;
  spec.required_bytes = request_.least_bytes;
  spec.limit_bytes = request_.most_bytes;
  MOUNTD_ASSIGN(const agent::ControllerExpansion grown,
                client_.ControllerExpandVolume(spec));
  if (grown.node_expansion_required) {
    agent::VolumeExpansion expansion;
    expansion.required_bytes = request_.least_bytes;
    expansion.limit_bytes = request_.most_bytes;
    MOUNTD_TRY(client_.ExpandVolume(allocation_, kAlias, expansion));
  }
  agent::PluginVolume made;
  made.volume = volume;
  made.capacity_bytes = grown.capacity_bytes;
  return made;
}

Result<agent::PluginVolume> HostVolumeCalls::MakeVolume(Size size) {
  agent::VolumeCreation creation;
  creation.plugin = request_.plugin;
  creation.name = allocation_;
  if (size == Size::kAsked) {
    creation.required_bytes = request_.least_bytes;
    creation.limit_bytes = request_.most_bytes;
  }
  creation.usages = {Usage()};
  creation.parameters = request_.parameters;
  return client_.CreateVolume(creation);
}

Result<void> HostVolumeCalls::CheckSize(
    const agent::PluginVolume& volume) const {
  const std::int64_t bytes = volume.capacity_bytes;
  const bool fits =
      bytes == 0 ||
      (bytes >= request_.least_bytes &&
       (request_.most_bytes == 0 || bytes <= request_.most_bytes));
  return fits
             ? Ok()
             : Result<void>(MakeError(
                   Code::kFailedPrecondition, "create", "volume " + request_.id,
                   "the CSI plugin made it " + std::to_string(bytes) +
                       " bytes large, which is out of the range asked for"));
}

// Expands the volume, which has another size than asked for: of an expansion,
// now or before. Publishes first, because the publication is uncertain after a
// reboot, and the node expands what is published.
Result<agent::PluginVolume> HostVolumeCalls::MakeLarger() {
  // Any size is compatible with no bound, so the plugin returns the volume of
  // that name with its context.
  MOUNTD_ASSIGN(const agent::PluginVolume known, MakeVolume(Size::kAny));
  MOUNTD_TRY(Publish(known));
  MOUNTD_ASSIGN(agent::PluginVolume volume, Expand(known.volume));
  MOUNTD_TRY(CheckSize(volume));
  return volume;
}

Result<void> HostVolumeCalls::Publish(const agent::PluginVolume& volume) {
  // PrepareAllocation drops the receipt, which alone tells whether an earlier
  // volume of this id is detached.
  const auto receipt = client_.GetReceipt(allocation_);
  MOUNTD_TRY(receipt ? CheckDetached(*receipt) : OkIfMissing(receipt));
  agent::AllocationOptions options;
  options.scope = kScope;
  MOUNTD_TRY(client_.PrepareAllocation(allocation_, options));
  agent::VolumeSpec spec;
  spec.alias = kAlias;
  spec.volume = volume.volume;
  spec.plugin = request_.plugin;
  spec.usage = Usage();
  spec.volume_context = volume.volume_context;
  MOUNTD_TRY(client_.PublishVolume(allocation_, spec));
  return Mount();
}

Result<void> HostVolumeCalls::Mount() {
  MOUNTD_ASSIGN(const UniqueFd directory, place_.MakeMountPoint());
  agent::BindMountSpec mount;
  mount.task = kTask;
  mount.name = kAlias;
  mount.source = kAlias;
  mount.task_path = place_.mount_path();
  mount.directory = directory.get();
  MOUNTD_TRY(client_.BindMount(allocation_, mount));
  return Ok();
}

Result<CreatedVolume> HostVolumeCalls::Create() {
  if (!request_.host_volume.empty()) {
    return FindDeclared();
  }
  if (request_.uid && *request_.uid != ::geteuid()) {
    return MakeError(Code::kNotSupported, "create", "volume " + request_.id,
                     "the parameter uid must be the client's own user, " +
                         std::to_string(::geteuid()) +
                         "; a mode such as 1777 admits others");
  }
  Result<agent::PluginVolume> volume = MakeVolume(Size::kAsked);
  if (!volume && volume.error().code == Code::kAlreadyExists) {
    volume = MakeLarger();
  } else if (volume) {
    MOUNTD_TRY(CheckSize(*volume));
    MOUNTD_TRY(Publish(*volume));
  }
  MOUNTD_TRY(volume ? Ok() : Result<void>(volume.error()));
  MOUNTD_TRY(place_.MakeData(request_));
  return CreatedVolume{place_.data_path(), volume->capacity_bytes};
}

// A release that meets a user stays pending, and would take the volume from a
// client that keeps it. So this looks first.
Result<void> HostVolumeCalls::CheckUnused() {
  const auto found =
      client_.ListHolders(allocation_, kTask, kAlias, /*node=*/true);
  MOUNTD_TRY(OkIfMissing(found));
  if (!found || found->holders.empty()) {
    return Ok();
  }
  return MakeError(Code::kBusy, "delete", "volume " + request_.id,
                   "is used by process " +
                       std::to_string(found->holders.front().pid) +
                       "; end it, and call again");
}

Result<void> HostVolumeCalls::Release() {
  MOUNTD_TRY(CheckUnused());
  const auto receipt = client_.ReleaseAllocation(allocation_);
  return receipt ? CheckDetached(*receipt) : OkIfMissing(receipt);
}

Result<void> HostVolumeCalls::Delete() {
  if (!request_.host_volume.empty()) {
    return Ok();
  }
  if (!request_.created_path.empty() &&
      request_.created_path != place_.data_path()) {
    return MakeError(
        Code::kFailedPrecondition, "delete", "volume " + request_.id,
        "this plugin has made no volume at " + request_.created_path);
  }
  MOUNTD_ASSIGN(std::optional<std::string> volume, KnownVolume());
  MOUNTD_TRY(Release());
  if (!volume) {
    // A call that was killed before it published the volume. The plugin knows
    // the volume by its name, and makes one if there is none.
    MOUNTD_ASSIGN(const agent::PluginVolume made, MakeVolume(Size::kAsked));
    volume = made.volume;
  }
  MOUNTD_TRY(OkIfMissing(client_.DeleteVolume(request_.plugin, *volume)));
  return place_.Remove();
}

}  // namespace mountd::nomad
