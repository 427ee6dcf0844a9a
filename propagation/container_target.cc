// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/container_target.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <array>
#include <memory>

#include "propagation/container.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/outside_inbox.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;

struct Attachment {
  Clone clone;
  std::string path;  // in the container
};

// FailedPrecondition if the mount `id` is shared, because mounts in it
// propagate to its peers and to their slaves, on the host or in any other
// namespace. The kernel offers no way to see all of them, so this function
// refuses a shared mount even if the container alone has it. A slave is fine:
// it only receives.
Result<void> CheckSendsNothing(const Context& context, std::uint64_t id,
                               const std::string& path) {
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(id));
  return mount.peer_group == 0
             ? Ok()
             : Result<void>(
                   MakeError(Code::kFailedPrecondition, "mount", path,
                             "the target is in a shared mount, whose peers "
                             "outside the container would get the new mount "
                             "too; make that mount private or a slave first"));
}

// Opens the target below the container's own root. Runs in the child.
Result<UniqueFd> OpenTarget(const Context& context, const ForeignRoots& roots,
                            const Source& source, const std::string& path) {
  // The container's processes can exchange every component of the path, so the
  // lookup follows no link and stays below the root.
  constexpr std::uint64_t kBelow =
      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  MOUNTD_ASSIGN(const UniqueFd root, OpenOwnRoot(context, roots, path));
  // Drop the leading slash, because RESOLVE_BENEATH refuses absolute paths with
  // EXDEV (openat2(2)).
  MOUNTD_ASSIGN(
      UniqueFd target,
      Named(context.kernel.Open(root.get(), path.substr(1), O_PATH, kBelow),
            "openat2", path));
  MOUNTD_ASSIGN(const FileFacts there,
                Named(context.kernel.Stat(target.get(), ""), "statx", path));
  return S_ISDIR(there.mode) == S_ISDIR(source.file.mode)
             ? Result<UniqueFd>(std::move(target))
             : MakeError(Code::kFailedPrecondition, "mount", path,
                         "the target and the source must both be directories "
                         "or both be files");
}

// Checks with the kernel that the mount propagated nowhere. If the mount that
// holds the path was shared at the time, the attached mount is now shared, too,
// or that holder still is.
Result<void> CheckWasNotSent(const Context& context, const Attachment& attached,
                             std::uint64_t holder, const CloneSpec& spec) {
  if (spec.propagation != exec::Propagation::kBidirectional) {
    MOUNTD_TRY(CheckSendsNothing(context, attached.clone.file.mount_id,
                                 attached.path));
  }
  return CheckSendsNothing(context, holder, attached.path);
}

// Attaches the clone, in the child. A failure after that undoes the mount and
// all copies that the kernel made of it right here, because the process by
// which the executor finds the container may have left it.
Result<MountState> AttachHere(const Context& context, const Source& source,
                              const ForeignRoots& roots,
                              const Attachment& attachment,
                              const CloneSpec& spec) {
  const std::string& path = attachment.path;
  MOUNTD_ASSIGN(const UniqueFd target,
                OpenTarget(context, roots, source, path));
  MOUNTD_ASSIGN(const FileFacts there,
                Named(context.kernel.Stat(target.get(), ""), "statx", path));
  MOUNTD_TRY(CheckSendsNothing(context, there.mount_id, path));
  MOUNTD_TRY(Named(
      context.kernel.AttachTree(attachment.clone.tree.get(), target.get()),
      "move_mount", path));
  exec::Undo undo;
  undo.Add([&] {
    // kDetach, because a process of the container may use the mount already.
    IgnoreBecauseBestEffort(
        UnmountById(context, {.mount_id = attachment.clone.file.mount_id},
                    exec::UnmountMode::kDetach, path));
  });
  MOUNTD_TRY(CheckWasNotSent(context, attachment, there.mount_id, spec));
  MOUNTD_TRY(CheckClone(context, attachment.clone.file.mount_id, spec));
  MOUNTD_ASSIGN(
      const MountState state,
      Settle(context, source, attachment.clone.tree, there.mount_id, spec));
  undo.Commit();
  return state;
}

}  // namespace

Result<MountState> AttachInContainer(const Context& context,
                                     const UniqueFd& allocation,
                                     const Source& source,
                                     const exec::AttachPlan& plan, int pidfd,
                                     const CloneSpec& spec, exec::Undo* undo) {
  MOUNTD_ASSIGN(const Container container,
                OpenContainer(context, pidfd, plan.container,
                              plan.source.kind == exec::SourceKind::kTmpfs));
  MOUNTD_ASSIGN(const std::shared_ptr<Place> place,
                ClaimPlace(context, allocation, plan.target, undo));
  Attachment attachment;
  attachment.path = plan.container.path.data();
  MOUNTD_ASSIGN(attachment.clone, MakeClone(context, source, spec));
  // No inode, because that of a file may change when an overlay copies the file
  // up, and no parent, because the container may move the mount.
  Placeholder placeholder = PlaceholderOf(source, attachment.clone);
  placeholder.mount_namespace = container.mount_namespace;
  placeholder.cgroup = plan.container.cgroup;
  // Write the mount down before attaching it, so that a later plan can find it.
  MOUNTD_TRY(WritePlaceholder(context, place, placeholder, undo));
  const std::array<int, 3> kept = {attachment.clone.tree.get(), source.fd.get(),
                                   source.made.get()};
  return InContainer(context, container, kept, spec.object,
                     [&](const Context& there) -> Result<MountState> {
                       MOUNTD_TRY(CheckStill(there, container));
                       return AttachHere(there, source, container.roots,
                                         attachment, spec);
                     });
}

}  // namespace mountd::propagation
