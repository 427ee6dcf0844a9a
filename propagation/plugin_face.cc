// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/plugin_face.h"

#include <sys/mount.h>

#include <optional>

#include "mountd/base/paths.h"
#include "propagation/ground/base.h"
#include "propagation/residence.h"

namespace mountd::propagation {
namespace {

using exec::MountState;
using exec::Named;

constexpr char kBaseDir[] = "base";
// 0711: others may pass to a directory that they know, and list nothing.
constexpr unsigned kParentMode = 0711;
constexpr unsigned kFaceMode = 0700;

// Makes base/p as plain directories in the host's /run/mountd.
Result<UniqueFd> EnsureParent(const Context& context,
                              const std::string& object) {
  MOUNTD_ASSIGN(const UniqueFd run, OpenRunDirectory(context));
  exec::Undo undo;
  MOUNTD_ASSIGN(const UniqueFd base,
                EnsureDirectory(context, run.get(), kBaseDir, kParentMode,
                                object, &undo));
  MOUNTD_ASSIGN(UniqueFd plugins,
                EnsureDirectory(context, base.get(), paths::kPlugins,
                                kParentMode, object, &undo));
  undo.Commit();  // kept for all plugins
  return plugins;
}

Error ForeignFace(const std::string& name) {
  return MakeError(
      Code::kFailedPrecondition, "check", name,
      "another mount covers the plugin's directory on the host; unmount it");
}

Result<void> ShowHere(const Context& context, const std::string& name,
                      const UniqueFd& tree, std::uint64_t peer_group,
                      exec::Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const UniqueFd all, EnsureParent(context, name));
  MOUNTD_ASSIGN(const MountState now, StateOf(context, all.get(), name, name));
  if (now.mount_id != 0) {
    return now.peer_group == peer_group ? Ok()
                                        : Result<void>(ForeignFace(name));
  }
  exec::Undo here;
  MOUNTD_ASSIGN(const UniqueFd place, EnsureDirectory(context, all.get(), name,
                                                      kFaceMode, name, &here));
  MOUNTD_TRY(
      Named(kernel.AttachTree(tree.get(), place.get()), "move_mount", name));
  here.Commit();
  undo->Add([&context, name, peer_group] {
    MountFacts own;
    own.peer_group = peer_group;
    IgnoreBecauseBestEffort(HideFromHost(context, own, name));
  });
  return Ok();
}

Result<void> HideHere(const Context& context, std::uint64_t peer_group,
                      const std::string& name) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const UniqueFd all, EnsureParent(context, name));
  MOUNTD_ASSIGN(const MountState now, StateOf(context, all.get(), name, name));
  if (now.mount_id != 0) {
    if (now.peer_group != peer_group) {
      return ForeignFace(name);
    }
    MOUNTD_TRY(Named(kernel.Unmount(all.get(), name, 0), "umount2", name));
  }
  const exec::Sys<void> removed = kernel.RemoveDirectory(all.get(), name);
  return exec::FailedWith(removed, ENOENT) ? Ok()
                                           : Named(removed, "rmdir", name);
}

}  // namespace

Result<void> ShowOnHost(const Context& context, const std::string& name,
                        const UniqueFd& own, std::uint64_t peer_group,
                        exec::Undo* undo) {
  if (!IsApart(context)) {
    return Ok();
  }
  // Clone here, because open_tree(2) clones only mounts of the namespace that
  // the caller is in.
  MOUNTD_ASSIGN(
      const UniqueFd tree,
      Named(context.kernel.CloneTree(own.get(), true), "open_tree", name));
  MOUNTD_ASSIGN(const OnHost host, OnHost::Go(context));
  return ShowHere(context, name, tree, peer_group, undo);
}

Result<void> HideFromHost(const Context& context, const MountFacts& own,
                          const std::string& name) {
  if (!IsApart(context)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const OnHost host, OnHost::Go(context));
  return HideHere(context, own.peer_group, name);
}

}  // namespace mountd::propagation
