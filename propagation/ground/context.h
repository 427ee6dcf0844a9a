// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config/config.h"
#include "mountd/kernel/kernel.h"
#include "mountd/plan/mount_plans.h"
#include "propagation/ground/mount_inspector.h"

// Mount trees: base, inboxes, sources, targets. All functions run in the
// executor's only thread and take plans whose fields the executor has checked
// (exec/invariants.h). Between plans they keep state in the kernel only. Each
// one carries out its whole plan or undoes what it did.
namespace mountd::propagation {

class CheckedSources;  // propagation/kernel_filesystems.h
class IdMaps;          // propagation/idmap.h
class Residence;       // propagation/residence.h

struct Context {
  exec::Kernel& kernel;
  const MountInspector& inspector;
  const Config& config;
  IdMaps& id_maps;                    // kept from plan to plan
  Residence* residence = nullptr;     // kept, too; nullptr: the host's
  CheckedSources* checked = nullptr;  // kept, too; nullptr: none is known
};

using exec::Text;

inline std::string Text(const std::array<char, VolumeKey::kHexDigits>& key) {
  return {key.data(), key.size()};
}

// Opens `path` below `dir` as O_PATH. Follows no link and no ".."; crosses
// mounts.
Result<UniqueFd> OpenBeneath(const Context& context, int dir,
                             const std::string& path,
                             const std::string& object);

// Makes the directory `name` in `dir` if it is missing, and opens it; `undo`
// removes a directory that this function made. `dir` must outlive `undo`.
// FailedPrecondition if `name` exists and is not a directory of root's with
// exactly this mode.
Result<UniqueFd> EnsureDirectory(const Context& context, int dir,
                                 const std::string& name, unsigned mode,
                                 const std::string& object, exec::Undo* undo);

// Makes and opens the directory like EnsureDirectory, without the check.
Result<UniqueFd> MakeAndOpenDirectory(const Context& context, int dir,
                                      const std::string& name, unsigned mode,
                                      const std::string& object,
                                      exec::Undo* undo);

// Makes root the owner of the directory `fd`, and lets nobody else pass (0700).
Result<void> TakeBack(const Context& context, int fd,
                      const std::string& object);

// Makes the directory `name` in the mount `mount_id` root's again in this way,
// because a plugin may have changed its owner. A missing directory is success.
// A directory of another mount stays unchanged, because its files are not
// mountd's.
Result<void> TakeBack(const Context& context, int dir, const std::string& name,
                      std::uint64_t mount_id, const std::string& object);

// The kernel's facts on (dir, name) and on the mount it lies in.
struct FileOnMount {
  exec::FileFacts file;
  MountFacts mount;
};
Result<FileOnMount> LookAt(const Context& context, int dir,
                           const std::string& name, const std::string& object);

// Returns the state of (dir, name): a mount, a directory or file, or nothing.
Result<exec::MountState> StateOf(const Context& context, int dir,
                                 const std::string& name,
                                 const std::string& object);
exec::MountState StateOf(const exec::FileFacts& file, const MountFacts& mount);

}  // namespace mountd::propagation
