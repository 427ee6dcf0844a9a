// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/plugin_directory.h"

#include <sys/mount.h>

#include "mountd/base/paths.h"
#include "propagation/files/tree_removal.h"
#include "propagation/plugin_face.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::PluginPlan;
using exec::Undo;

// No user may reach a plugin's socket or put another in its place
// (SECURITY.md).
constexpr unsigned kPluginMode = 0700;

// Returns whether `mount` is the self-bind that PreparePlugin makes.
bool IsOwnMount(const Base& base, const MountFacts& mount,
                const std::string& plugin) {
  return mount.parent_id == base.facts.mount_id &&
         mount.device == base.facts.device &&
         mount.root == "/" + std::string(paths::kPlugins) + "/" + plugin;
}

Error ForeignOnPlugin(const std::string& plugin) {
  return MakeError(Code::kFailedPrecondition, "check", plugin,
                   "another mount covers the plugin's directory; unmount it");
}

// Says what keeps the mount in use, because umount2(2) answers only EBUSY.
Error InUse(const Context& context, const MountFacts& own,
            const std::string& plugin) {
  const Result<std::vector<MountFacts>> beneath =
      context.inspector.Children(own.id);
  return ErrnoError(EBUSY, "umount2", plugin,
                    beneath && !beneath->empty()
                        ? beneath->front().point +
                              " is mounted below it; unmount that one first"
                        : "a process of the plugin still uses it, for example "
                          "by its socket; end that process");
}

// Busy if the plugin's mount covers another mount, because that mount would
// stop the removal half way.
Result<void> CheckNothingCovered(const Context& context, const Base& base,
                                 const MountFacts& own,
                                 const std::string& plugin) {
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                context.inspector.Children(base.facts.mount_id));
  for (const MountFacts& mount : mounts) {
    if (mount.point.starts_with(own.point + "/")) {
      return MakeError(
          Code::kBusy, "remove", plugin,
          "a mount is below the plugin's directory; unmount it first");
    }
  }
  return Ok();
}

Result<void> MountSelf(const Context& context, int all, int directory,
                       const std::string& name, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const UniqueFd tree,
                Named(kernel.CloneTree(directory, false), "open_tree", name));
  // Private, so that the clone leaves the base's peer group.
  MOUNTD_TRY(Named(kernel.SetMount(tree.get(), false,
                                   {.set = MOUNT_ATTR_NOSUID |
                                           MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                                    .propagation = MS_PRIVATE}),
                   "mount_setattr", name));
  MOUNTD_TRY(
      Named(kernel.AttachTree(tree.get(), directory), "move_mount", name));
  undo->Add([&kernel, all, name] {
    IgnoreBecauseBestEffort(kernel.Unmount(all, name, MNT_DETACH));
  });
  return Ok();
}

// Shares the mounted directory and makes its parts. Completes what an
// interrupted plan left, too. `own` outlives `undo`.
Result<MountState> FinishPlugin(const Context& context, const Base& base,
                                const std::string& name, const UniqueFd& own,
                                Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const FileFacts file,
                Named(kernel.Stat(own.get(), ""), "statx", name));
  MOUNTD_ASSIGN(MountFacts mount, context.inspector.Facts(file.mount_id));
  if (!file.mount_root || !IsOwnMount(base, mount, name)) {
    return ForeignOnPlugin(name);
  }
  // Share the mount, even if an interrupted try has left it private.
  if (mount.peer_group == 0) {
    MOUNTD_TRY(
        Named(kernel.SetMount(own.get(), false, {.propagation = MS_SHARED}),
              "mount_setattr", name));
    MOUNTD_ASSIGN(mount, context.inspector.Facts(file.mount_id));
  }
  MOUNTD_ASSIGN(const MountFacts above,
                context.inspector.Facts(base.facts.mount_id));
  if (mount.peer_group == 0 || mount.peer_group == above.peer_group ||
      mount.master != 0) {
    return ForeignOnPlugin(name);
  }
  // The plugin is root in its task and may have changed owners and modes.
  MOUNTD_TRY(TakeBack(context, own.get(), name));
  for (const char* part : {paths::kStaging, paths::kPublish}) {
    MOUNTD_TRY(TakeBack(context, own.get(), part, file.mount_id, name));
    MOUNTD_TRY(
        EnsureDirectory(context, own.get(), part, kPluginMode, name, undo));
  }
  return StateOf(file, mount);
}

}  // namespace

Result<void> PreparePlugin(const Context& context, const PluginPlan& plan,
                           const exec::Tell<MountState>& tell) {
  const std::string name = Text(plan.plugin);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd all,
                LockPart(context, base, paths::kPlugins, name));
  UniqueFd own;
  Undo undo;
  MOUNTD_ASSIGN(const MountState now, StateOf(context, all.get(), name, name));
  if (now.mount_id == 0) {
    MOUNTD_TRY(TakeBack(context, all.get(), name, base.facts.mount_id, name));
    MOUNTD_ASSIGN(
        const UniqueFd directory,
        EnsureDirectory(context, all.get(), name, kPluginMode, name, &undo));
    // The undo also removes files that the plugin or another process has put
    // there by then.
    if (now.exists == 0) {
      undo.Add([&context, &all, &base, name] {
        IgnoreBecauseBestEffort(
            EmptyDirectory(context, all.get(), name, base.facts.mount_id));
      });
    }
    MOUNTD_TRY(MountSelf(context, all.get(), directory.get(), name, &undo));
  }
  MOUNTD_ASSIGN(own, OpenBeneath(context, all.get(), name, name));
  MOUNTD_ASSIGN(const MountState state,
                FinishPlugin(context, base, name, own, &undo));
  MOUNTD_TRY(ShowOnHost(context, name, own, state.peer_group, &undo));
  MOUNTD_TRY(tell(state));
  undo.Commit();
  return Ok();
}

Result<void> RemovePlugin(const Context& context, const PluginPlan& plan) {
  const std::string name = Text(plan.plugin);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd all,
                LockPart(context, base, paths::kPlugins, name));
  MOUNTD_ASSIGN(const MountState now, StateOf(context, all.get(), name, name));
  if (now.exists == 0) {
    return Ok();
  }
  if (now.mount_id != 0) {
    MOUNTD_ASSIGN(const MountFacts mount,
                  context.inspector.Facts(now.mount_id));
    if (!IsOwnMount(base, mount, name)) {
      return ForeignOnPlugin(name);
    }
    MOUNTD_TRY(CheckNothingCovered(context, base, mount, name));
    // Unmount on the host first, because that fails while a process there uses
    // the mount, and then nothing has changed.
    MOUNTD_TRY(HideFromHost(context, mount, name));
    const exec::Sys<void> unmounted =
        // Plain, not lazy: EBUSY is the sign that the plugin still uses the
        // directory.
        context.kernel.Unmount(all.get(), name, 0);
    if (exec::FailedWith(unmounted, EBUSY)) {
      return InUse(context, mount, name);
    }
    MOUNTD_TRY(Named(unmounted, "umount2", name));
  }
  MOUNTD_TRY(EmptyDirectory(context, all.get(), name, base.facts.mount_id));
  return Named(context.kernel.RemoveDirectory(all.get(), name), "rmdir", name);
}

Result<UniqueFd> OpenPlugin(const Context& context, const Base& base,
                            const exec::WireName& plugin) {
  const std::string name = Text(plugin);
  MOUNTD_ASSIGN(UniqueFd fd,
                OpenBeneath(context, base.fd.get(),
                            std::string(paths::kPlugins) + "/" + name, name));
  MOUNTD_ASSIGN(const FileFacts file,
                Named(context.kernel.Stat(fd.get(), ""), "statx", name));
  // The plugin's mount is a bind of the base's directory on itself, so it has
  // the base's device.
  if (!file.mount_root || file.device != base.facts.device || file.uid != 0) {
    return MakeError(
        Code::kFailedPrecondition, "check", name,
        "the plugin's directory does not exist; register the plugin again");
  }
  return fd;
}

}  // namespace mountd::propagation
