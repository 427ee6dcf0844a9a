// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/probe.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <utility>

#include "propagation/plugin_directory.h"
#include "propagation/target.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountHealth;
using exec::Named;

Error Gone(const std::string& object) {
  return MakeError(Code::kNotFound, "probe", object,
                   "the mount is gone or replaced");
}

// Opens the root of the mount, wherever the mount is attached. Asks no server.
Result<UniqueFd> OpenMount(const Context& context, std::uint64_t id,
                           const std::string& object) {
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(id));
  MOUNTD_ASSIGN(
      UniqueFd fd,
      Named(context.kernel.Open(exec::kFromRoot, mount.point, O_PATH,
                                RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
            "openat2", object));
  MOUNTD_ASSIGN(const FileFacts file,
                Named(context.kernel.Stat(fd.get(), ""), "statx", object));
  // Another mount may cover the place by now.
  if (file.mount_id != id) {
    return Gone(object);
  }
  return fd;
}

}  // namespace

Result<UniqueFd> CloneToAsk(const Context& context, const UniqueFd& mount,
                            const std::string& object) {
  exec::Sys<UniqueFd> clone = context.kernel.CloneTree(mount.get(), false);
  // open_tree(2) answers EINVAL for a mount that is no longer attached.
  return exec::FailedWith(clone, EINVAL)
             ? Gone(object)
             : Named(std::move(clone), "open_tree", object);
}

namespace {

// Asks the file system of the mount, which the caller has seen there.
Result<exec::ProbeReply> Ask(const Context& context, std::uint64_t mount_id,
                             const std::string& object) {
  MOUNTD_ASSIGN(UniqueFd mount, OpenMount(context, mount_id, object));
  MOUNTD_ASSIGN(const UniqueFd clone, CloneToAsk(context, mount, object));
  // Close the mount itself now: an open descriptor would keep it in use.
  mount.reset();
  MOUNTD_ASSIGN(
      const exec::ProbeOutcome outcome,
      exec::NamedOfChild(context.kernel.ProbeFilesystem(
                             clone.get(), context.config.timeouts.probe_answer),
                         "fork", object));
  exec::ProbeReply reply;
  reply.sys_errno = outcome.error;
  reply.lost_children = outcome.lost_children;
  reply.health = outcome.timed_out    ? MountHealth::kHung
                 : outcome.error != 0 ? MountHealth::kDead
                                      : MountHealth::kHealthy;
  return reply;
}

}  // namespace

Result<exec::ProbeReply> ProbeMount(const Context& context,
                                    const exec::ProbePlan& plan) {
  const std::string object = ObjectOf(plan.target);
  MOUNTD_ASSIGN(const exec::MountState state,
                InspectTarget(context, plan.target));
  if (state.mount_id == 0 || state.mount_id != plan.mount_id) {
    return Gone(object);
  }
  return Ask(context, plan.mount_id, object);
}

Result<exec::ProbeReply> ProbeVolume(const Context& context,
                                     const exec::VolumeProbePlan& plan) {
  const std::string object =
      Text(plan.directory.plugin) + "/" + Text(plan.directory.volume);
  MOUNTD_ASSIGN(const exec::MountState state,
                InspectVolumeDir(context, plan.directory));
  if (state.exists == 0 || state.mount_id != plan.mount_id) {
    return Gone(object);
  }
  if (plan.mount_id == 0) {
    exec::ProbeReply reply;
    reply.health = MountHealth::kHealthy;
    return reply;
  }
  return Ask(context, plan.mount_id, object);
}

}  // namespace mountd::propagation
