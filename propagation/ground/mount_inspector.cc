// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/mount_inspector.h"

#include <unordered_set>

#include "mountd/kernel/kernel_abi.h"

namespace mountd::propagation {

Result<MountFacts> StatmountInspector::Facts(std::uint64_t id) const {
  return exec::Named(kernel_.MountById(id), "statmount", "");
}

Result<std::vector<MountFacts>> StatmountInspector::Children(
    std::uint64_t id) const {
  MOUNTD_ASSIGN(std::vector<MountFacts> mounts, Below(id, 0));
  std::erase_if(mounts, [&](const auto& one) { return one.parent_id != id; });
  return mounts;
}

// listmount(2) lists mounts at any depth.
Result<std::vector<MountFacts>> StatmountInspector::Below(
    std::uint64_t id, std::uint64_t after) const {
  MOUNTD_ASSIGN(const std::vector<std::uint64_t> ids,
                exec::Named(kernel_.MountsBelow(id, after), "listmount", ""));
  std::vector<MountFacts> below;
  for (const std::uint64_t one : ids) {
    exec::Sys<MountFacts> facts = kernel_.MountById(one);
    if (exec::FailedWith(facts, ENOENT)) {
      continue;  // unmounted since
    }
    if (!facts) {
      return ErrnoError(facts.error(), "statmount", "");
    }
    below.push_back(std::move(facts).value());
  }
  return below;
}

Result<std::uint64_t> StatmountInspector::CountBelow(std::uint64_t id) const {
  MOUNTD_ASSIGN(const std::vector<std::uint64_t> below,
                exec::Named(kernel_.MountsBelow(id, 0), "listmount", ""));
  return below.size();
}

Result<std::vector<std::uint64_t>> StatmountInspector::All() const {
  return exec::Named(kernel_.MountsBelow(exec::abi::kAllMounts, 0), "listmount",
                     "");
}

Result<std::unique_ptr<MountInspector>> MakeMountInspector(exec::Kernel& kernel,
                                                           int process) {
  MOUNTD_ASSIGN(const exec::FileFacts root,
                exec::Named(kernel.Stat(exec::kFromRoot, "/"), "statx", "/"));
  std::unique_ptr<MountInspector> made;
  if (root.mount_id_is_unique) {
    made = std::make_unique<StatmountInspector>(kernel);
  } else {
    made = std::make_unique<MountinfoInspector>(kernel, process);
  }
  return made;
}

Result<std::vector<MountFacts>> Descendants(const MountInspector& inspector,
                                            std::uint64_t id) {
  std::vector<MountFacts> found;
  // A mount that somebody moves meanwhile may be listed twice, or below itself.
  std::unordered_set<std::uint64_t> seen = {id};
  std::vector<std::uint64_t> left = {id};
  while (!left.empty()) {
    const std::uint64_t parent = left.back();
    left.pop_back();
    MOUNTD_ASSIGN(std::vector<MountFacts> children, inspector.Children(parent));
    for (MountFacts& child : children) {
      if (seen.insert(child.id).second) {
        left.push_back(child.id);
        found.push_back(std::move(child));
      }
    }
  }
  return std::vector<MountFacts>(found.rbegin(), found.rend());
}

}  // namespace mountd::propagation
