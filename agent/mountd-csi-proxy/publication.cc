// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/publication.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/mountd-csi-proxy/target.h"
#include "mountd/base/names.h"

namespace mountd::csi_proxy {
namespace {

using std::chrono::milliseconds;

constexpr char kScope[] = "csi-proxy";
constexpr char kTask[] = "csi";
constexpr char kMount[] = "target";

// Unpublish waits so long between its first tries, and so long in all.
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{2000};
constexpr milliseconds kAllPauses{30'000};

// True if the volume's state is known after the error, so that nothing of the
// call goes on.
bool IsFinal(const Error& error) {
  switch (error.code) {
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kInvalidArgument:
    case Code::kPermissionDenied:
    case Code::kFailedPrecondition:
    case Code::kNotSupported:
      return true;
    default:
      return false;
  }
}

bool Has(const agent::AllocationStatus& found, const std::string& plugin,
         const std::string& volume) {
  return std::any_of(found.volumes.begin(), found.volumes.end(),
                     [&](const agent::VolumeStatus& one) {
                       return one.plugin == plugin && one.volume == volume;
                     });
}

}  // namespace

// A VolumeKey is a hash of two texts that no other two texts share.
Publication::Publication(const std::string& plugin, std::string path,
                         bool reads_back)
    : plugin_(plugin),
      path_(std::move(path)),
      allocation_("csi-" + VolumeKey::Derive(plugin_, path_).str()),
      reads_back_(reads_back) {}

// PrepareAllocation drops the receipt of an earlier release. Then nobody could
// tell any more whether the plugin has detached the volume.
Result<void> Publication::CheckDetached(agent::Client& client) const {
  const auto receipt = client.GetReceipt(allocation_);
  if (!receipt) {
    return receipt.error().code == Code::kNotFound
               ? Ok()
               : Result<void>(receipt.error());
  }
  return CheckReceipt(*receipt);
}

Result<void> Publication::Make(agent::Client& client,
                               const agent::VolumeSpec& spec) const {
  MOUNTD_TRY(CheckDetached(client));
  MOUNTD_TRY(client.PrepareAllocation(allocation_, {.scope = kScope}));
  MOUNTD_TRY(client.PublishVolume(allocation_, spec));
  // Opened last, because the orchestrator may remove the directory meanwhile.
  MOUNTD_ASSIGN(const UniqueFd directory, OpenTarget(path_));
  agent::BindMountSpec mount;
  mount.task = kTask;
  mount.name = kMount;
  mount.source = spec.alias;
  mount.read_only = spec.usage.read_only;
  mount.task_path = path_;
  mount.directory = directory.get();
  const auto mounted = client.BindMount(allocation_, mount);
  if (!mounted) {
    Error error = mounted.error();
    if (error.code == Code::kNotFound) {
      error.code = Code::kAborted;  // somebody has released the allocation
    }
    return error;
  }
  return CheckMounted();
}

// To mountd the mount is the one that an earlier call made, wherever its
// directory is now.
Result<void> Publication::CheckMounted() const {
  if (!reads_back_) {
    return Ok();
  }
  MOUNTD_ASSIGN(const bool mounted, IsMountPoint(path_));
  return mounted ? Ok()
                 : Result<void>(MakeError(
                       Code::kFailedPrecondition, "publish", path_,
                       "the volume's mount is elsewhere, because the directory "
                       "was renamed; call NodeUnpublishVolume first"));
}

Result<void> Publication::Publish(agent::Client& client,
                                  agent::VolumeSpec& spec) const {
  spec.alias = kAlias;
  spec.plugin = plugin_;
  Result<void> made = Make(client, spec);
  if (!made && IsFinal(made.error())) {
    UndoUnlessMounted(client);
  }
  return made;
}

// Keeps a mount, because an earlier call made it and tasks may use it.
void Publication::UndoUnlessMounted(agent::Client& client) const {
  const auto found = client.GetAllocation(allocation_);
  if (found && found->mounts.empty()) {
    IgnoreBecauseBestEffort(client.ReleaseAllocation(allocation_));
    IgnoreBecauseBestEffort(RemoveTarget(path_));
  }
}

Result<void> Publication::Release(agent::Client& client) const {
  const auto receipt = client.ReleaseAllocation(allocation_);
  if (!receipt) {
    return receipt.error().code == Code::kNotFound
               ? Ok()
               : Result<void>(receipt.error());
  }
  return CheckReceipt(*receipt);
}

Result<void> Publication::CheckReceipt(const agent::Receipt& receipt) const {
  if (receipt.node_detached && receipt.owed.empty()) {
    return Ok();
  }
  return MakeError(Code::kUnavailable, "unpublish", path_,
                   receipt.owed.empty()
                       ? "a process still has a copy of the volume's mount"
                       : "the plugin has not detached the volume yet");
}

Result<void> Publication::Unpublish(agent::Client& client,
                                    const std::string& volume,
                                    const RpcTime& time) const {
  const auto found = client.GetAllocation(allocation_);
  if (!found && found.error().code != Code::kNotFound) {
    return found.error();
  }
  if (found && !found->volumes.empty() && !Has(*found, plugin_, volume)) {
    return MakeError(Code::kFailedPrecondition, "unpublish", path_,
                     "another volume is published there");
  }
  milliseconds waited{0};
  milliseconds pause = kFirstPause;
  for (;;) {
    Result<void> released = Release(client);
    if (released) {
      return RemoveTarget(path_);
    }
    const Code code = released.error().code;
    if ((code != Code::kBusy && code != Code::kUnavailable) ||
        waited >= kAllPauses || !time.Pause(pause)) {
      return released;
    }
    waited += pause;
    pause = std::min(2 * pause, kLongestPause);
  }
}

Result<void> Publication::CheckPublished(agent::Client& client,
                                         const std::string& volume) const {
  const auto found = client.GetAllocation(allocation_);
  if (!found && found.error().code != Code::kNotFound) {
    return found.error();
  }
  return found && Has(*found, plugin_, volume)
             ? Ok()
             : Result<void>(MakeError(Code::kNotFound, "look up", "volume",
                                      "is not published at this path"));
}

}  // namespace mountd::csi_proxy
