// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/files/network_files.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <cerrno>

#include "mountd/base/paths.h"
#include "propagation/ground/passage.h"

namespace mountd::propagation {
namespace {

using exec::Kernel;
using exec::Named;
using exec::NetworkFileKind;
using exec::NetworkFilePlan;

constexpr NetworkFileKind kFileKinds[] = {NetworkFileKind::kHosts,
                                          NetworkFileKind::kHostname,
                                          NetworkFileKind::kResolvConf};

const char* FileName(NetworkFileKind kind) {
  switch (kind) {
    case NetworkFileKind::kHosts:
      return "hosts";
    case NetworkFileKind::kHostname:
      return "hostname";
    case NetworkFileKind::kResolvConf:
      break;
  }
  return "resolv.conf";
}

// Removes one file. A missing file is success.
Result<void> RemoveOne(Kernel& kernel, int dir, const char* name,
                       const std::string& object) {
  const exec::Sys<void> removed = kernel.RemoveFile(dir, name);
  return removed || removed.error() == ENOENT
             ? Ok()
             : Result<void>(ErrnoError(removed.error(), "unlinkat", object));
}

// Returns the group that passes the allocation's own directory, because its
// tasks need the files as well; 0 if there is none.
std::uint32_t GroupOf(const Context& context, const Base& base,
                      const std::string& allocation) {
  const Result<UniqueFd> dir = OpenBeneath(
      context, base.fd.get(),
      std::string(paths::kAllocations) + "/" + allocation, allocation);
  return dir ? PassageOf(context, dir->get()).group : 0;
}

}  // namespace

Result<void> WriteNetworkFile(const Context& context,
                              const NetworkFilePlan& plan, int content,
                              const exec::Tell<exec::MountState>& tell) {
  // Every user in the task must be able to read it, to look up names.
  constexpr mode_t kFileMode = 0644;
  Kernel& kernel = context.kernel;
  const std::string object = Text(plan.allocation);
  const char* name = FileName(plan.kind);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd all,
                LockPart(context, base, paths::kNetworkFiles, object));
  // Read the content first, so that a plan with wrong content changes nothing.
  MOUNTD_ASSIGN(const std::string text,
                Named(kernel.ReadMemory(content, exec::kMaxNetworkFileBytes),
                      "pread", object));
  UniqueFd dir;
  exec::Undo undo;
  MOUNTD_ASSIGN(dir, EnsurePassage(context, all.get(), object,
                                   {plan.uid, GroupOf(context, base, object)},
                                   object, &undo));
  // Replace the file, never overwrite it: tasks that have the old one mounted
  // keep its text.
  MOUNTD_TRY(RemoveOne(kernel, dir.get(), name, object));
  MOUNTD_TRY(
      Named(kernel.MakeFile(dir.get(), name, kFileMode), "openat", object));
  undo.Add([&kernel, &dir, name] {
    IgnoreBecauseBestEffort(kernel.RemoveFile(dir.get(), name));
  });
  MOUNTD_ASSIGN(const UniqueFd file,
                Named(kernel.Open(dir.get(), name, O_WRONLY | O_NOFOLLOW,
                                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
                      "openat2", object));
  MOUNTD_TRY(Named(kernel.Write(file.get(), text), "write", object));
  MOUNTD_TRY(tell(exec::MountState{}));
  undo.Commit();
  return Ok();
}

Result<void> CloseNetworkFiles(const Context& context, const Base& base,
                               const exec::AllocationPlan& plan) {
  const std::string object = Text(plan.allocation);
  const Result<UniqueFd> dir =
      OpenBeneath(context, base.fd.get(),
                  std::string(paths::kNetworkFiles) + "/" + object, object);
  if (!dir) {
    // ENOENT: the allocation has no network files.
    return dir.error().sys_errno == ENOENT ? Ok() : Result<void>(dir.error());
  }
  return LetPass(context, dir->get(), {plan.uid, plan.group}, object);
}

Result<void> RemoveNetworkFiles(const Context& context,
                                const NetworkFilePlan& plan) {
  Kernel& kernel = context.kernel;
  const std::string object = Text(plan.allocation);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd all,
                LockPart(context, base, paths::kNetworkFiles, object));
  const exec::Sys<UniqueFd> dir =
      kernel.Open(all.get(), object, O_PATH | O_DIRECTORY | O_NOFOLLOW,
                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (exec::FailedWith(dir, ENOENT)) {
    return Ok();
  }
  if (!dir) {
    return ErrnoError(dir.error(), "openat2", object);
  }
  for (const NetworkFileKind kind : kFileKinds) {
    MOUNTD_TRY(RemoveOne(kernel, dir->get(), FileName(kind), object));
  }
  return Named(kernel.RemoveDirectory(all.get(), object), "rmdir", object);
}

}  // namespace mountd::propagation
