// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/config_document.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "agent/driver/bundle/checks.h"
#include "agent/driver/images/digest.h"
#include "agent/driver/images/image_reference.h"
#include "mountd/base/names.h"
#include "mountd/base/paths.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostId = 512;
constexpr std::uint32_t kMostWeight = 10'000;

// Replaces invalid UTF-8, because dump throws otherwise. A later check refuses
// such a configuration.
std::string Dump(const Json& document) {
  return document.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json ResourcesOf(const TaskResources& r) {
  return Json::array({r.memory_max, r.memory_low, r.cpu_weight, r.cpu_quota_us,
                      r.cpu_period_us, r.pids_max, r.cpuset, r.oom_kills_all});
}

Json MountsOf(const TaskConfig& config) {
  Json mounts = Json::array();
  for (const Mount& m : config.mounts) {
    mounts.push_back(
        Json::array({m.task_path, m.host_path, m.read_only, m.noexec,
                     static_cast<int>(m.propagation), m.request_name}));
  }
  for (const Device& d : config.devices) {
    mounts.push_back(Json::array(
        {"device", d.task_path, d.host_path, d.cgroup_permissions}));
  }
  return mounts;
}

Json EnvironmentOf(const TaskConfig& config) {
  Json variables = Json::array();
  for (const EnvironmentEntry& entry : config.environment) {
    variables.push_back(Json::array({entry.name, entry.value}));
  }
  return variables;
}

Json NetworkOf(const TaskConfig& config) {
  Json network =
      Json::array({static_cast<int>(config.network.mode),
                   config.network.namespace_path, config.network.labels});
  if (config.dns) {
    network.push_back(config.dns->servers);
    network.push_back(config.dns->searches);
    network.push_back(config.dns->options);
  }
  return network;
}

Error Wrong(const char* member, const std::string& value, std::string detail) {
  return MakeError(Code::kInvalidArgument, member, value, std::move(detail));
}

Result<void> CheckNetwork(const NetworkIsolation& network) {
  if (network.mode == NetworkMode::kTask) {
    return MakeError(Code::kNotSupported, "network", "task",
                     "this driver makes a network for an allocation, not for a "
                     "task; use the mode of a group");
  }
  if (network.mode == NetworkMode::kGroup) {
    return CheckPath("network.namespace_path", network.namespace_path);
  }
  return Ok();
}

// Returns the path without its symlinks. Parts that do not exist stay as they
// are.
std::string RealPath(const std::string& path) {
  std::error_code failed;
  const auto real = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : real.string();
}

// The shim opens the files by their path at each rotation. A task that writes
// to a directory above them could lead the shim to other files of the user.
Result<void> CheckNoTaskMoves(const TaskConfig& config, const char* member,
                              const std::string& path) {
  MOUNTD_TRY(CheckPath(member, path));
  const TaskDirectories& own = config.directories;
  std::vector<std::string> writable = {own.alloc, own.local, own.secrets};
  for (const Mount& mount : config.mounts) {
    if (!mount.read_only) {
      writable.push_back(mount.host_path);
    }
  }
  const std::string real = RealPath(path);
  for (const std::string& directory : writable) {
    if (!directory.empty() && paths::IsAtOrBelow(real, RealPath(directory))) {
      return Wrong(member, path,
                   "is in " + directory +
                       ", to which the task writes; choose a directory that no "
                       "task sees");
    }
  }
  return Ok();
}

// The shim follows no link on the way to a FIFO, so the FIFO may lie in a
// directory to which the task writes.
Result<void> CheckFifo(const char* member, const std::string& path) {
  MOUNTD_TRY(CheckPath(member, path));
  if (RealPath(path) != path) {
    return Wrong(member, path, "has a symlink; name the FIFO by its real path");
  }
  return Ok();
}

Result<void> CheckLogs(const TaskConfig& config) {
  if (config.logs.mode == LogMode::kFiles) {
    if (config.logs.max_file_bytes == 0 || config.logs.max_files == 0) {
      return Wrong("logs", config.id, "a log has at least one byte and a file");
    }
    return CheckNoTaskMoves(config, "directories.logs",
                            config.directories.logs);
  }
  if (config.logs.mode == LogMode::kFifos) {
    MOUNTD_TRY(CheckFifo("logs.stdout_path", config.logs.stdout_path));
    return CheckFifo("logs.stderr_path", config.logs.stderr_path);
  }
  return Ok();
}

}  // namespace

std::string DigestOf(const TaskConfig& c) {
  const TaskDirectories& d = c.directories;
  // An explicit array, because the library takes lists of pairs for an object.
  const Json document = Json::array(
      {c.id, c.allocation, c.name, c.job, c.image, c.entrypoint,
       Json(c.command), c.working_directory, c.user, c.hostname,
       EnvironmentOf(c), Json::array({d.alloc, d.local, d.secrets, d.logs}),
       ResourcesOf(c.resources), MountsOf(c), NetworkOf(c),
       Json::array({static_cast<int>(c.logs.mode), c.logs.stdout_path,
                    c.logs.stderr_path, c.logs.max_file_bytes,
                    c.logs.max_files}),
       c.read_only_root});
  return Sha256Hex(Dump(document));
}

Result<void> CheckResources(const TaskResources& resources) {
  if (resources.cpu_weight > kMostWeight) {
    return Wrong("resources.cpu_weight", std::to_string(resources.cpu_weight),
                 "a weight is 1 to 10000");
  }
  if (resources.cpu_quota_us != 0 &&
      (resources.cpu_period_us < 1000 || resources.cpu_period_us > 1'000'000)) {
    return Wrong("resources.cpu_period_us",
                 std::to_string(resources.cpu_period_us),
                 "a period is 1000 to 1000000 us");
  }
  return Ok();
}

Result<void> CheckConfig(const TaskConfig& config) {
  if (config.id.empty() || config.id.size() > kMostId) {
    return Wrong("id", config.id.substr(0, kMostId),
                 "an id has 1 to 512 bytes");
  }
  MOUNTD_TRY(CheckText("id", config.id));
  MOUNTD_TRY(Name::Parse("allocation", config.allocation));
  MOUNTD_TRY(Name::Parse("name", config.name));
  MOUNTD_TRY(ParseImageReference(config.image));
  MOUNTD_TRY(CheckNetwork(config.network));
  MOUNTD_TRY(CheckLogs(config));
  MOUNTD_TRY(CheckResources(config.resources));
  return Ok();
}

}  // namespace mountd::driver
