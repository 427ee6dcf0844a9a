// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"
#include "propagation/mount_inspector.h"

// Mount trees: base, inboxes, sources, targets. All functions run in the
// executor's only thread, take plans whose fields were checked
// (exec/invariants.h), keep no state between plans but what is in the kernel,
// and either do the whole plan or undo what they did of it.
namespace mountd::propagation {

class CheckedSources;  // propagation/kernel_filesystems.h
class IdMaps;          // propagation/idmap.h
class Residence;       // propagation/residence.h

struct Context {
  exec::Kernel& kernel;
  const MountInspector& inspector;
  const Config& config;
  IdMaps& id_maps;                    // kept from plan to plan
  Residence* residence = nullptr;     // the same; nullptr: the host's
  CheckedSources* checked = nullptr;  // the same; nullptr: nothing is known
};

using exec::Text;

inline std::string Text(const std::array<char, VolumeKey::kHexDigits>& key) {
  return {key.data(), key.size()};
}

// Opens `path` below `dir` as O_PATH: no link, no "..", wherever mounts lead.
Result<UniqueFd> OpenBeneath(const Context& context, int dir,
                             const std::string& path,
                             const std::string& object);

// Makes the directory `name` in `dir` if it is missing, removed again by
// `undo`, and opens it. One that is there must be a directory of root's with
// just this mode; FailedPrecondition otherwise. `dir` must outlive `undo`.
Result<UniqueFd> EnsureDirectory(const Context& context, int dir,
                                 const std::string& name, unsigned mode,
                                 const std::string& object, exec::Undo* undo);

// The same without a look at what is there.
Result<UniqueFd> MakeAndOpenDirectory(const Context& context, int dir,
                                      const std::string& name, unsigned mode,
                                      const std::string& object,
                                      exec::Undo* undo);

// Makes the directory `fd` is of root's alone.
Result<void> TakeBack(const Context& context, int fd,
                      const std::string& object);

// The same for the directory `name` in the mount `mount_id`, where a plugin may
// have changed it; none is success. One of another mount stays: what it shows
// is not ours.
Result<void> TakeBack(const Context& context, int dir, const std::string& name,
                      std::uint64_t mount_id, const std::string& object);

// What the kernel says of (dir, name), and of the mount it is in.
struct FileOnMount {
  exec::FileFacts file;
  MountFacts mount;
};
Result<FileOnMount> LookAt(const Context& context, int dir,
                           const std::string& name, const std::string& object);

// The state of (dir, name): a mount, a directory or file, or nothing.
Result<exec::MountState> StateOf(const Context& context, int dir,
                                 const std::string& name,
                                 const std::string& object);
exec::MountState StateOf(const exec::FileFacts& file, const MountFacts& mount);

}  // namespace mountd::propagation
