// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/context.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

namespace mountd::propagation {

using exec::FileFacts;
using exec::MountState;
using exec::Named;

Result<UniqueFd> OpenBeneath(const Context& context, int dir,
                             const std::string& path,
                             const std::string& object) {
  // O_PATH opens neither a device nor a FIFO (open(2)), so the open has no
  // effect on the file. A user may have put a link on the way, and openat2(2)
  // then fails instead of leaving `dir`.
  return Named(context.kernel.Open(dir, path, O_PATH,
                                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                       RESOLVE_NO_MAGICLINKS),
               "openat2", object);
}

Result<UniqueFd> MakeAndOpenDirectory(const Context& context, int dir,
                                      const std::string& name, unsigned mode,
                                      const std::string& object,
                                      exec::Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  const exec::Sys<void> made = kernel.MakeDirectory(dir, name, mode);
  // EEXIST: an earlier plan may have made it. Only a directory that this plan
  // has made is undone.
  if (!made && made.error() != EEXIST) {
    return ErrnoError(made.error(), "mkdirat", object);
  }
  if (made) {
    undo->Add([&kernel, dir, name] {
      IgnoreBecauseBestEffort(kernel.RemoveDirectory(dir, name));
    });
  }
  return OpenBeneath(context, dir, name, object);
}

Result<UniqueFd> EnsureDirectory(const Context& context, int dir,
                                 const std::string& name, unsigned mode,
                                 const std::string& object, exec::Undo* undo) {
  MOUNTD_ASSIGN(UniqueFd fd,
                MakeAndOpenDirectory(context, dir, name, mode, object, undo));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(fd.get(), ""), "statx", object));
  // The executor's umask is 0, so mkdirat(2) has set exactly this mode.
  if (facts.mode != (S_IFDIR | mode) || facts.uid != 0 || facts.gid != 0) {
    return MakeError(
        Code::kFailedPrecondition, "mkdirat", object,
        "a file of another type, owner or mode has this name; remove it");
  }
  return fd;
}

Result<void> TakeBack(const Context& context, int fd,
                      const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  constexpr unsigned kMode = S_IFDIR | 0700;
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(fd, ""), "statx", object));
  if (facts.uid != 0 || facts.gid != 0) {
    MOUNTD_TRY(Named(kernel.SetOwner(fd, 0, 0), "fchownat", object));
  }
  // Change the owner first: without CAP_FOWNER only the owner may change the
  // mode.
  return facts.mode == kMode
             ? Ok()
             : Named(kernel.SetMode(fd, kMode & 07777U), "chmod", object);
}

Result<void> TakeBack(const Context& context, int dir, const std::string& name,
                      std::uint64_t mount_id, const std::string& object) {
  const Result<UniqueFd> fd = OpenBeneath(context, dir, name, object);
  if (!fd) {
    return fd.error().sys_errno == ENOENT ? Ok() : Result<void>(fd.error());
  }
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(fd->get(), ""), "statx", object));
  return S_ISDIR(facts.mode) && facts.mount_id == mount_id
             ? TakeBack(context, fd->get(), object)
             : Ok();
}

MountState StateOf(const FileFacts& file, const MountFacts& mount) {
  MountState state;
  state.exists = 1;
  state.is_directory = S_ISDIR(file.mode) ? 1 : 0;
  state.block_device = S_ISBLK(file.mode) ? file.node : 0;
  if (file.mount_root) {
    state.mount_id = mount.id;
    state.peer_group = mount.peer_group;
    state.master = mount.master;
    state.device = mount.device;
  }
  return state;
}

Result<FileOnMount> LookAt(const Context& context, int dir,
                           const std::string& name, const std::string& object) {
  FileOnMount there;
  MOUNTD_ASSIGN(there.file,
                Named(context.kernel.Stat(dir, name), "statx", object));
  MOUNTD_ASSIGN(there.mount, context.inspector.Facts(there.file.mount_id));
  return there;
}

Result<MountState> StateOf(const Context& context, int dir,
                           const std::string& name, const std::string& object) {
  const exec::Sys<FileFacts> file = context.kernel.Stat(dir, name);
  // Nothing can be mounted at a name that does not exist.
  if (exec::FailedWith(file, ENOENT)) {
    return MountState{};
  }
  if (!file) {
    return ErrnoError(file.error(), "statx", object);
  }
  MountFacts mount;
  if (file->mount_root) {
    MOUNTD_ASSIGN(mount, context.inspector.Facts(file->mount_id));
  }
  return StateOf(*file, mount);
}

}  // namespace mountd::propagation
