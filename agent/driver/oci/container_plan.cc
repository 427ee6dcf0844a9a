// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/container_plan.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "agent/driver/bundle/config.h"
#include "agent/driver/images/beneath.h"
#include "agent/driver/images/image_reference.h"
#include "agent/driver/images/task_user.h"
#include "agent/driver/namespaces/namespaces.h"
#include "agent/driver/oci/devices.h"
#include "agent/driver/oci/files.h"
#include "agent/driver/oci/task_mounts.h"

namespace mountd::driver {
namespace {

constexpr char kPath[] =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// mount(2) takes a page of options.
constexpr std::size_t kMostOptions = 4095;

// Returns the image's variables, which the task's variables override.
std::map<std::string, std::string> VariablesOf(const TaskConfig& config,
                                               const ImageConfig& image,
                                               const TaskUser& user,
                                               const std::string& hostname) {
  std::map<std::string, std::string> variables = {
      {"PATH", kPath}, {"HOME", user.home}, {"HOSTNAME", hostname}};
  for (const std::string& variable : image.environment) {
    const std::size_t equals = variable.find('=');
    if (equals != std::string::npos && equals != 0) {
      variables[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
  }
  for (const EnvironmentEntry& entry : config.environment) {
    variables[entry.name] = entry.value;
  }
  return variables;
}

std::string HostnameOf(const TaskConfig& config) {
  if (!config.hostname.empty()) {
    return config.hostname;
  }
  const auto label = config.network.labels.find(kHostnameLabel);
  return label != config.network.labels.end() ? label->second : config.name;
}

bool IsMapped(const IdMap& map, std::uint32_t id) {
  for (const IdMapLine& line : map) {
    if (id >= line.inside && id - line.inside < line.count) {
      return true;
    }
  }
  return false;
}

Result<ProcessUser> UserOf(const TaskUser& user, const IdMaps& maps) {
  ProcessUser ids{user.uid, user.gid, {}};
  if (!IsMapped(maps.uids, user.uid) || !IsMapped(maps.gids, user.gid)) {
    return MakeError(Code::kInvalidArgument, "user",
                     std::to_string(user.uid) + ":" + std::to_string(user.gid),
                     maps.one_id()
                         ? maps.one_id_reason
                         : "the id is outside of this user's subordinate ids");
  }
  for (const gid_t gid : user.additional_gids) {
    // A container cannot have a group that its namespace does not have.
    if (IsMapped(maps.gids, gid) && !maps.one_id()) {
      ids.additional_gids.push_back(gid);
    }
  }
  return ids;
}

// The kernel counts the fds in flight of all of a user's programs together, and
// lets a program send fds while this sum is below the program's own limit. So a
// task gets half of the driver's limit, and the other half is left for the
// driver and the shims. The soft limit is lower, because some programs look at
// each fd up to it.
ProcessLimit FilesOfTask() {
  constexpr std::uint64_t kUsualSoft = 1024;
  rlimit ours{};
  ::getrlimit(RLIMIT_NOFILE, &ours);
  const std::uint64_t hard = ours.rlim_max / 2;
  return {"RLIMIT_NOFILE", std::min(kUsualSoft, hard), hard};
}

Result<void> TakeNamespaces(Host& host, const TaskConfig& config,
                            const IdMaps& maps, ContainerPlan* plan) {
  if (config.network.mode == NetworkMode::kGroup) {
    plan->network_namespace.reset(
        ::open(config.network.namespace_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!plan->network_namespace.valid()) {
      return ErrnoError(errno, "open", config.network.namespace_path,
                        "the allocation has no network; create it first");
    }
    MOUNTD_ASSIGN(plan->user_namespace,
                  UserNamespaceOf(plan->network_namespace.get()));
    return Ok();
  }
  const bool has_own = config.network.mode == NetworkMode::kNone;
  MOUNTD_ASSIGN(NewNamespaces made,
                has_own ? host.namespaces().Take()
                        : MakeNamespaces(maps, WithNetwork::kNo));
  plan->user_namespace = std::move(made.user);
  plan->network_namespace = std::move(made.network);
  return Ok();
}

// Copies the image's mode of "/" to the upper directory, because overlayfs
// shows the upper directory's mode.
Result<void> CopyRootMode(int rootfs, const TaskPlace& place) {
  struct stat root = {};
  if (::fstat(rootfs, &root) != 0 ||
      ::chmod(place.Upper().c_str(), root.st_mode & 07777) != 0) {
    return ErrnoError(errno, "chmod", "the upper directory");
  }
  return Ok();
}

Result<std::string> OverlayOf(const Image& image, const TaskPlace& place) {
  if (image.rootfs.find_first_of(",:\\\"") != std::string::npos) {
    return MakeError(Code::kInvalidArgument, "image", image.rootfs,
                     "an overlay's path has no comma, colon, quote or "
                     "backslash");
  }
  std::string options = "userxattr,lowerdir=" + image.rootfs +
                        ",upperdir=" + place.Upper() +
                        ",workdir=" + place.path + "/work";
  if (options.size() > kMostOptions) {
    return MakeError(Code::kInvalidArgument, "image", image.rootfs,
                     "the path is too long for an overlay");
  }
  return options;
}

}  // namespace

Result<std::vector<std::string>> ArgumentsOf(const TaskConfig& config,
                                             const ImageConfig& image) {
  std::vector<std::string> arguments;
  std::vector<std::string> rest = config.command;
  if (!config.entrypoint.empty()) {
    arguments = {config.entrypoint};
  } else {
    arguments = image.entrypoint;
    if (rest.empty()) {
      rest = image.command;
    }
  }
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  if (arguments.empty()) {
    return MakeError(Code::kInvalidArgument, "command", config.id,
                     "neither the task nor its image says what to run");
  }
  return arguments;
}

CgroupLimits LimitsOf(const TaskResources& resources) {
  const auto or_none = [](std::uint64_t value) {
    return value == 0 ? CgroupLimits::kNone : value;
  };
  constexpr std::uint32_t kDefaultWeight = 100;
  CgroupLimits limits;
  limits.memory_max = or_none(resources.memory_max);
  if (resources.memory_max == 0) {
    limits.memory_swap_max = CgroupLimits::kNone;
  }
  limits.memory_low = resources.memory_low;
  limits.memory_oom_group = resources.oom_kills_all;
  limits.cpu_weight =
      resources.cpu_weight == 0 ? kDefaultWeight : resources.cpu_weight;
  limits.cpu_quota_us = or_none(resources.cpu_quota_us);
  limits.cpu_period_us = resources.cpu_period_us;
  // The kernel counts all processes of a user together. So a task without a
  // limit of its own could keep the agent from forking.
  limits.pids_max = resources.pids_max == 0 ? kDefaultPids : resources.pids_max;
  // An empty line gives the cgroup all processors of its parent.
  limits.cpuset_cpus = resources.cpuset.empty() ? "\n" : resources.cpuset;
  return limits;
}

Result<ContainerPlan> PlanContainer(Host& host, const TaskConfig& config,
                                    TaskPlace& place) {
  if (!host.maps()) {
    return host.maps().error();
  }
  const IdMaps& maps = *host.maps();
  ContainerPlan plan;
  MOUNTD_ASSIGN(const ImageReference reference,
                ParseImageReference(config.image));
  int space = -1;
  if (reference.kind != ImageReference::Kind::kDirectory) {
    MOUNTD_ASSIGN(space, host.namespaces().Shared());
  }
  MOUNTD_ASSIGN(plan.image, host.images().Prepare(reference, space));
  MOUNTD_ASSIGN(const UniqueFd rootfs, OpenTree(plan.image.rootfs));
  const ImageConfig& image = plan.image.config;
  MOUNTD_ASSIGN(const TaskUser user,
                ResolveUser(rootfs.get(),
                            config.user.empty() ? image.user : config.user));
  MOUNTD_ASSIGN(plan.overlay, OverlayOf(plan.image, place));
  MOUNTD_TRY(CopyRootMode(rootfs.get(), place));
  MOUNTD_TRY(TakeNamespaces(host, config, maps, &plan));

  ContainerConfig container;
  container.hostname = HostnameOf(config);
  container.process.env = VariablesOf(config, image, user, container.hostname);
  const std::string& directory = config.working_directory.empty()
                                     ? image.working_directory
                                     : config.working_directory;
  container.process.cwd = directory.empty() ? "/" : directory;
  MOUNTD_ASSIGN(container.process.user, UserOf(user, maps));
  MOUNTD_ASSIGN(container.process.capabilities, CapabilitiesWith({}));
  container.process.rlimits = {FilesOfTask()};
  place.record.process = container.process;
  MOUNTD_ASSIGN(container.process.args, ArgumentsOf(config, image));
  container.rootfs = place.path + "/bundle/rootfs";
  container.read_only_rootfs = config.read_only_root;
  MOUNTD_ASSIGN(const bool is_crun, host.IsCrun());
  container.cgroups_path = is_crun ? "" : host.CgroupsPath(place.Cgroup());
  container.default_mounts.has_tty_group = !maps.one_id();
  MOUNTD_ASSIGN(container.devices, DevicesOf(config.devices));
  MOUNTD_TRY(AddTaskMounts(host, config, rootfs.get(), place, &container));
  MOUNTD_ASSIGN(const std::string text, ConfigFile(container));
  MOUNTD_ASSIGN(const UniqueFd bundle,
                OpenDirectory(place.directory.get(), "bundle"));
  MOUNTD_TRY(WriteFile(bundle.get(), "config.json", text, Sync::kNone));
  place.record.image_digest = plan.image.digest;
  place.record.stop_signal = image.stop_signal;
  return plan;
}

}  // namespace mountd::driver
