// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/open_namespace.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include "netns/plans/access.h"
#include "netns/plans/pin.h"

namespace mountd::netns {
namespace {

using exec::Named;

Error IsGone(const std::string& name) {
  return MakeError(
      Code::kFailedPrecondition, "open namespace", name,
      "the allocation's namespace no longer exists; release the allocation");
}

}  // namespace

Result<UniqueFd> OpenNamespace(const Context& context,
                               const exec::NetworkPlan& plan,
                               exec::HandedOutMount* mount) {
  const std::string name = NameOf(plan);
  // With the lock, no other plan ends the network and makes the next one
  // between the look and the open.
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(const Access access, OpenAccess(context, name));
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access.place));
  if (!pin.ours || pin.inode == 0 || pin.inode != plan.netns_inode) {
    return IsGone(name);
  }
  // O_RDONLY, because setns(2) refuses an O_PATH descriptor.
  MOUNTD_ASSIGN(UniqueFd fd, Named(context.kernel.Open(
                                       access.place.directory, name, O_RDONLY,
                                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
                                   "openat2", name));
  // Another process of root's may have changed the name meanwhile.
  MOUNTD_ASSIGN(const exec::FileFacts facts,
                Named(context.kernel.Stat(fd.get(), ""), "statx", name));
  if (facts.device != access.place.nsfs || facts.inode != plan.netns_inode) {
    return IsGone(name);
  }
  if (facts.mount_id_is_unique) {
    // Give only the unique id, not the reusable one. The pin is attached in the
    // host's mount namespace, so every process there would count as a holder of
    // the reusable id.
    mount->mount_id = facts.mount_id;
  }
  return fd;
}

}  // namespace mountd::netns
