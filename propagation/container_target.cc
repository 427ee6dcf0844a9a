// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/container_target.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <array>
#include <memory>

#include "propagation/container.h"
#include "propagation/outside_inbox.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;

// In the container, where `clone` is not attached yet. If it fails half way,
// the placeholder's undoing takes it away again.
Result<MountState> AttachHere(const Context& context, const Source& source,
                              const UniqueFd& clone, const std::string& path,
                              const CloneSpec& spec) {
  constexpr std::uint64_t kNoLinks =
      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  MOUNTD_ASSIGN(
      const UniqueFd target,
      Named(context.kernel.Open(exec::kFromRoot, path, O_PATH, kNoLinks),
            "openat2", path));
  MOUNTD_ASSIGN(const FileFacts there,
                Named(context.kernel.Stat(target.get(), ""), "statx", path));
  if (S_ISDIR(there.mode) != S_ISDIR(source.file.mode)) {
    return MakeError(Code::kFailedPrecondition, "mount", path,
                     "what is there is of another type than the source");
  }
  MOUNTD_TRY(Named(context.kernel.AttachTree(clone.get(), target.get()),
                   "move_mount", path));
  return Settle(context, source, clone, there.mount_id, spec);
}

}  // namespace

Result<MountState> AttachInContainer(const Context& context,
                                     const UniqueFd& allocation,
                                     const Source& source,
                                     const exec::AttachPlan& plan, int pidfd,
                                     const CloneSpec& spec, exec::Undo* undo) {
  MOUNTD_ASSIGN(const Container container,
                OpenContainer(context, pidfd, plan.container.cgroup));
  MOUNTD_ASSIGN(const std::shared_ptr<Place> place,
                ClaimPlace(context, allocation, plan.target, undo));
  MOUNTD_ASSIGN(const UniqueFd clone, MakeClone(context, source, spec));
  MOUNTD_ASSIGN(
      const FileFacts file,
      Named(context.kernel.Stat(clone.get(), ""), "statx", spec.object));
  MOUNTD_TRY(WritePlaceholder(
      context, place,
      {file.mount_id, container.mount_namespace, plan.container.cgroup}, undo));
  const std::array<int, 3> kept = {clone.get(), source.fd.get(),
                                   source.made.get()};
  return InContainer(context, container, kept, spec.object,
                     [&](const Context& there) -> Result<MountState> {
                       MOUNTD_TRY(CheckStill(there, container));
                       return AttachHere(there, source, clone,
                                         plan.container.path.data(), spec);
                     });
}

}  // namespace mountd::propagation
