// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/attach.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include "propagation/source.h"

namespace mountd::propagation {
namespace {

using exec::AttachPlan;
using exec::FileFacts;
using exec::MountChange;
using exec::MountState;
using exec::Named;
using exec::Propagation;
using exec::Undo;

constexpr unsigned kTaskMode = 0710;

struct Target {
  UniqueFd task;   // its directory's parent
  UniqueFd point;  // O_PATH of the mountpoint; of the mount if `mounted`
  std::string name;
  bool mounted = false;
};

std::string ObjectOf(const exec::TargetPlan& plan) {
  return Text(plan.allocation) + "/" + Text(plan.task) + "/" + Text(plan.name);
}

std::uint64_t PropagationFlag(Propagation asked) {
  switch (asked) {
    case Propagation::kHostToTask:
      return MS_SLAVE;
    case Propagation::kBidirectional:
      return MS_SHARED;
    case Propagation::kPrivate:
      break;
  }
  return MS_PRIVATE;
}

MountChange ChangeFor(const AttachPlan& plan, bool read_only) {
  MountChange change;
  change.set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  if (read_only || (plan.attributes & exec::kReadOnly) != 0) {
    change.set |= MOUNT_ATTR_RDONLY;
  }
  if ((plan.attributes & exec::kNoExec) != 0) {
    change.set |= MOUNT_ATTR_NOEXEC;
  }
  if ((plan.attributes & exec::kNoAtime) != 0) {
    change.set |= MOUNT_ATTR_NOATIME;
    change.clear |= MOUNT_ATTR__ATIME;
  }
  change.propagation = PropagationFlag(plan.propagation);
  return change;
}

// The directory or file to mount on, made if missing.
Result<void> MakeTarget(const Context& context, const UniqueFd& allocation,
                        const AttachPlan& plan, const Source& source,
                        Target* target, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  const std::string object = ObjectOf(plan.target);
  MOUNTD_ASSIGN(const FileFacts above,
                Named(kernel.Stat(allocation.get(), ""), "statx", object));
  MOUNTD_ASSIGN(target->task, EnsureDirectory(context, allocation.get(),
                                              Text(plan.target.task), kTaskMode,
                                              above.gid, object, undo));
  target->name = Text(plan.target.name);
  const bool directory = S_ISDIR(source.file.mode);
  const exec::Sys<void> made =
      directory ? kernel.MakeDirectory(target->task.get(), target->name, 0700)
                : kernel.MakeFile(target->task.get(), target->name, 0600);
  if (!made && made.error() != EEXIST) {
    return ErrnoError(made.error(), directory ? "mkdirat" : "openat", object);
  }
  if (made) {
    undo->Add([&kernel, target, directory] {
      IgnoreBecauseBestEffort(
          directory ? kernel.RemoveDirectory(target->task.get(), target->name)
                    : kernel.RemoveFile(target->task.get(), target->name));
    });
  }
  MOUNTD_ASSIGN(target->point,
                OpenBeneath(context, target->task.get(), target->name, object));
  MOUNTD_ASSIGN(const FileFacts there,
                Named(kernel.Stat(target->point.get(), ""), "statx", object));
  target->mounted = there.mount_root;
  if (!there.mount_root && S_ISDIR(there.mode) != directory) {
    return MakeError(Code::kAlreadyExists, "mount", object,
                     "the mountpoint is of another type");
  }
  return Ok();
}

// Empty if the mount really behaves as asked (mount_namespaces(7)).
std::string PropagationMismatch(const MountFacts& mount,
                                const MountFacts& source, Propagation asked) {
  switch (asked) {
    case Propagation::kPrivate:
      return mount.peer_group == 0 && mount.master == 0 ? "" : "not private";
    case Propagation::kHostToTask:
      return mount.peer_group == 0 && mount.master != 0 &&
                     (mount.master == source.peer_group ||
                      mount.master == source.master)
                 ? ""
                 : "not a slave of the source's peer group";
    case Propagation::kBidirectional:
      return mount.peer_group != 0 && mount.peer_group == source.peer_group
                 ? ""
                 : "not in the source's peer group";
  }
  return "unknown propagation";
}

// What is at the target now, if it is just what the plan asks for.
Result<MountState> ReadBack(const Context& context, const Base& base,
                            const AttachPlan& plan, const Source& source,
                            const UniqueFd& mount_fd) {
  const std::string object = ObjectOf(plan.target);
  MOUNTD_ASSIGN(
      const FileFacts file,
      Named(context.kernel.Stat(mount_fd.get(), ""), "statx", object));
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(file.mount_id));
  const MountChange wanted = ChangeFor(plan, source.read_only);
  std::string why = PropagationMismatch(mount, source.mount, plan.propagation);
  if (file.device != source.file.device || file.inode != source.file.inode) {
    why = "another source is mounted there";
  } else if (mount.parent_id != base.facts.mount_id) {
    why = "it is stacked on another mount";
  } else if ((mount.attributes & wanted.set) != wanted.set) {
    why = "its attributes are weaker than asked";
  }
  if (!why.empty()) {
    return MakeError(Code::kFailedPrecondition, "mount", object,
                     "read back: " + why);
  }
  MountState state = StateOf(file, mount);
  state.source_peer_group = source.mount.peer_group;
  state.anchor_id = source.anchor_id;
  return state;
}

// A mount attached below the base joins a peer group with its copies in other
// mount namespaces, and MS_SLAVE then makes it a slave of one of these. Here it
// becomes a slave of the source itself, as it was asked for.
Result<void> FollowSource(const Context& context, const Source& source,
                          const UniqueFd& tree, const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const FileFacts file,
                Named(kernel.Stat(tree.get(), ""), "statx", object));
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(file.mount_id));
  if (PropagationMismatch(mount, source.mount, Propagation::kHostToTask)
          .empty()) {
    return Ok();
  }
  MOUNTD_TRY(
      Named(kernel.SetMount(tree.get(), false, {.propagation = MS_PRIVATE}),
            "mount_setattr", object));
  MOUNTD_TRY(Named(kernel.JoinGroup(source.fd.get(), tree.get()), "move_mount",
                   object));
  return Named(kernel.SetMount(tree.get(), false, {.propagation = MS_SLAVE}),
               "mount_setattr", object);
}

Result<MountState> AttachClone(const Context& context, const Base& base,
                               const AttachPlan& plan, const Source& source,
                               const Target& target, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  const std::string object = ObjectOf(plan.target);
  MOUNTD_ASSIGN(
      const UniqueFd tree,
      Named(kernel.CloneTree(source.fd.get(), true), "open_tree", object));
  const MountChange change = ChangeFor(plan, source.read_only);
  MOUNTD_TRY(Named(kernel.SetMount(tree.get(), true, change), "mount_setattr",
                   object));
  MOUNTD_ASSIGN(const FileFacts clone,
                Named(kernel.Stat(tree.get(), ""), "statx", object));
  MOUNTD_TRY(Named(kernel.AttachTree(tree.get(), target.point.get()),
                   "move_mount", object));
  undo->Add([&kernel, &target, id = clone.mount_id] {
    // If mountd gave this plan up it may have detached the mount already, and
    // attached another.
    const exec::Sys<FileFacts> top =
        kernel.Stat(target.task.get(), target.name);
    if (top && top->mount_id == id) {
      IgnoreBecauseBestEffort(
          kernel.Unmount(target.task.get(), target.name, MNT_DETACH));
    }
  });
  // Attaching below a shared parent has made the whole tree shared again.
  MOUNTD_TRY(Named(
      kernel.SetMount(tree.get(), true, {.propagation = change.propagation}),
      "mount_setattr", object));
  if (plan.propagation == Propagation::kHostToTask) {
    MOUNTD_TRY(FollowSource(context, source, tree, object));
  }
  return ReadBack(context, base, plan, source, tree);
}

}  // namespace

Result<void> Attach(const Context& context, const AttachPlan& plan,
                    const exec::Tell<MountState>& tell) {
  const std::string object = ObjectOf(plan.target);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd allocation,
                OpenAllocation(context, base, plan.target.allocation));
  Source source;
  Target target;
  Undo undo;
  MOUNTD_TRY(OpenSource(context, base, plan, &source, &undo));
  MOUNTD_TRY(CheckSourcePropagation(source, plan.propagation, object));
  MOUNTD_TRY(MakeTarget(context, allocation, plan, source, &target, &undo));
  Result<MountState> state =
      target.mounted ? ReadBack(context, base, plan, source, target.point)
                     : AttachClone(context, base, plan, source, target, &undo);
  if (target.mounted && !state &&
      state.error().code == Code::kFailedPrecondition) {
    return MakeError(Code::kAlreadyExists, "mount", object,
                     state.error().detail);
  }
  if (!state) {
    return std::move(state).error();
  }
  MOUNTD_TRY(tell(*state));
  undo.Commit();
  return Ok();
}

Result<MountState> InspectTarget(const Context& context,
                                 const exec::TargetPlan& plan) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  const Result<UniqueFd> allocation =
      OpenAllocation(context, base, plan.allocation);
  if (!allocation && allocation.error().sys_errno != ENOENT) {
    return allocation.error();
  }
  if (!allocation) {
    return MountState{};
  }
  const Result<UniqueFd> task =
      OpenBeneath(context, allocation->get(), Text(plan.task), ObjectOf(plan));
  if (!task) {
    return task.error().sys_errno == ENOENT ? Result<MountState>(MountState{})
                                            : task.error();
  }
  return StateOf(context, task->get(), Text(plan.name), ObjectOf(plan));
}

}  // namespace mountd::propagation
