// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/job/run_tasks.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace mountd::agent {
namespace {

constexpr char kAlloc[] = "/alloc";
constexpr char kLocal[] = "/local";
constexpr char kSecrets[] = "/secrets";
// A name that no mount of a job has by chance.
constexpr char kSecretsMount[] = "mountd.secrets";

driver::MountPropagation PropagationOf(Propagation propagation) {
  switch (propagation) {
    case Propagation::kHostToTask:
      return driver::MountPropagation::kHostToTask;
    case Propagation::kBidirectional:
      return driver::MountPropagation::kBidirectional;
    case Propagation::kPrivate:
      break;
  }
  return driver::MountPropagation::kPrivate;
}

// mountd answers the mounts in the job's order.
void AddMounts(const Job& job, const std::vector<MountStatus>& mounts,
               driver::TaskConfig& config) {
  for (std::size_t i = 0; i < job.mounts.size() && i < mounts.size(); ++i) {
    const BindMountSpec& spec = job.mounts[i];
    if (spec.task != config.name || spec.task_path.empty()) {
      continue;
    }
    driver::Mount mount;
    mount.task_path = spec.task_path;
    mount.host_path = mounts[i].config.host_path;
    mount.read_only = spec.read_only;
    mount.noexec = spec.noexec;
    mount.propagation = PropagationOf(spec.propagation);
    mount.request_name = spec.name;
    mount.is_mountds = true;
    driver::InsertMount(mount, config.mounts);
  }
}

// Makes a tmpfs for the secrets, in the task's inbox. Asks for noswap first. A
// kernel before Linux 6.4 has no noswap, and on such a kernel an earlier call
// may have made the tmpfs without noswap.
Result<std::string> MakeSecrets(Client& client,
                                const driver::TaskConfig& config) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 20U;
  // The task's users differ from the allocation's owner, so all users may
  // write. No other user of the host can pass the directories above the inbox.
  constexpr std::uint32_t kForAll = 01777;
  BindMountSpec spec;
  spec.task = config.name;
  spec.name = kSecretsMount;
  spec.source_type = SourceType::kTmpfs;
  spec.task_path = kSecrets;
  spec.tmpfs = TmpfsOptions{.size = kBytes, .mode = kForAll, .noswap = true};
  Result<MountConfig> mount = client.BindMount(config.allocation, spec);
  if (!mount && (mount.error().code == Code::kNotSupported ||
                 mount.error().code == Code::kAlreadyExists)) {
    spec.tmpfs->noswap = false;
    mount = client.BindMount(config.allocation, spec);
  }
  if (!mount) {
    return mount.error();
  }
  return std::move(mount->host_path);
}

Result<void> AddDirectories(Client& client, const JobDirectory& directory,
                            driver::TaskConfig& config) {
  const auto is_mounted = [&config](const char* path) {
    return std::any_of(
        config.mounts.begin(), config.mounts.end(),
        [path](const driver::Mount& mount) { return mount.task_path == path; });
  };
  MOUNTD_ASSIGN(config.directories, directory.MakeTaskDirectories(config.name));
  if (is_mounted(kAlloc)) {
    config.directories.alloc.clear();
  }
  if (is_mounted(kLocal)) {
    config.directories.local.clear();
  }
  if (!is_mounted(kSecrets)) {
    MOUNTD_ASSIGN(config.directories.secrets, MakeSecrets(client, config));
  }
  return Ok();
}

}  // namespace

bool NeedsNamespaces(const Job& job) {
  return std::any_of(
      job.tasks.begin(), job.tasks.end(), [](const TaskSpec& task) {
        return task.config.network.mode == driver::NetworkMode::kGroup;
      });
}

Result<driver::NetworkIsolation> CreateNamespaces(const RunTasks& tasks,
                                                  const Job& job) {
  const std::string hostname = job.network ? job.network->hostname : "";
  MOUNTD_ASSIGN(driver::CreatedNetwork network,
                tasks.driver.CreateNetwork(job.allocation, hostname));
  return std::move(network.isolation);
}

Result<UniqueFd> OpenNamespaceOf(const driver::NetworkIsolation& isolation) {
  if (isolation.namespace_path.empty()) {
    return UniqueFd();
  }
  UniqueFd netns(
      ::open(isolation.namespace_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!netns.valid()) {
    return ErrnoError(errno, "open", isolation.namespace_path);
  }
  return netns;
}

Result<void> WatchTasks(const RunTasks& tasks, const Job& job) {
  const bool restarts =
      std::any_of(job.tasks.begin(), job.tasks.end(),
                  [](const TaskSpec& task) { return task.restart.Restarts(); });
  return restarts ? tasks.watch() : Ok();
}

Result<bool> StartTask(Client& client, const RunTasks& tasks, const Job& job,
                       std::size_t index,
                       const std::vector<MountStatus>& mounts,
                       const driver::NetworkIsolation& isolation) {
  TaskSpec spec = job.tasks.at(index);
  driver::TaskConfig& config = spec.config;
  config.allocation = job.allocation;
  config.job = job.allocation;
  if (config.network.mode == driver::NetworkMode::kGroup) {
    config.network = isolation;
  }
  AddMounts(job, mounts, config);
  MOUNTD_TRY(AddDirectories(client, tasks.directory, config));
  return JobTasks(tasks.driver, tasks.directory)
      .Start(spec, static_cast<std::uint32_t>(index));
}

}  // namespace mountd::agent
