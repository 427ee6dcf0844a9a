// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/open_tree.h"

#include <sys/mount.h>

#include <utility>

#include "propagation/lock_tree.h"

namespace mountd::propagation {

Result<UniqueFd> OpenTree(const Context& context,
                          const exec::OpenTreePlan& plan,
                          exec::HandedOutMount* mount) {
  exec::AttachPlan attach;
  attach.target.allocation = plan.allocation;
  attach.source = plan.source;
  attach.propagation = plan.propagation;
  const CloneSpec spec{plan.propagation, plan.attributes,
                       Text(plan.allocation)};
  Source source;
  exec::Undo undo;  // never committed: no anchor is kept
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_TRY(OpenSource(context, base, attach, &source, &undo));
  MOUNTD_TRY(CheckSourcePropagation(source, plan.propagation, spec.object));
  if (source.read_only || (source.mount.attributes & MOUNT_ATTR_RDONLY) != 0) {
    return MakeError(
        Code::kFailedPrecondition, "open_tree", spec.object,
        "the source is read-only, and only writable mounts are handed out; use "
        "BindMount");
  }
  if (source.anchor_id != 0 &&
      plan.propagation == exec::Propagation::kHostToTask) {
    return MakeError(Code::kFailedPrecondition, "open_tree", spec.object,
                     "the source is a plain directory, so only propagation "
                     "private is possible");
  }
  MOUNTD_ASSIGN(Clone clone, MakeClone(context, source, spec, Depth::kTopOnly));
  MOUNTD_TRY(LockTree(context, spec.object, &clone.tree));
  MOUNTD_ASSIGN(*mount, IdentityOf(context, clone.tree, source.mount.device));
  return std::move(clone.tree);
}

Result<exec::HandedOutMount> IdentityOf(const Context& context,
                                        const UniqueFd& tree,
                                        std::uint64_t device) {
  exec::HandedOutMount mount;
  MOUNTD_ASSIGN(const exec::FileFacts file,
                exec::Named(context.kernel.Stat(tree.get(), ""), "statx", ""));
  if (!file.mount_id_is_unique) {
    return mount;
  }
  mount.mount_id = file.mount_id;
  mount.device = device;
  // Another process's mountinfo shows this id only, so the search for the
  // mount's holders compares it (look/holders.cc).
  MOUNTD_ASSIGN(
      mount.reusable_id,
      exec::Named(context.kernel.LinkedMountId(tree.get(), ""), "statx", ""));
  return mount;
}

}  // namespace mountd::propagation
