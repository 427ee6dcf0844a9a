// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/watch.h"

#include <fcntl.h>

#include <span>

#include "mountd/base/number.h"
#include "propagation/plugin_directory.h"

namespace mountd::propagation {
namespace {

using exec::Named;
using exec::Sys;

constexpr char kNamespace[] = "/proc/self/ns/mnt";
constexpr char kWatchedTable[] = "/proc/self/mountinfo";
constexpr char kMountMax[] = "/proc/sys/fs/mount-max";

}  // namespace

Result<MountWatch> WatchMounts(const Context& context) {
  exec::Kernel& kernel = context.kernel;
  // No RESOLVE flags, because the file is a magic link (namespaces(7)).
  MOUNTD_ASSIGN(const UniqueFd mounts,
                Named(kernel.Open(exec::kFromRoot, kNamespace, O_RDONLY, 0),
                      "openat2", kNamespace));
  Sys<UniqueFd> group = kernel.WatchMounts(mounts.get());
  if (group) {
    return MountWatch{std::move(group).value(), true};
  }
  // EINVAL: a kernel older than 6.15. ENOSYS: one without fanotify.
  if (group.error() != EINVAL && group.error() != ENOSYS) {
    return ErrnoError(group.error(), "fanotify_mark", kNamespace);
  }
  MountWatch watch;
  MOUNTD_ASSIGN(watch.fd,
                Named(kernel.Open(exec::kFromRoot, kWatchedTable, O_RDONLY, 0),
                      "openat2", kWatchedTable));
  return watch;
}

Result<MountList> ListMounts(const Context& context) {
  MountList list;
  MOUNTD_ASSIGN(
      const std::string most,
      Named(context.kernel.ReadSetting(kMountMax), "read", kMountMax));
  list.most = ParseNumber<std::uint64_t>(most).value_or(0);
  MOUNTD_ASSIGN(const std::vector<std::uint64_t> ids, context.inspector.All());
  list.count = ids.size();
  MOUNTD_ASSIGN(list.ids,
                Named(context.kernel.MakeMemory(std::as_bytes(std::span(ids))),
                      "memfd_create", "mount ids"));
  return list;
}

Result<std::uint64_t> CountMounts(const Context& context,
                                  const exec::PluginPlan& plan) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd directory,
                OpenPlugin(context, base, plan.plugin));
  const std::string name = Text(plan.plugin);
  MOUNTD_ASSIGN(const exec::FileFacts file,
                Named(context.kernel.Stat(directory.get(), ""), "statx", name));
  return context.inspector.CountBelow(file.mount_id);
}

}  // namespace mountd::propagation
