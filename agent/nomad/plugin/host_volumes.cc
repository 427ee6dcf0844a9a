// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/host_volumes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>

namespace mountd::nomad {
namespace {

namespace fs = std::filesystem;

// The path without "." and "..", doubled slashes and a slash at its end.
fs::path Plain(const std::string& path) {
  fs::path plain = fs::path(path).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

agent::Propagation PropagationOf(driver::MountPropagation propagation) {
  switch (propagation) {
    case driver::MountPropagation::kHostToTask:
      return agent::Propagation::kHostToTask;
    case driver::MountPropagation::kBidirectional:
      return agent::Propagation::kBidirectional;
    case driver::MountPropagation::kPrivate:
      break;
  }
  return agent::Propagation::kPrivate;
}

const char* NameOf(driver::MountPropagation propagation) {
  switch (propagation) {
    case driver::MountPropagation::kHostToTask:
      return "host-to-task";
    case driver::MountPropagation::kBidirectional:
      return "bidirectional";
    case driver::MountPropagation::kPrivate:
      break;
  }
  return "private";
}

bool Allows(const agent::SourceGrant& grant, const driver::Mount& mount) {
  const std::vector<std::string>& modes = mount.read_only
                                              ? grant.read_only_propagation
                                              : grant.writable_propagation;
  return std::find(modes.begin(), modes.end(), NameOf(mount.propagation)) !=
         modes.end();
}

// Returns nullptr if no granted volume has the mount's path.
const agent::HostVolumeGrant* VolumeOf(
    const driver::Mount& mount,
    const std::vector<agent::HostVolumeGrant>& granted) {
  const fs::path path = Plain(mount.host_path);
  const agent::HostVolumeGrant* best = nullptr;
  int most = -1;
  for (const agent::HostVolumeGrant& volume : granted) {
    const int fits = (volume.source.name == mount.request_name ? 2 : 0) +
                     (Allows(volume.source, mount) ? 1 : 0);
    if (Plain(volume.path) == path && fits > most) {
      best = &volume;
      most = fits;
    }
  }
  return best;
}

std::vector<std::size_t> InOrderOfTaskPaths(const driver::TaskConfig& config) {
  std::vector<std::size_t> order(config.mounts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return config.mounts[a].task_path < config.mounts[b].task_path;
  });
  return order;
}

}  // namespace

std::vector<HostVolumeMount> HostVolumeMountsOf(
    const driver::TaskConfig& config,
    const std::vector<agent::HostVolumeGrant>& granted) {
  std::vector<HostVolumeMount> found;
  std::map<std::string, int> times;
  for (const std::size_t index : InOrderOfTaskPaths(config)) {
    const driver::Mount& mount = config.mounts[index];
    const agent::HostVolumeGrant* volume = VolumeOf(mount, granted);
    if (volume == nullptr) {
      continue;
    }
    const std::string& source = volume->source.name;
    const int time = ++times[source];
    agent::BindMountSpec spec;
    spec.task = config.name;
    spec.name = time == 1 ? source : source + "." + std::to_string(time);
    spec.source_type = agent::SourceType::kHostVolume;
    spec.source = source;
    spec.read_only = mount.read_only;
    spec.noexec = mount.noexec;
    spec.propagation = PropagationOf(mount.propagation);
    spec.task_path = mount.task_path;
    found.push_back({index, std::move(spec)});
  }
  return found;
}

}  // namespace mountd::nomad
