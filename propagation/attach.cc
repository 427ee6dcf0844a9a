// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/attach.h"

#include <sys/mount.h>

#include <cerrno>
#include <utility>

#include "propagation/clone.h"
#include "propagation/container_target.h"
#include "propagation/directory_source.h"
#include "propagation/directory_target.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/replace_mount.h"
#include "propagation/target.h"

namespace mountd::propagation {
namespace {

using exec::AttachPlan;
using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

// Holds what one plan's steps need, opened and checked.
struct Way {
  Base base;
  UniqueFd allocation;
  Source source;
  Target target;
  CloneSpec spec;
};

// Answers with the mount at the target if the plan asks for this mount.
// AlreadyExists if another mount is there, or if the plan maps ids, because the
// kernel does not report which map a mount has.
Result<MountState> Adopt(const Context& context, const Way& way) {
  if (way.spec.ids.count != 0) {
    return MakeError(Code::kAlreadyExists, "mount", way.spec.object,
                     "a mount is already at the target");
  }
  Result<MountState> state = ReadBack(context, way.source, way.target.point,
                                      way.base.facts.mount_id, way.spec);
  if (!state && state.error().code == Code::kFailedPrecondition) {
    return MakeError(Code::kAlreadyExists, "mount", way.spec.object,
                     state.error().detail);
  }
  return state;
}

Result<MountState> AttachClone(const Context& context, const Way& way,
                               Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const Clone made, MakeClone(context, way.source, way.spec));
  MOUNTD_TRY(Named(kernel.AttachTree(made.tree.get(), way.target.point.get()),
                   "move_mount", way.spec.object));
  undo->Add([&kernel, &target = way.target, clone = made.file] {
    // If mountd gave this plan up, it may have detached this mount and attached
    // another one here. So unmount only a mount that is surely this plan's.
    // Before Linux 6.8 the other mount may have the same id, so compare device
    // and inode, too: those differ as long as this executor holds its own
    // source (LetGo).
    const exec::Sys<FileFacts> top =
        kernel.Stat(target.task.get(), target.name);
    if (top && top->mount_id == clone.mount_id && top->device == clone.device &&
        top->inode == clone.inode) {
      // MNT_DETACH, because the mount has propagated to the task, whose
      // processes may use it already.
      IgnoreBecauseBestEffort(
          kernel.Unmount(target.task.get(), target.name, MNT_DETACH));
    }
  });
  // Check after the attach, because the owner can move its directory at any
  // moment before it.
  MOUNTD_TRY(CheckStillCallers(context, way.source, way.spec.object));
  // Check only now, because the kernel lists no mounts below a detached clone.
  MOUNTD_TRY(CheckClone(context, made.file.mount_id, way.spec));
  return Settle(context, way.source, made.tree, way.base.facts.mount_id,
                way.spec);
}

Result<MountState> AttachToInbox(const Context& context, const AttachPlan& plan,
                                 Way* way, Undo* undo) {
  MOUNTD_TRY(MakeTarget(context, way->allocation, plan.target, way->source,
                        &way->target, undo));
  if (plan.replaces == 0) {
    return way->target.mounted ? Adopt(context, *way)
                               : AttachClone(context, *way, undo);
  }
  if (!way->target.mounted) {
    return MakeError(
        Code::kNotFound, "mount", way->spec.object,
        "the mount to replace is not there; mount it without replace");
  }
  return Swap(context, way->base, way->source, &way->target, way->spec,
              plan.replaces, undo);
}

Result<MountState> AttachToTarget(const Context& context,
                                  const AttachPlan& plan, int fd, Way* way,
                                  Undo* undo) {
  switch (plan.target_kind) {
    case exec::TargetKind::kDirectory:
      return AttachToDirectory(context, way->allocation, way->source, plan, fd,
                               way->spec, undo);
    case exec::TargetKind::kContainer:
      return AttachInContainer(context, way->allocation, way->source, plan, fd,
                               way->spec, undo);
    case exec::TargetKind::kInbox:
      break;
  }
  return AttachToInbox(context, plan, way, undo);
}

// Closes the source before the answer. mountd may send a plan that unmounts the
// source as soon as it has the answer, before this process runs again; an open
// descriptor would make that unmount fail with EBUSY. Where mount ids are not
// unique (before Linux 6.8), keeps a clone until the plan ends, so that no
// other file system gets this one's device number meanwhile. A mount that was
// made for this plan may be in a container's namespace, in which the kernel
// clones nothing for this process (EINVAL). The container alone can end it.
Result<void> LetGo(const Context& context, const std::string& object,
                   Source* source) {
  UniqueFd& held = source->made.valid() ? source->made : source->fd;
  UniqueFd other;
  if (!source->file.mount_id_is_unique) {
    exec::Sys<UniqueFd> clone = context.kernel.CloneTree(held.get(), false);
    if (clone) {
      other = std::move(clone).value();
    } else if (!source->made.valid() || !exec::FailedWith(clone, EINVAL)) {
      return ErrnoError(clone.error(), "open_tree", object);
    }
  }
  held = std::move(other);
  return Ok();
}

}  // namespace

Result<void> Attach(const Context& context, const AttachPlan& plan, int fd,
                    const exec::Tell<MountState>& tell) {
  Way way;
  Undo undo;
  way.spec = {plan.propagation, plan.attributes, ObjectOf(plan.target),
              plan.ids};
  // Check this before opening the source, because opening a source unmounts a
  // dead file system and mounts it again.
  if (plan.replaces != 0 && !context.kernel.CanMountBeneath()) {
    return MakeError(Code::kNotSupported, "move_mount", way.spec.object,
                     "the kernel is older than 6.5 and cannot replace a mount; "
                     "unmount it first");
  }
  MOUNTD_ASSIGN(way.base, OpenBase(context));
  MOUNTD_ASSIGN(way.allocation,
                OpenAllocation(context, way.base, plan.target.allocation));
  MOUNTD_TRY(plan.source.kind == exec::SourceKind::kDirectory
                 ? OpenDirectorySource(context, way.base, plan, fd, &way.source)
                 : OpenSource(context, way.base, plan, &way.source, &undo));
  MOUNTD_TRY(
      CheckSourcePropagation(way.source, plan.propagation, way.spec.object));
  const Result<MountState> attached =
      AttachToTarget(context, plan, fd, &way, &undo);
  if (!attached) {
    if (context.checked != nullptr) {
      // The next plan must look at all mounts below this source again.
      context.checked->Failed(way.source.file);
    }
    return attached.error();
  }
  MOUNTD_TRY(LetGo(context, way.spec.object, &way.source));
  // Tell before the commit. If mountd no longer takes the answer, it has no
  // record of this mount, so the undo has to remove the mount.
  MOUNTD_TRY(tell(*attached));
  undo.Commit();
  return Ok();
}

}  // namespace mountd::propagation
