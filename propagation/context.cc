// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/context.h"

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
  return Named(context.kernel.Open(dir, path, O_PATH,
                                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                       RESOLVE_NO_MAGICLINKS),
               "openat2", object);
}

Result<UniqueFd> EnsureDirectory(const Context& context, int dir,
                                 const std::string& name, unsigned mode,
                                 std::uint32_t gid, const std::string& object,
                                 exec::Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  const exec::Sys<void> made = kernel.MakeDirectory(dir, name, mode);
  if (!made && made.error() != EEXIST) {
    return ErrnoError(made.error(), "mkdirat", object);
  }
  if (made) {
    undo->Add([&kernel, dir, name] {
      IgnoreBecauseBestEffort(kernel.RemoveDirectory(dir, name));
    });
  }
  MOUNTD_ASSIGN(UniqueFd fd, OpenBeneath(context, dir, name, object));
  if (made && gid != 0) {
    MOUNTD_TRY(Named(kernel.SetGroup(fd.get(), gid), "fchownat", object));
  }
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(fd.get(), ""), "statx", object));
  if (facts.mode != (S_IFDIR | mode) || facts.uid != 0 || facts.gid != gid) {
    return MakeError(Code::kFailedPrecondition, "mkdirat", object,
                     "a file of another type, owner or mode is there");
  }
  return fd;
}

MountState StateOf(const FileFacts& file, const MountFacts& mount) {
  MountState state;
  state.exists = 1;
  state.is_directory = S_ISDIR(file.mode) ? 1 : 0;
  if (file.mount_root) {
    state.mount_id = mount.id;
    state.peer_group = mount.peer_group;
    state.master = mount.master;
  }
  return state;
}

Result<MountState> StateOf(const Context& context, int dir,
                           const std::string& name, const std::string& object) {
  const exec::Sys<FileFacts> file = context.kernel.Stat(dir, name);
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
