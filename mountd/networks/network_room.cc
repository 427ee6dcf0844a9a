// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/network_room.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "mountd/networks/etc_files.h"
#include "mountd/networks/network_request.h"

namespace mountd {
namespace {

// A tmpfs(5) gives a file whole pages.
std::uint64_t InPages(std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Error Exhausted(const NetworkRecord& record, const std::string& limit) {
  return MakeError(Code::kResourceExhausted, "set up",
                   "network of " + record.allocation,
                   limit +
                       " is reached; tear down other networks of this user or "
                       "raise the limit");
}

}  // namespace

NetworkRoom::Use NetworkRoom::UseOf(const NetworkRecord& record) {
  Use use;
  for (const NetworkFile& file : FilesOf(record)) {
    use.file_bytes += InPages(file.text.size());
  }
  use.namespaces = HasNamespace(record.mode) && !record.netns_given ? 1 : 0;
  return use;
}

NetworkRoom::Use NetworkRoom::Sum(const Allocation& allocation) {
  Use sum;
  for (const auto& [interface, use] : allocation.networks) {
    sum.file_bytes += use.file_bytes;
    // The networks of an allocation share one namespace.
    sum.namespaces = std::max(sum.namespaces, use.namespaces);
  }
  return sum;
}

NetworkRoom::Use NetworkRoom::After(const std::string& id,
                                    const Allocation& changed) {
  Use use = users_[changed.uid];
  if (const auto known = allocations_.find(id); known != allocations_.end()) {
    const Use before = Sum(known->second);
    use.file_bytes -= before.file_bytes;
    use.namespaces -= before.namespaces;
  }
  const Use now = Sum(changed);
  use.file_bytes += now.file_bytes;
  use.namespaces += now.namespaces;
  return use;
}

void NetworkRoom::Put(const std::string& id, Allocation changed) {
  const Use after = After(id, changed);
  if (after.file_bytes == 0 && after.namespaces == 0) {
    users_.erase(changed.uid);
  } else {
    users_[changed.uid] = after;
  }
  if (changed.networks.empty()) {
    allocations_.erase(id);
  } else {
    allocations_[id] = std::move(changed);
  }
}

Result<void> NetworkRoom::Take(std::uint32_t uid, const NetworkRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto known = allocations_.find(record.allocation);
  Allocation changed =
      known == allocations_.end() ? Allocation{uid, {}} : known->second;
  changed.networks[record.interface] = UseOf(record);
  const Use before = users_[changed.uid];
  const Use after = After(record.allocation, changed);
  // A user whose limit was lowered below the present use may still change
  // networks, as long as the use does not grow.
  if (after.file_bytes > before.file_bytes &&
      after.file_bytes > limits_.network_file_bytes_per_uid) {
    return Exhausted(record, "limits.network_file_bytes_per_uid");
  }
  if (after.namespaces > before.namespaces &&
      after.namespaces > limits_.namespaces_per_uid) {
    return Exhausted(record, "limits.namespaces_per_uid");
  }
  Put(record.allocation, std::move(changed));
  return Ok();
}

void NetworkRoom::TakeRecorded(std::uint32_t uid, const NetworkRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto known = allocations_.find(record.allocation);
  Allocation changed =
      known == allocations_.end() ? Allocation{uid, {}} : known->second;
  changed.networks[record.interface] = UseOf(record);
  Put(record.allocation, std::move(changed));
}

void NetworkRoom::Free(const NetworkRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto known = allocations_.find(record.allocation);
  if (known == allocations_.end()) {
    return;
  }
  Allocation changed = known->second;
  changed.networks.erase(record.interface);
  Put(record.allocation, std::move(changed));
}

}  // namespace mountd
