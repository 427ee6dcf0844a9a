// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/directory_target.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <memory>
#include <optional>

#include "mountd/base/number.h"
#include "propagation/caller_directory.h"
#include "propagation/detach.h"
#include "propagation/inbox.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

// The facts of the mount written down at (task, name), if it is still attached.
Result<std::optional<MountFacts>> ReadMarker(const Context& context, int task,
                                             const std::string& name,
                                             const std::string& object) {
  MOUNTD_ASSIGN(
      const std::string text,
      Named(context.kernel.ReadLink(task, name), "readlinkat", object));
  const std::optional<std::uint64_t> id = ParseNumber<std::uint64_t>(text);
  if (!id) {
    return MakeError(Code::kInternal, "readlinkat", object,
                     "the mount's marker cannot be read");
  }
  Result<MountFacts> facts = context.inspector.Facts(*id);
  if (!facts && facts.error().code == Code::kNotFound) {
    return std::optional<MountFacts>();
  }
  if (!facts) {
    return facts.error();
  }
  return std::optional(*std::move(facts));
}

Result<void> RemoveMarker(const Context& context, int task,
                          const std::string& name, const std::string& object) {
  const exec::Sys<void> removed = context.kernel.RemoveFile(task, name);
  return exec::FailedWith(removed, ENOENT) ? Ok()
                                           : Named(removed, "unlinkat", object);
}

// The place in the inbox must be free, but for the marker of a mount that has
// gone.
Result<void> ClearPlace(const Context& context, int task,
                        const std::string& name, const std::string& object) {
  const exec::Sys<FileFacts> file = context.kernel.Stat(task, name);
  if (exec::FailedWith(file, ENOENT)) {
    return Ok();
  }
  if (!file) {
    return ErrnoError(file.error(), "statx", object);
  }
  if (S_ISLNK(file->mode)) {
    MOUNTD_ASSIGN(const std::optional<MountFacts> mount,
                  ReadMarker(context, task, name, object));
    if (!mount) {
      return RemoveMarker(context, task, name, object);
    }
  }
  return MakeError(Code::kAlreadyExists, "mount", object,
                   "another mount has the name");
}

struct Steps {
  UniqueFd task;
  CallerDirectory directory;
};

Result<void> WriteMarker(const Context& context,
                         const std::shared_ptr<Steps>& steps,
                         std::uint64_t mount_id, const std::string& name,
                         const std::string& object, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_TRY(
      Named(kernel.MakeLink(std::to_string(mount_id), steps->task.get(), name),
            "symlinkat", object));
  undo->Add([&kernel, steps, name] {
    IgnoreBecauseBestEffort(kernel.RemoveFile(steps->task.get(), name));
  });
  return Ok();
}

}  // namespace

Result<MountState> AttachToDirectory(const Context& context,
                                     const UniqueFd& allocation,
                                     const Source& source,
                                     const exec::AttachPlan& plan, int fd,
                                     const CloneSpec& spec, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  if (!S_ISDIR(source.file.mode)) {
    return MakeError(Code::kFailedPrecondition, "mount", spec.object,
                     "the source is not a directory");
  }
  const auto steps = std::make_shared<Steps>();
  const std::string name = Text(plan.target.name);
  MOUNTD_ASSIGN(steps->directory,
                OpenCallerDirectory(context, fd, plan.caller, spec.object));
  MOUNTD_ASSIGN(steps->task,
                EnsureTask(context, allocation, Text(plan.target.task),
                           spec.object, undo));
  MOUNTD_TRY(ClearPlace(context, steps->task.get(), name, spec.object));
  MOUNTD_ASSIGN(const UniqueFd clone, MakeClone(context, source, spec));
  MOUNTD_ASSIGN(const FileFacts file,
                Named(kernel.Stat(clone.get(), ""), "statx", spec.object));
  MOUNTD_TRY(
      WriteMarker(context, steps, file.mount_id, name, spec.object, undo));
  MOUNTD_TRY(Named(kernel.AttachTree(clone.get(), steps->directory.fd.get()),
                   "move_mount", spec.object));
  undo->Add([&kernel, steps, id = file.mount_id] {
    const CallerDirectory& at = steps->directory;
    const exec::Sys<FileFacts> top = kernel.Stat(at.parent.get(), at.name);
    if (top && top->mount_id == id) {
      IgnoreBecauseBestEffort(
          kernel.Unmount(at.parent.get(), at.name, MNT_DETACH));
    }
  });
  MOUNTD_TRY(SettlePropagation(context, source, clone, spec));
  return ReadBack(context, source, clone, steps->directory.file.mount_id, spec);
}

Result<MountState> InspectMarked(const Context& context, int task,
                                 const std::string& name,
                                 const std::string& object) {
  MOUNTD_ASSIGN(const std::optional<MountFacts> mount,
                ReadMarker(context, task, name, object));
  MountState state;
  state.exists = 1;
  if (mount) {
    state.is_directory = 1;
    state.mount_id = mount->id;
    state.peer_group = mount->peer_group;
    state.master = mount->master;
    state.device = mount->device;
  }
  return state;
}

Result<void> DetachMarked(const Context& context, int task,
                          const std::string& name, exec::UnmountMode mode,
                          const std::string& object) {
  constexpr int kFromRoot = -1;
  MOUNTD_ASSIGN(const std::optional<MountFacts> mount,
                ReadMarker(context, task, name, object));
  if (!mount) {
    return RemoveMarker(context, task, name, object);
  }
  // Where it is now, by the kernel: the caller may have moved what is above.
  const std::size_t slash = mount->point.rfind('/');
  if (slash == std::string::npos || slash + 1 == mount->point.size()) {
    return MakeError(Code::kBusy, "umount2", object, "it cannot be reached");
  }
  MOUNTD_ASSIGN(
      const UniqueFd parent,
      Named(context.kernel.Open(
                kFromRoot, slash == 0 ? "/" : mount->point.substr(0, slash),
                O_PATH | O_DIRECTORY,
                RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
            "openat2", object));
  const std::string last = mount->point.substr(slash + 1);
  MOUNTD_ASSIGN(
      const FileFacts top,
      Named(context.kernel.Stat(parent.get(), last), "statx", object));
  if (top.mount_id != mount->id) {
    return MakeError(Code::kBusy, "umount2", object,
                     "it is covered by another mount");
  }
  MOUNTD_TRY(UnmountTop(context, parent.get(), last, mount->id, mode, object));
  return RemoveMarker(context, task, name, object);
}

}  // namespace mountd::propagation
