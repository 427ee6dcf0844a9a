// SPDX-License-Identifier: LGPL-2.1-or-later
//
// FakeExecutor's machine as tests see and change it; the plans are in
// fake_executor.cc.
#include <sys/sysmacros.h>

#include <algorithm>

#include "tests/support/fakes/fake_executor.h"

namespace mountd::exec {

std::vector<Request> FakeExecutor::plans() const {
  const std::lock_guard lock(mutex_);
  return plans_;
}

std::vector<std::string> FakeExecutor::Existing() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  const auto add = [&](const std::string& kind, const auto& things) {
    for (const auto& [name, thing] : things) {
      all.push_back(kind);
      all.back().append(" ").append(name);
    }
  };
  add("allocation", allocations_);
  for (const std::string& inbox : inboxes_) {
    all.push_back("inbox " + inbox);
  }
  add("mount", mounts_);
  add("anchor", anchors_);
  add("plugin", plugins_);
  add("directory", directories_);
  add("network", networks_);
  add("link", links_);
  add("cni", cni_attachments_);
  add("file", network_files_);
  std::sort(all.begin(), all.end());
  return all;
}

void FakeExecutor::SetBusy(const std::string& object, bool busy) {
  const std::lock_guard lock(mutex_);
  if (busy) {
    busy_.insert(object);
  } else {
    busy_.erase(object);
  }
}

void FakeExecutor::LoseMount(const std::string& target) {
  const std::lock_guard lock(mutex_);
  if (const auto found = mounts_.find(target); found != mounts_.end()) {
    TellLocked(found->second.state.mount_id, false);
    mounts_.erase(found);
  }
}

void FakeExecutor::ReplaceMount(const std::string& target) {
  const std::lock_guard lock(mutex_);
  if (const auto found = mounts_.find(target); found != mounts_.end()) {
    TellLocked(found->second.state.mount_id, false);
  }
  mounts_[target] = {NewMountLocked(), "something else", {}};
}

void FakeExecutor::StackMount(const std::string& target) {
  const std::lock_guard lock(mutex_);
  mounts_.at(target).state.is_stacked = 1;
}

void FakeExecutor::SetTree(std::uint64_t entries) {
  const std::lock_guard lock(mutex_);
  tree_ = entries;
}

void FakeExecutor::SetOwnMount(const std::string& host_volume) {
  const std::lock_guard lock(mutex_);
  MountState state = NewMountLocked();
  state.peer_group = ++last_id_;
  own_mounts_[host_volume] = state;
}

std::uint64_t FakeExecutor::MountIdOf(const std::string& target) const {
  const std::lock_guard lock(mutex_);
  const auto found = mounts_.find(target);
  return found == mounts_.end() ? 0 : found->second.state.mount_id;
}

std::uint64_t FakeExecutor::AnchorOf(const std::string& host_volume) const {
  const std::lock_guard lock(mutex_);
  const auto found = anchors_.find(host_volume);
  return found == anchors_.end() ? 0 : found->second.mount_id;
}

void FakeExecutor::PutVolume(const std::string& plugin, const std::string& part,
                             PutAs as) {
  const std::lock_guard lock(mutex_);
  MountState state;
  if (as != PutAs::kBareDirectory) {
    state = NewMountLocked();
  }
  state.exists = 1;
  state.is_directory = as == PutAs::kDevice ? 0 : 1;
  state.block_device = as == PutAs::kDevice ? makedev(7, 3) : 0;
  health_.erase(plugin + "/" + part);
  directories_[plugin + "/" + part] = state;
}

void FakeExecutor::TakeVolume(const std::string& plugin,
                              const std::string& part) {
  const std::lock_guard lock(mutex_);
  const auto found = directories_.find(plugin + "/" + part);
  if (found == directories_.end()) {
    return;
  }
  // The executor removes a staging directory, the plugin a target.
  if (part.starts_with("staging/")) {
    found->second.mount_id = 0;
  } else {
    directories_.erase(found);
  }
}

void FakeExecutor::SetListening(const std::string& plugin, bool listening) {
  const std::lock_guard lock(mutex_);
  if (listening) {
    deaf_.erase(plugin);
  } else {
    deaf_.insert(plugin);
  }
}

void FakeExecutor::HangUp(const std::string& plugin) {
  const std::lock_guard lock(mutex_);
  connections_.erase(plugin);
}

void FakeExecutor::SetStuck(std::uint32_t stuck) {
  const std::lock_guard lock(mutex_);
  stuck_ = stuck;
}

std::uint32_t FakeExecutor::stuck() const {
  const std::lock_guard lock(mutex_);
  return stuck_;
}

}  // namespace mountd::exec
