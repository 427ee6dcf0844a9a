// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/idmap.h"

#include <sys/mount.h>

#include <span>
#include <string>
#include <utility>

#include "mountd/plan/plan_ids.h"

namespace mountd::propagation {
namespace {

using exec::Named;

// A node's tasks use fewer maps at once. A forgotten map is made again.
constexpr std::size_t kMaxKept = 256;

// Returns the map as /proc/<pid>/uid_map takes it, user_namespaces(7).
std::string TextOf(std::span<const exec::IdExtent> extents) {
  std::string text;
  for (const exec::IdExtent& extent : extents) {
    text += std::to_string(extent.on_disk) + " " +
            std::to_string(extent.shown) + " " + std::to_string(extent.count) +
            "\n";
  }
  return text;
}

// Returns the error if some file system of the tree cannot map ids. The kernel
// does not say which one, so this function tries a clone of the top mount
// alone. The outcome shows whether it is the source's own file system or one
// below it.
Error Unmappable(const Context& context, const Source& source,
                 const exec::MountChange& change, const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  const exec::Sys<UniqueFd> top = kernel.CloneTree(source.fd.get(), false);
  const bool below = top && kernel.SetMount(top->get(), false, change);
  return MakeError(
      Code::kNotSupported, "mount_setattr", object,
      below
          ? "a file system below the source cannot map ids; mount without idmap"
          : "its file system, " + source.mount.type +
                ", cannot map ids; mount without idmap");
}

}  // namespace

Result<int> IdMaps::NamespaceOf(exec::Kernel& kernel,
                                const exec::IdMapPlan& ids,
                                const std::string& object) {
  std::pair maps{TextOf(exec::ExtentsOf(ids)), TextOf(exec::GidExtentsOf(ids))};
  auto found = namespaces_.find(maps);
  if (found == namespaces_.end()) {
    MOUNTD_ASSIGN(
        UniqueFd made,
        exec::NamedOfChild(kernel.NewUserNamespace(maps.first, maps.second),
                           "new user namespace", object));
    if (namespaces_.size() == kMaxKept) {
      namespaces_.clear();
    }
    found = namespaces_.emplace(std::move(maps), std::move(made)).first;
  }
  return found->second.get();
}

Result<void> MapIds(const Context& context, const Source& source,
                    const UniqueFd& tree, const exec::IdMapPlan& ids,
                    const std::string& object) {
  if (ids.count == 0) {
    return Ok();
  }
  exec::MountChange change;
  change.set = MOUNT_ATTR_IDMAP;
  MOUNTD_ASSIGN(change.user_namespace,
                context.id_maps.NamespaceOf(context.kernel, ids, object));
  const exec::Sys<void> mapped =
      context.kernel.SetMount(tree.get(), true, change);
  // mount_setattr(2): EINVAL if a file system does not support idmapped mounts,
  // EPERM if a mount is idmapped already.
  if (exec::FailedWith(mapped, EINVAL)) {
    return Unmappable(context, source, change, object);
  }
  if (exec::FailedWith(mapped, EPERM)) {
    return MakeError(Code::kFailedPrecondition, "mount_setattr", object,
                     "the source already has mapped ids; mount without idmap");
  }
  return Named(mapped, "mount_setattr", object);
}

}  // namespace mountd::propagation
