// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/source.h"

#include <sys/stat.h>

#include <algorithm>

#include "mountd/base/paths.h"
#include "mountd/plan/plan_ids.h"
#include "propagation/anchor.h"
#include "propagation/filesystem.h"
#include "propagation/ground/host_path.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/plugin_directory.h"
#include "propagation/residence.h"
#include "propagation/root_as_caller.h"
#include "propagation/tmpfs.h"

namespace mountd::propagation {
namespace {

using exec::AttachPlan;
using exec::Named;
using exec::Propagation;

Error Refused(const std::string& object, std::string why) {
  return MakeError(Code::kFailedPrecondition, "open source", object,
                   std::move(why));
}

// Checks the opened source itself, whatever path led there.
Result<void> CheckSource(const Context& context, const std::string& object,
                         Source* source) {
  // A device node would be useless to the task, because every mount is nodev.
  if (!S_ISDIR(source->file.mode) && !S_ISREG(source->file.mode)) {
    return Refused(object, "must be a directory or a regular file");
  }
  MOUNTD_ASSIGN(source->mount, context.inspector.Facts(source->file.mount_id));
  if (IsKernelFilesystem(source->mount.type)) {
    return Refused(
        object, "is on a file system of the kernel, which mountd never mounts");
  }
  return Ok();
}

Result<void> OpenHostVolume(const Context& context, const Base& base,
                            const AttachPlan& plan, Source* source,
                            exec::Undo* undo) {
  const std::string name = Text(plan.source.host_volume);
  const auto declared = context.config.host_volumes.find(name);
  if (declared == context.config.host_volumes.end()) {
    return MakeError(Code::kNotFound, "open source", name,
                     "is not declared in mountd.toml");
  }
  const HostVolumeConfig& volume = declared->second;
  if (std::find(volume.propagation.begin(), volume.propagation.end(),
                plan.propagation) == volume.propagation.end()) {
    return MakeError(Code::kPermissionDenied, "open source", name,
                     "is not declared with this propagation; use another or "
                     "add it in mountd.toml");
  }
  if (IsApart(context) && plan.propagation == Propagation::kBidirectional) {
    return MakeError(Code::kNotSupported, "open source", name,
                     "bidirectional cannot reach the host from mountd's own "
                     "mount namespace; set [mounts] namespace = \"host\"");
  }
  source->read_only = volume.read_only;
  MOUNTD_ASSIGN(HostPath path, OpenHostPath(context, volume.path, name));
  source->parent = std::move(path.parent);
  MOUNTD_ASSIGN(source->fd,
                OpenBeneath(context, source->parent.get(), path.name, name));
  MOUNTD_ASSIGN(source->file, Named(context.kernel.Stat(source->fd.get(), ""),
                                    "statx", name));
  if (source->file.device == base.facts.device) {
    return Refused(name, "is inside mountd's own directories");
  }
  MOUNTD_TRY(CheckSource(context, name, source));
  MOUNTD_TRY(CheckAsOnHost(context, volume.path, source->file, name));
  if (exec::ShowsRoot(plan.ids)) {
    MOUNTD_TRY(CheckRootsHostVolume(context, *source, name));
  }
  return AnchorHostVolume(context, base, name, volume.path, path.name, source,
                          undo);
}

Result<void> OpenPublishedVolume(const Context& context, const Base& base,
                                 const AttachPlan& plan, Source* source) {
  const std::string object = Text(plan.source.plugin) + "/" +
                             Text(plan.target.allocation) + "/" +
                             Text(plan.source.volume);
  MOUNTD_ASSIGN(const UniqueFd plugin,
                OpenPlugin(context, base, plan.source.plugin));
  const std::string path = std::string(paths::kPublish) + "/" +
                           Text(plan.target.allocation) + "/" +
                           Text(plan.source.volume);
  MOUNTD_ASSIGN(source->fd, OpenBeneath(context, plugin.get(), path, object));
  MOUNTD_ASSIGN(source->file, Named(context.kernel.Stat(source->fd.get(), ""),
                                    "statx", object));
  return CheckSource(context, object, source);
}

Result<void> MakeTmpfsSource(const Context& context, const AttachPlan& plan,
                             Source* source) {
  const std::string object = "tmpfs";
  MOUNTD_ASSIGN(source->made, MakeTmpfs(context, plan.source.tmpfs, object));
  MOUNTD_ASSIGN(source->file, Named(context.kernel.Stat(source->made.get(), ""),
                                    "statx", object));
  return Ok();
}

}  // namespace

Result<void> OpenSource(const Context& context, const Base& base,
                        const AttachPlan& plan, Source* source,
                        exec::Undo* undo) {
  switch (plan.source.kind) {
    case exec::SourceKind::kHostVolume:
      return OpenHostVolume(context, base, plan, source, undo);
    case exec::SourceKind::kTmpfs:
      return MakeTmpfsSource(context, plan, source);
    case exec::SourceKind::kFilesystem:
      MOUNTD_TRY(OpenFilesystem(context, base, plan, source, undo));
      return CheckSource(context, Text(plan.source.filesystem), source);
    case exec::SourceKind::kDirectory:
      return MakeError(Code::kInvalidArgument, "open source", "directory",
                       "needs a descriptor");
    case exec::SourceKind::kPublishedVolume:
      break;
  }
  return OpenPublishedVolume(context, base, plan, source);
}

Result<void> CheckSourcePropagation(const Source& source, Propagation asked,
                                    const std::string& object) {
  if (asked == Propagation::kPrivate || source.mount.peer_group != 0) {
    return Ok();
  }
  if (source.mount.master != 0 && asked == Propagation::kHostToTask) {
    return Ok();
  }
  return Refused(object, source.mount.master != 0
                             ? "the source's mount is a slave, but must be "
                               "shared; run mount --make-shared"
                             : "the source's mount is private, but must be "
                               "shared; run mount --make-shared");
}

Result<std::string> PathOfSource(const Context& context, const Source& source,
                                 const std::string& object) {
  if (source.file.mount_root) {
    return source.mount.point;
  }
  // Only the kernel knows the path.
  return Named(
      context.kernel.ReadLink(
          exec::kFromRoot, "/proc/self/fd/" + std::to_string(source.fd.get())),
      "readlink", object);
}

}  // namespace mountd::propagation
