// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mount.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mountd/base/paths.h"
#include "mountd/plan/plugin_plans.h"
#include "propagation/plugin_directory.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;
using exec::VolumeArea;
using exec::VolumeDirPlan;

constexpr unsigned kVolumeMode = 0700;

std::string ObjectOf(const VolumeDirPlan& plan) {
  return Text(plan.plugin) + "/" + Text(plan.volume);
}

// Opens staging/ or publish/ of the plugin's own mount.
Result<UniqueFd> OpenArea(const Context& context, const VolumeDirPlan& plan) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd plugin, OpenPlugin(context, base, plan.plugin));
  return OpenBeneath(
      context, plugin.get(),
      plan.area == VolumeArea::kStaging ? paths::kStaging : paths::kPublish,
      ObjectOf(plan));
}

// Makes the staging directory unless something is there. A volume staged there
// is the root of the plugin's mount or this very directory, with an owner and
// mode that the plugin chose, so this function does not check them. staging/
// itself is closed to others.
Result<void> EnsureStaging(const Context& context, int area,
                           const VolumeDirPlan& plan, Undo* undo) {
  const std::string object = ObjectOf(plan);
  MOUNTD_ASSIGN(const MountState now,
                StateOf(context, area, Text(plan.volume), object));
  if (now.mount_id == 0 && now.is_directory == 0) {
    MOUNTD_TRY(EnsureDirectory(context, area, Text(plan.volume), kVolumeMode,
                               object, undo));
  }
  return Ok();
}

Result<UniqueFd> EnsurePublish(const Context& context, int area,
                               const VolumeDirPlan& plan, Undo* undo) {
  const std::string object = ObjectOf(plan);
  const std::string name = Text(plan.allocation);
  MOUNTD_ASSIGN(const FileFacts above,
                Named(context.kernel.Stat(area, ""), "statx", object));
  MOUNTD_TRY(TakeBack(context, area, name, above.mount_id, object));
  return EnsureDirectory(context, area, name, kVolumeMode, object, undo);
}

bool IsMissing(const Error& error) { return error.sys_errno == ENOENT; }

}  // namespace

Result<void> PrepareVolumeDir(const Context& context, const VolumeDirPlan& plan,
                              const exec::Tell<MountState>& tell) {
  const std::string object = ObjectOf(plan);
  MOUNTD_ASSIGN(const UniqueFd area, OpenArea(context, plan));
  const bool staging = plan.area == VolumeArea::kStaging;
  Undo undo;
  UniqueFd parent;  // of publish/<allocation>/<volume>
  if (staging) {
    MOUNTD_TRY(EnsureStaging(context, area.get(), plan, &undo));
  } else {
    MOUNTD_ASSIGN(parent, EnsurePublish(context, area.get(), plan, &undo));
  }
  MOUNTD_ASSIGN(const MountState state,
                StateOf(context, staging ? area.get() : parent.get(),
                        Text(plan.volume), object));
  MOUNTD_TRY(tell(state));
  undo.Commit();
  return Ok();
}

Result<MountState> InspectVolumeDir(const Context& context,
                                    const VolumeDirPlan& plan) {
  const std::string object = ObjectOf(plan);
  Result<UniqueFd> parent = OpenArea(context, plan);
  if (parent && plan.area == VolumeArea::kPublish) {
    parent = OpenBeneath(context, parent->get(), Text(plan.allocation), object);
  }
  if (!parent) {
    return IsMissing(parent.error()) ? Result<MountState>(MountState{})
                                     : parent.error();
  }
  return StateOf(context, parent->get(), Text(plan.volume), object);
}

namespace {

// Detaches all mounts at the place, because a plugin that was killed may have
// left one mount on another.
Result<void> DetachAll(const Context& context, int dir, const std::string& name,
                       const std::string& object) {
  constexpr int kMost = 64;
  MOUNTD_ASSIGN(MountState now, StateOf(context, dir, name, object));
  for (int left = kMost; now.mount_id != 0 && left > 0; --left) {
    MOUNTD_TRY(Named(context.kernel.Unmount(dir, name, MNT_DETACH), "umount2",
                     object));
    MOUNTD_ASSIGN(now, StateOf(context, dir, name, object));
  }
  return now.mount_id == 0
             ? Ok()
             : Result<void>(MakeError(
                   Code::kBusy, "umount2", object,
                   "too many mounts are stacked there; unmount them first"));
}

Result<void> RemoveVolumeEntry(const Context& context, int dir,
                               const std::string& name,
                               const std::string& object) {
  exec::Sys<void> removed = context.kernel.RemoveDirectory(dir, name);
  // A plugin may have put a file or a device node there.
  if (exec::FailedWith(removed, ENOTDIR)) {
    removed = context.kernel.RemoveFile(dir, name);
  }
  return removed || removed.error() == ENOENT
             ? Ok()
             : Result<void>(ErrnoError(removed.error(), "unlinkat", object));
}

// Detaches mounts that a plugin made beside its given paths, because nobody
// uses or removes those. Does so only if no volume is published there any more,
// only in a directory of mountd's own mount, and only for mounts: files belong
// to the plugin.
Result<void> DetachStrays(const Context& context, int area, int parent,
                          const std::string& object) {
  MOUNTD_ASSIGN(const FileFacts own,
                Named(context.kernel.Stat(area, ""), "statx", object));
  MOUNTD_ASSIGN(const FileFacts there,
                Named(context.kernel.Stat(parent, ""), "statx", object));
  constexpr std::size_t kMost = 256;
  const exec::Sys<std::vector<std::string>> names =
      own.mount_id == there.mount_id ? context.kernel.List(parent, kMost)
                                     : std::vector<std::string>();
  if (!names || names->size() >= kMost ||
      std::any_of(names->begin(), names->end(), [](const std::string& name) {
        return VolumeKey::Parse(name).has_value();
      })) {
    return Ok();
  }
  for (const std::string& name : *names) {
    MOUNTD_ASSIGN(const MountState stray,
                  StateOf(context, parent, name, object));
    if (stray.mount_id != 0) {
      MOUNTD_TRY(DetachAll(context, parent, name, object));
      IgnoreBecauseBestEffort(context.kernel.RemoveDirectory(parent, name));
    }
  }
  return Ok();
}

}  // namespace

Result<void> RemoveVolumeDir(const Context& context,
                             const VolumeDirPlan& plan) {
  const std::string object = ObjectOf(plan);
  const Result<UniqueFd> area = OpenArea(context, plan);
  if (!area) {
    return IsMissing(area.error()) ? Ok() : Result<void>(area.error());
  }
  if (plan.area == VolumeArea::kStaging) {
    return RemoveVolumeEntry(context, area->get(), Text(plan.volume), object);
  }
  const Result<UniqueFd> parent =
      OpenBeneath(context, area->get(), Text(plan.allocation), object);
  if (!parent) {
    return IsMissing(parent.error()) ? Ok() : Result<void>(parent.error());
  }
  const bool detach = plan.detach != 0;
  if (detach) {
    MOUNTD_TRY(DetachAll(context, parent->get(), Text(plan.volume), object));
  }
  const Result<void> removed =
      RemoveVolumeEntry(context, parent->get(), Text(plan.volume), object);
  // The files in a bare directory belong to the plugin, so leave them.
  if (!removed && !(detach && removed.error().sys_errno == ENOTEMPTY)) {
    return removed;
  }
  // The volume's own directory is gone; strays must not fail the release.
  IgnoreBecauseBestEffort(
      DetachStrays(context, area->get(), parent->get(), object));
  const Result<void> emptied =
      RemoveVolumeEntry(context, area->get(), Text(plan.allocation), object);
  const bool others_left = !emptied && emptied.error().sys_errno == ENOTEMPTY;
  return others_left ? Ok() : emptied;
}

}  // namespace mountd::propagation
