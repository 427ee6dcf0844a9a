// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/base.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "mountd/base/paths.h"
#include "propagation/ground/passage.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

constexpr char kObject[] = "base";
constexpr char kName[] = "base";
// Users pass through to their own directories and list nobody's.
constexpr unsigned kBaseMode = 0711;
constexpr unsigned kAttributes =
    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

Result<void> MountBase(const Context& context, int parent, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const UniqueFd fs,
                Named(kernel.OpenFilesystem("tmpfs"), "fsopen", kObject));
  // Directories and links take no blocks. So this size is enough for mountd's
  // own files and for allocations' files within
  // limits.network_file_bytes_per_uid. Without a bound, a task could fill the
  // host's memory through a bare directory that a plugin published for it here.
  const std::string bytes = std::to_string(kBaseBytes);
  const std::string files = std::to_string(kBaseFiles);
  for (const auto& [key, value] :
       {std::pair("source", "mountd"), std::pair("mode", "0711"),
        std::pair("uid", "0"), std::pair("gid", "0"),
        std::pair("size", bytes.c_str()),
        std::pair("nr_inodes", files.c_str())}) {
    MOUNTD_TRY(Named(kernel.ConfigureFilesystem(fs.get(), key, value),
                     "fsconfig", kObject));
  }
  MOUNTD_TRY(Named(kernel.CreateFilesystem(fs.get()), "fsconfig", kObject));
  MOUNTD_ASSIGN(
      const UniqueFd tree,
      Named(kernel.MountFilesystem(fs.get(), kAttributes), "fsmount", kObject));
  MOUNTD_ASSIGN(const UniqueFd point,
                OpenBeneath(context, parent, kName, kObject));
  MOUNTD_TRY(
      Named(kernel.AttachTree(tree.get(), point.get()), "move_mount", kObject));
  undo->Add([&kernel, parent] {
    IgnoreBecauseBestEffort(kernel.Unmount(parent, kName, MNT_DETACH));
  });
  return Ok();
}

// Checks the base and completes it. An interrupted PrepareBase may have left
// the base not shared yet, or without one of its directories.
Result<MountState> FinishBase(const Context& context, int parent, Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const UniqueFd base,
                OpenBeneath(context, parent, kName, kObject));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(base.get(), ""), "statx", kObject));
  MOUNTD_ASSIGN(MountFacts mount, context.inspector.Facts(facts.mount_id));
  if (!facts.mount_root || facts.mode != (S_IFDIR | kBaseMode) ||
      facts.uid != 0 || mount.type != "tmpfs" ||
      (mount.attributes & kAttributes) != kAttributes) {
    return MakeError(Code::kFailedPrecondition, "check", kObject,
                     "another mount is at its place; unmount it");
  }
  // Share the mount, even if an interrupted try has left it private.
  if (mount.peer_group == 0) {
    MOUNTD_TRY(
        Named(kernel.SetMount(base.get(), false, {.propagation = MS_SHARED}),
              "mount_setattr", kObject));
    MOUNTD_ASSIGN(mount, context.inspector.Facts(facts.mount_id));
  }
  // A base that is a slave lies in a mount namespace copied from the host's.
  if (mount.peer_group == 0 || mount.master != 0) {
    return MakeError(Code::kFailedPrecondition, "check", kObject,
                     "mountd must run in the host's mount namespace");
  }
  for (const char* name :
       {paths::kAllocations, paths::kPlugins, paths::kAnchors,
        paths::kFilesystems, paths::kNetworks, paths::kNetworkFiles}) {
    Undo nothing;  // a directory stays even if a later step fails
    MOUNTD_TRY(EnsureDirectory(context, base.get(), name, kBaseMode, kObject,
                               &nothing));
    nothing.Commit();
  }
  // Only access control lists keep users apart in the base (passage.h).
  MOUNTD_TRY(CheckKeepsLists(context, base.get(), kObject));
  undo->Commit();
  return StateOf(facts, mount);
}

}  // namespace

Result<UniqueFd> OpenRunDirectory(const Context& context) {
  MOUNTD_ASSIGN(
      UniqueFd fd,
      Named(context.kernel.Open(exec::kFromRoot, paths::kRunDir,
                                O_RDONLY | O_DIRECTORY,
                                RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
            "openat2", paths::kRunDir));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(fd.get(), ""), "statx", kObject));
  // Another user could otherwise rename what lies above the base.
  if (facts.uid != 0 || (facts.mode & (S_IWGRP | S_IWOTH)) != 0) {
    return MakeError(Code::kFailedPrecondition, "check", paths::kRunDir,
                     "must belong to root and be writable by nobody else");
  }
  return fd;
}

Result<MountState> PrepareBase(const Context& context) {
  MOUNTD_ASSIGN(const UniqueFd parent, OpenRunDirectory(context));
  MOUNTD_TRY(exec::Locked(context.kernel, parent.get(), kObject));
  Undo undo;
  MOUNTD_ASSIGN(const MountState now,
                StateOf(context, parent.get(), kName, kObject));
  // Two executors may start at once; the lock lets only one of them mount the
  // base.
  if (now.mount_id == 0) {
    MOUNTD_TRY(EnsureDirectory(context, parent.get(), kName, kBaseMode, kObject,
                               &undo));
    MOUNTD_TRY(MountBase(context, parent.get(), &undo));
  }
  return FinishBase(context, parent.get(), &undo);
}

Result<Base> OpenBase(const Context& context) {
  MOUNTD_ASSIGN(const UniqueFd parent, OpenRunDirectory(context));
  Base base;
  MOUNTD_ASSIGN(base.fd, OpenBeneath(context, parent.get(), kName, kObject));
  MOUNTD_ASSIGN(base.facts, Named(context.kernel.Stat(base.fd.get(), ""),
                                  "statx", kObject));
  if (!base.facts.mount_root || base.facts.uid != 0 ||
      base.facts.mode != (S_IFDIR | kBaseMode)) {
    return MakeError(Code::kFailedPrecondition, "check", kObject,
                     "it is not mounted; restart mountd");
  }
  return base;
}

namespace {

Result<UniqueFd> OpenPart(const Context& context, const Base& base,
                          const char* part, const std::string& object) {
  // O_RDONLY, because flock(2) refuses an O_PATH descriptor.
  return Named(context.kernel.Open(base.fd.get(), part, O_RDONLY | O_DIRECTORY,
                                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
               "openat2", object);
}

}  // namespace

Result<UniqueFd> OpenNetworkMarkers(const Context& context) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  return OpenPart(context, base, paths::kNetworks, kObject);
}

Result<UniqueFd> LockPart(const Context& context, const Base& base,
                          const char* part, const std::string& object) {
  MOUNTD_ASSIGN(UniqueFd fd, OpenPart(context, base, part, object));
  MOUNTD_TRY(exec::Locked(context.kernel, fd.get(), object));
  return fd;
}

Result<UniqueFd> OpenAllocation(const Context& context, const Base& base,
                                const exec::WireName& allocation) {
  return OpenBeneath(context, base.fd.get(),
                     std::string(paths::kAllocations) + "/" + Text(allocation),
                     Text(allocation));
}

}  // namespace mountd::propagation
