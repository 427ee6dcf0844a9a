// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/kernel_filesystems.h"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "mountd/base/paths.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;

// A node has fewer sources. A forgotten source is checked again in full.
constexpr std::size_t kMaxSources = 4096;

// Names as mount(2) takes them. autofs is listed because tasks with a clone of
// it would wait for a daemon that mounts elsewhere; hugetlbfs because nothing
// bounds the memory it takes.
constexpr std::array<std::string_view, 41> kTypes = {"autofs",
                                                     "binder",
                                                     "binfmt_misc",
                                                     "bpf",
                                                     "cgroup",
                                                     "cgroup2",
                                                     "configfs",
                                                     "cpuset",
                                                     "debugfs",
                                                     "devfs",
                                                     "devpts",
                                                     "devtmpfs",
                                                     "efivarfs",
                                                     "functionfs",
                                                     "fusectl",
                                                     "gadgetfs",
                                                     "hugetlbfs",
                                                     "ibmasmfs",
                                                     "mqueue",
                                                     "nfsd",
                                                     "nsfs",
                                                     "ocfs2_dlmfs",
                                                     "openpromfs",
                                                     "oprofilefs",
                                                     "pidfs",
                                                     "proc",
                                                     "pstore",
                                                     "resctrl",
                                                     "rpc_pipefs",
                                                     "s390_hypfs",
                                                     "securityfs",
                                                     "selinuxfs",
                                                     "smackfs",
                                                     "spufs",
                                                     "sysfs",
                                                     "tracefs",
                                                     "usbdevfs",
                                                     "usbfs",
                                                     "xenfs",
                                                     "qibfs",
                                                     "infinibandeventfs"};

// FailedPrecondition, naming the first one, if one of `mounts` is of a file
// system of the kernel and lies beneath `root`, a path in this namespace. A
// mount without a known path counts as beneath it.
Result<void> CheckAll(const std::vector<MountFacts>& mounts,
                      const std::string& root, const std::string& object) {
  for (const MountFacts& mount : mounts) {
    if (IsKernelFilesystem(mount.type) &&
        (mount.point.empty() || paths::IsAtOrBelow(mount.point, root))) {
      return MakeError(Code::kFailedPrecondition, "mount", object,
                       "a file system of the kernel (" + mount.type +
                           ") is mounted below the source at " +
                           mount.point.substr(
                               std::min(root.size() + 1, mount.point.size())) +
                           "; unmount it or mount another directory");
    }
  }
  return Ok();
}

bool HasAny(const std::vector<MountFacts>& mounts) {
  return std::any_of(mounts.begin(), mounts.end(), [](const auto& mount) {
    return IsKernelFilesystem(mount.type);
  });
}

}  // namespace

bool IsKernelFilesystem(std::string_view type) {
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

std::uint64_t CheckedSources::UpTo(const FileFacts& source) const {
  const auto found =
      up_to_.find({source.mount_id, source.device, source.inode});
  return found == up_to_.end() ? source.mount_id : found->second;
}

void CheckedSources::Checked(const FileFacts& source, std::uint64_t clone_id) {
  // Reusable ids do not say which mount is newer.
  if (!source.mount_id_is_unique) {
    return;
  }
  if (up_to_.size() >= kMaxSources) {
    up_to_.clear();
  }
  up_to_[{source.mount_id, source.device, source.inode}] = clone_id;
}

void CheckedSources::Failed(const FileFacts& source) {
  const auto found =
      up_to_.find({source.mount_id, source.device, source.inode});
  if (found != up_to_.end()) {
    found->second = 0;
  }
}

Result<void> CheckBelow(const Context& context, const Source& source,
                        const std::string& object) {
  // Neither a file nor a mount that was made for this plan has mounts in it.
  if (source.made.valid() || !S_ISDIR(source.file.mode)) {
    return Ok();
  }
  const std::uint64_t known =
      context.checked == nullptr ? 0 : context.checked->UpTo(source.file);
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                context.inspector.Below(source.file.mount_id, known));
  if (!HasAny(mounts)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::string root, PathOfSource(context, source, object));
  return CheckAll(mounts, root, object);
}

// Looks only at mounts newer than the clone, because those came with the clone.
Result<void> CheckClone(const Context& context, std::uint64_t clone_id,
                        const CloneSpec& spec) {
  if (spec.propagation == exec::Propagation::kBidirectional) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                context.inspector.Below(clone_id, clone_id));
  if (!HasAny(mounts)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const MountFacts clone, context.inspector.Facts(clone_id));
  return CheckAll(mounts, clone.point, spec.object);
}

}  // namespace mountd::propagation
