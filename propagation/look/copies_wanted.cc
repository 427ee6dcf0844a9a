// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <optional>
#include <string_view>

#include "mountd/base/paths.h"
#include "propagation/ground/base.h"
#include "propagation/look/copies_search.h"
#include "propagation/plugin_directory.h"

namespace mountd::propagation {
namespace {

using exec::FileSystemPlan;
using exec::MountState;

bool IsWithin(const std::string& path, const std::string& top) {
  return top == "/" || paths::IsAtOrBelow(path, top);
}

// Returns whether mounts with these sources may be copies of each other. The
// device number alone does not tell, because the kernel reuses the number of a
// file system without a device (NFS, tmpfs) as soon as it is free. Compares
// only the part of an NFS source before ":/", because the path after that
// differs for a mount of a subdirectory and may change.
bool MayBeOf(const std::string& copy, const std::string& source) {
  const auto fixed_part = [](const std::string& text) {
    return std::string_view(text).substr(0, text.find(":/"));
  };
  return copy.empty() || source.empty() ||
         fixed_part(copy) == fixed_part(source);
}

}  // namespace

bool Wanted::Matches(const MountFacts& mount) const {
  return (mount.device == device && mount.type == type &&
          MayBeOf(mount.source, source) && IsWithin(mount.root, root)) ||
         (node != 0 && mount.device == node);
}

void CopySearch::Want(const MountFacts& mount, std::uint64_t node,
                      bool is_volume) {
  wanted_.push_back({mount.device, node, mount.type, mount.source, mount.root,
                     is_volume, false, false});
  devices_.insert(mount.device);
  if (node != 0) {
    devices_.insert(node);
  }
}

// Collects the plan's mounts. Skips a mount that is gone, because the search
// cannot recognise copies without its facts.
Result<void> CopySearch::WantMounts() {
  const std::string plugins = std::string(paths::kBase) + "/" + paths::kPlugins;
  for (std::uint32_t i = 0; i < plan_.count; ++i) {
    Result<MountFacts> mount = context_.inspector.Facts(plan_.mount_ids.at(i));
    if (!mount && mount.error().code == Code::kNotFound) {
      continue;
    }
    if (!mount) {
      return std::move(mount).error();
    }
    const bool is_volume = paths::IsAtOrBelow(mount->point, plugins);
    if (is_volume) {
      // <base>/p/<plugin>/publish/<allocation>/<key>
      const std::size_t key = mount->point.rfind('/');
      const std::size_t area = mount->point.find('/', plugins.size() + 1);
      plans_points_.insert(mount->point);
      plans_points_.insert(mount->point.substr(0, area + 1) + paths::kStaging +
                           mount->point.substr(key));
    }
    Want(*mount, 0, is_volume);
    plans_points_.insert(mount->point);
  }
  return Ok();
}

Result<std::optional<MountFacts>> CopySearch::MountedAt(
    exec::VolumeDirPlan plan, std::uint64_t* node) {
  const std::string plugin = std::string(paths::kBase) + "/" + paths::kPlugins +
                             "/" + Text(plan.plugin) + "/";
  plans_points_.insert(plugin +
                       (plan.area == exec::VolumeArea::kStaging
                            ? paths::kStaging + ("/" + Text(plan.volume))
                            : paths::kPublish + ("/" + Text(plan.allocation)) +
                                  "/" + Text(plan.volume)));
  const Result<MountState> there = InspectVolumeDir(context_, plan);
  if (!there) {
    return there.error();
  }
  *node = there->block_device;
  if (there->mount_id == 0) {
    return std::optional<MountFacts>();
  }
  MOUNTD_ASSIGN(MountFacts mount, context_.inspector.Facts(there->mount_id));
  return std::optional(std::move(mount));
}

// Describes a volume that has no mount: the plugin published a directory of the
// base itself, or made a device node there.
Result<std::optional<MountFacts>> CopySearch::Unmounted() {
  MOUNTD_ASSIGN(const MountState there,
                InspectVolumeDir(context_, plan_.volume));
  if (there.is_directory == 0 && there.block_device == 0) {
    return std::optional<MountFacts>();
  }
  MOUNTD_ASSIGN(const Base base, OpenBase(context_));
  MOUNTD_ASSIGN(MountFacts mount,
                context_.inspector.Facts(base.facts.mount_id));
  mount.root = (mount.root == "/" ? "" : mount.root) + "/" + paths::kPlugins +
               "/" + Text(plan_.volume.plugin) + "/" + paths::kPublish + "/" +
               Text(plan_.volume.allocation) + "/" + Text(plan_.volume.volume);
  return std::optional(std::move(mount));
}

// Describes the volume by the mount at its publish directory, else by the mount
// at its staging directory, else by the facts that mountd recorded before.
Result<void> CopySearch::WantVolume() {
  std::uint64_t node = 0;
  std::uint64_t none = 0;
  exec::VolumeDirPlan staging = plan_.volume;
  staging.area = exec::VolumeArea::kStaging;
  staging.allocation = {};
  MOUNTD_ASSIGN(std::optional<MountFacts> mount,
                MountedAt(plan_.volume, &node));
  MOUNTD_ASSIGN(std::optional<MountFacts> staged, MountedAt(staging, &none));
  if (!mount) {
    mount = std::move(staged);
  }
  if (!mount && plan_.before.device != 0) {
    mount.emplace();
    mount->device = plan_.before.device;
    mount->type = plan_.before.type.data();
    mount->source = plan_.before.source.data();
    mount->root = plan_.before.root.data();
  }
  if (!mount) {
    MOUNTD_ASSIGN(mount, Unmounted());
  }
  if (!mount) {
    return Ok();
  }
  FileSystemPlan& found = state_.found;
  found.device = mount->device;
  found.node = node != 0 ? node : plan_.before.node;
  std::copy_n(mount->type.begin(),
              std::min(mount->type.size(), found.type.size() - 1),
              found.type.begin());
  if (mount->source.size() < found.source.size()) {
    std::copy(mount->source.begin(), mount->source.end(), found.source.begin());
  }
  // Shorten a root that does not fit to a directory above it. The search then
  // takes more mounts for copies, never fewer.
  std::string root = mount->root;
  while (root.size() >= found.root.size()) {
    root.resize(std::max<std::size_t>(root.rfind('/'), 1));
  }
  std::copy(root.begin(), root.end(), found.root.begin());
  Want(*mount, found.node, /*is_volume=*/true);
  return Ok();
}

bool CopySearch::IsPlans(const MountFacts& mount) const {
  return plans_points_.contains(mount.point);
}

void CopySearch::FindShared() {
  const std::string allocations =
      std::string(paths::kBase) + "/" + paths::kAllocations;
  for (const MountFacts& mount : namespaces_->own().seen.mounts) {
    const bool is_bases = paths::IsAtOrBelow(mount.point, paths::kBase);
    for (Wanted& wanted : wanted_) {
      if (!wanted.Matches(mount) || IsPlans(mount)) {
        continue;
      }
      wanted.is_shared = wanted.is_shared || !wanted.is_volume || is_bases;
      if (!wanted.is_volume && !is_bases) {
        hosts_points_.insert(mount.point);
      }
      wanted.is_ambiguous =
          wanted.is_ambiguous ||
          (!wanted.is_volume && paths::IsAtOrBelow(mount.point, allocations));
    }
  }
}

}  // namespace mountd::propagation
