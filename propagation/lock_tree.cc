// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/lock_tree.h"

#include <cerrno>
#include <utility>

namespace mountd::propagation {
namespace {

// Says what the administrator can do, because the kernel's errno does not.
std::string AdviceFor(int error) {
  switch (error) {
    case ENOSPC:
      return "the kernel allows no further namespace, and without one a holder "
             "of the tree could clear its nodev; raise "
             "user.max_user_namespaces and user.max_mnt_namespaces";
    case EPERM:
    case EACCES:
      return "mountd-exec may make no user namespace, and without one a holder "
             "of the tree could clear its nodev; allow it in the unit and the "
             "security module";
    case ENOSYS:
      return "the kernel has no user namespaces (CONFIG_USER_NS), and without "
             "one a holder of the tree could clear its nodev; mount at a path "
             "instead";
    case ETIMEDOUT:
      return "took too long, so mountd killed it; call again";
    default:
      return "";
  }
}

}  // namespace

Result<void> LockTree(const Context& context, const std::string& object,
                      UniqueFd* tree) {
  // Half of the plan's time stays for the rest of the plan.
  exec::Sys<UniqueFd> locked =
      context.kernel.LockTree(tree->get(), context.config.timeouts.plan / 2);
  if (!locked) {
    const std::string advice = AdviceFor(locked.error());
    return advice.empty()
               ? exec::NamedOfChild(std::move(locked), "lock tree", object)
                     .error()
               : ErrnoError(locked.error(), "lock tree", object, advice);
  }
  *tree = *std::move(locked);
  return Ok();
}

}  // namespace mountd::propagation
