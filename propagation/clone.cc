// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/clone.h"

#include <sys/mount.h>

#include "mountd/plan/attributes.h"
#include "mountd/plan/plan_ids.h"
#include "propagation/idmap.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/nothing_below.h"

namespace mountd::propagation {
namespace {

using exec::MountChange;
using exec::MountState;
using exec::Named;
using exec::Propagation;

// A clone of a shared mount begins in that mount's peer group
// (mount_namespaces(7)). MS_PRIVATE takes the clone out of the group. With
// MS_SLAVE the clone still receives the group's mounts, and sends none. With
// MS_SHARED it receives and sends.
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

MountChange ChangeFor(const CloneSpec& spec, bool read_only) {
  const std::uint32_t asked =
      spec.attributes | (read_only ? exec::kReadOnly : 0U);
  MountChange change;
  for (const exec::AttributeRow& row : exec::kAttributes) {
    if (Has(asked, row)) {
      change.set |= row.flag;
      change.clear |= row.clear;
    }
  }
  change.propagation = PropagationFlag(spec.propagation);
  return change;
}

// Returns an empty text if the mount propagates as asked (mount_namespaces(7)).
std::string PropagationMismatch(const MountFacts& mount,
                                const MountFacts& source, Propagation asked) {
  switch (asked) {
    case Propagation::kPrivate:
      return mount.peer_group == 0 && mount.master == 0
                 ? ""
                 : "the mount is not private";
    case Propagation::kHostToTask:
      // A clone of a mount that is a slave has the same master.
      return mount.peer_group == 0 && mount.master != 0 &&
                     (mount.master == source.peer_group ||
                      mount.master == source.master)
                 ? ""
                 : "the mount is not a slave of the source's peer group";
    case Propagation::kBidirectional:
      return mount.peer_group != 0 && mount.peer_group == source.peer_group
                 ? ""
                 : "the mount is not in the source's peer group";
  }
  return "the mount's propagation is unknown";
}

// Returns whether the mount's ids are mapped as asked. A clone without a map of
// its own has the source's map.
bool AreIdsMapped(const MountFacts& mount, const MountFacts& source,
                  const exec::IdMapPlan& ids) {
  const bool wanted =
      ids.count != 0 || (source.attributes & MOUNT_ATTR_IDMAP) != 0;
  return ((mount.attributes & MOUNT_ATTR_IDMAP) != 0) == wanted;
}

// Makes the mount a slave of the source. A mount that is attached below the
// base joins a peer group with its copies in other mount namespaces, and
// MS_SLAVE then makes it a slave of one of these copies. The mounts below it
// stay slaves of their copies, through which they follow the source's mounts.
Result<void> FollowSource(const Context& context, const Source& source,
                          const UniqueFd& tree, const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  // MOVE_MOUNT_SET_GROUP changes only a private mount (move_mount(2)).
  MOUNTD_TRY(
      Named(kernel.SetMount(tree.get(), false, {.propagation = MS_PRIVATE}),
            "mount_setattr", object));
  // MOVE_MOUNT_SET_GROUP takes the group from a mount's root only. If the
  // source is a directory inside a mount, a clone of that directory has the
  // same group.
  UniqueFd clone;
  if (!source.file.mount_root) {
    MOUNTD_ASSIGN(clone, Named(kernel.CloneTree(source.fd.get(), false),
                               "open_tree", object));
  }
  const UniqueFd& peer = clone.valid() ? clone : source.fd;
  MOUNTD_TRY(
      Named(kernel.JoinGroup(peer.get(), tree.get()), "move_mount", object));
  // JoinGroup has put the mount into the source's group. MS_SLAVE keeps the
  // mount from sending, so that the source does not receive the task's mounts.
  return Named(kernel.SetMount(tree.get(), false, {.propagation = MS_SLAVE}),
               "mount_setattr", object);
}

// Returns the mount's state. FailedPrecondition if the mount is not what `spec`
// asks for; the error says what it is instead.
Result<MountState> Judge(const Source& source, const FileOnMount& there,
                         std::uint64_t parent_id, const CloneSpec& spec) {
  const auto& [file, mount] = there;
  const MountChange wanted = ChangeFor(spec, source.read_only);
  std::string why = PropagationMismatch(mount, source.mount, spec.propagation);
  if (file.device != source.file.device || file.inode != source.file.inode) {
    why = "another source is mounted at the target";
  } else if (mount.parent_id != parent_id) {
    why = "the mount is stacked on another mount";
  } else if ((mount.attributes & wanted.set) != wanted.set) {
    // Stronger attributes are no mismatch, because a clone keeps its source's.
    why = "the mount's attributes are weaker than requested";
  } else if (!AreIdsMapped(mount, source.mount, spec.ids)) {
    why = "the mount's ids are mapped differently than requested";
  }
  if (!why.empty()) {
    return MakeError(Code::kFailedPrecondition, "mount", spec.object,
                     "read back: " + why);
  }
  MountState state = StateOf(file, mount);
  state.source_peer_group = source.mount.peer_group;
  state.anchor_id = source.anchor_id;
  return state;
}

// Returns a clone of the source, or the mount that was made for this plan.
// Nobody else uses that mount, so it needs no clone.
Result<UniqueFd> TreeOf(const Context& context, const Source& source,
                        bool recursive, const std::string& object) {
  return source.made.valid()
             ? OpenBeneath(context, source.made.get(), ".", object)
             : Named(context.kernel.CloneTree(source.fd.get(), recursive),
                     "open_tree", object);
}

}  // namespace

Result<Clone> MakeClone(const Context& context, const Source& source,
                        const CloneSpec& spec, Depth depth) {
  exec::Kernel& kernel = context.kernel;
  // Root's files show as the caller's in the volume alone, and a caller's
  // directory gives the task nothing of another file system.
  const bool alone = exec::ShowsRoot(spec.ids) || source.owner.has_value();
  if (alone) {
    MOUNTD_TRY(CheckNothingBelow(context, source, spec.object));
  }
  const bool recursive = depth == Depth::kWholeTree && !alone;
  if (recursive) {
    MOUNTD_TRY(CheckBelow(context, source, spec.object));
  }
  Clone clone;
  MOUNTD_ASSIGN(clone.tree, TreeOf(context, source, recursive, spec.object));
  // Set the flags on the detached tree, before anybody can see it.
  MOUNTD_TRY(Named(kernel.SetMount(clone.tree.get(), recursive,
                                   ChangeFor(spec, source.read_only)),
                   "mount_setattr", spec.object));
  // Map the ids before the attach, because mount_setattr(2) maps only a
  // detached mount that no mount namespace has shown yet.
  MOUNTD_TRY(MapIds(context, source, clone.tree, spec.ids, spec.object));
  MOUNTD_ASSIGN(clone.file,
                Named(kernel.Stat(clone.tree.get(), ""), "statx", spec.object));
  if (recursive && context.checked != nullptr && !source.made.valid() &&
      spec.propagation != Propagation::kBidirectional) {
    // Record the source as checked. Attach withdraws this if the plan fails, in
    // CheckClone or later (attach.cc).
    context.checked->Checked(source.file, clone.file.mount_id);
  }
  return clone;
}

Result<MountState> Settle(const Context& context, const Source& source,
                          const UniqueFd& mount, std::uint64_t parent_id,
                          const CloneSpec& spec) {
  MOUNTD_TRY(Named(context.kernel.SetMount(
                       mount.get(), true,
                       {.propagation = PropagationFlag(spec.propagation)}),
                   "mount_setattr", spec.object));
  MOUNTD_ASSIGN(FileOnMount there,
                LookAt(context, mount.get(), "", spec.object));
  if (spec.propagation == Propagation::kHostToTask &&
      !PropagationMismatch(there.mount, source.mount, spec.propagation)
           .empty()) {
    MOUNTD_TRY(FollowSource(context, source, mount, spec.object));
    MOUNTD_ASSIGN(there, LookAt(context, mount.get(), "", spec.object));
  }
  return Judge(source, there, parent_id, spec);
}

Result<MountState> ReadBack(const Context& context, const Source& source,
                            const UniqueFd& mount, std::uint64_t parent_id,
                            const CloneSpec& spec) {
  MOUNTD_ASSIGN(const FileOnMount there,
                LookAt(context, mount.get(), "", spec.object));
  return Judge(source, there, parent_id, spec);
}

}  // namespace mountd::propagation
