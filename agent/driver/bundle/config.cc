// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/config.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>

#include "agent/driver/bundle/checks.h"
#include "agent/driver/bundle/process_json.h"
#include "agent/driver/bundle/seccomp.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostHostname = 64;  // sethostname(2)
constexpr std::uint64_t kMostSigned = std::numeric_limits<std::int64_t>::max();

// Files that tell a task about the machine or its devices. Docker and podman
// mask the same files.
Json MaskedPaths() {
  return {
      "/proc/acpi",        "/proc/asound",   "/proc/interrupts",
      "/proc/kcore",       "/proc/keys",     "/proc/latency_stats",
      "/proc/sched_debug", "/proc/scsi",     "/proc/timer_list",
      "/proc/timer_stats", "/sys/dev/block", "/sys/devices/virtual/powercap",
      "/sys/firmware",     "/sys/fs/selinux"};
}

Json ReadOnlyPaths() {
  return {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
          "/proc/sysrq-trigger"};
}

Error WrongMember(const char* member, std::string value, std::string detail) {
  return MakeError(Code::kInvalidArgument, member, std::move(value),
                   std::move(detail));
}

Result<void> CheckHostname(const std::string& hostname) {
  const bool good =
      std::all_of(hostname.begin(), hostname.end(), [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
               letter == '-' || letter == '.';
      });
  if (!good || hostname.empty() || hostname.size() > kMostHostname) {
    return WrongMember("hostname", hostname.substr(0, kMostHostname),
                       "a host name has 1 to 64 letters, digits, \"-\" and "
                       "\".\"");
  }
  return Ok();
}

Result<void> CheckCpuset(const std::string& cpus) {
  const bool good = std::all_of(cpus.begin(), cpus.end(), [](char letter) {
    return (letter >= '0' && letter <= '9') || letter == '-' || letter == ',';
  });
  return good ? Ok()
              : Result<void>(WrongMember("cpuset.cpus", cpus,
                                         "a list of processors is like "
                                         "\"0-3,7\""));
}

// Checks that a number, if there is one, is from `least` to `most`.
Result<void> CheckRange(const char* member,
                        const std::optional<std::uint64_t>& number,
                        std::uint64_t least, std::uint64_t most) {
  if (number && (*number < least || *number > most)) {
    return WrongMember(member, std::to_string(*number),
                       "the number is not from " + std::to_string(least) +
                           " to " + std::to_string(most));
  }
  return Ok();
}

Result<void> CheckResources(const ContainerResources& resources) {
  // Half of the largest number, because the sum of memory and swap must fit,
  // too.
  constexpr std::uint64_t kMostBytesOfMemory = kMostSigned / 2;
  MOUNTD_TRY(
      CheckRange("memory.max", resources.memory_max, 1, kMostBytesOfMemory));
  MOUNTD_TRY(CheckRange("memory.swap.max", resources.memory_swap_max, 0,
                        kMostBytesOfMemory));
  MOUNTD_TRY(
      CheckRange("memory.low", resources.memory_low, 0, kMostBytesOfMemory));
  MOUNTD_TRY(CheckRange("cpu.weight", resources.cpu_weight, 1, 10000));
  MOUNTD_TRY(CheckRange("cpu.max", resources.cpu_quota_us, 1000, kMostSigned));
  MOUNTD_TRY(
      CheckRange("cpu.max period", resources.cpu_period_us, 1000, 1000000));
  MOUNTD_TRY(CheckRange("pids.max", resources.pids_max, 1, kMostSigned));
  if (resources.memory_swap_max && !resources.memory_max) {
    return WrongMember("memory.swap.max", "",
                       "a limit of swap needs a limit of memory");
  }
  return CheckCpuset(resources.cpuset_cpus);
}

Json MemoryJson(const ContainerResources& resources) {
  Json memory = Json::object();
  if (resources.memory_max) {
    memory["limit"] = *resources.memory_max;
    // The OCI member "swap" counts memory and swap together.
    memory["swap"] =
        *resources.memory_max + resources.memory_swap_max.value_or(0);
  }
  if (resources.memory_low) {
    memory["reservation"] = *resources.memory_low;
  }
  return memory;
}

Json CpuJson(const ContainerResources& resources) {
  Json cpu = Json::object();
  if (resources.cpu_quota_us) {
    cpu["quota"] = *resources.cpu_quota_us;
  }
  if (resources.cpu_period_us) {
    cpu["period"] = *resources.cpu_period_us;
  }
  if (!resources.cpuset_cpus.empty()) {
    cpu["cpus"] = resources.cpuset_cpus;
  }
  return cpu;
}

// Files of cgroup v2 that the specification has no member for.
Json UnifiedJson(const ContainerResources& resources) {
  Json unified = Json::object();
  if (resources.cpu_weight) {
    unified["cpu.weight"] = std::to_string(*resources.cpu_weight);
  }
  if (resources.memory_oom_group) {
    unified["memory.oom.group"] = *resources.memory_oom_group ? "1" : "0";
  }
  return unified;
}

Json ResourcesJson(const ContainerResources& resources) {
  Json object = Json::object();
  const auto add = [&object](const char* member, Json value) {
    if (!value.empty()) {
      object[member] = std::move(value);
    }
  };
  add("memory", MemoryJson(resources));
  add("cpu", CpuJson(resources));
  add("unified", UnifiedJson(resources));
  if (resources.pids_max) {
    object["pids"] = {{"limit", *resources.pids_max}};
  }
  return object;
}

Json NamespacesJson() {
  Json namespaces = Json::array();
  for (const char* type : {"pid", "mount", "ipc", "uts", "cgroup"}) {
    namespaces.push_back({{"type", type}});
  }
  return namespaces;
}

Json LinuxJson(const ContainerConfig& config) {
  Json object = {
      {"namespaces", NamespacesJson()},
      // Without "rslave", later mounts of mountd do not reach the inbox.
      {"rootfsPropagation", "rslave"},
      {"maskedPaths", MaskedPaths()},
      {"readonlyPaths", ReadOnlyPaths()},
      {"resources", ResourcesJson(config.resources)},
      {"seccomp", SeccompFor(config.process.capabilities.bounding)}};
  if (!config.cgroups_path.empty()) {
    object["cgroupsPath"] = config.cgroups_path;
  }
  return object;
}

}  // namespace

Result<std::string> ConfigFile(const ContainerConfig& config) {
  Json object;
  MOUNTD_ASSIGN(object["process"], ProcessJson(config.process));
  MOUNTD_TRY(CheckPath("rootfs", config.rootfs));
  MOUNTD_TRY(CheckHostname(config.hostname));
  MOUNTD_TRY(CheckTaskMounts(config.mounts, config.inbox));
  MOUNTD_TRY(CheckTaskDevices(config.devices));
  MOUNTD_TRY(CheckResources(config.resources));
  if (!config.cgroups_path.empty()) {
    MOUNTD_TRY(CheckPath("cgroup", config.cgroups_path));
  }
  object["ociVersion"] = "1.0.2";
  object["root"] = {{"path", config.rootfs},
                    {"readonly", config.read_only_rootfs}};
  object["hostname"] = config.hostname;
  object["mounts"] =
      MountsJson(config.default_mounts, config.mounts, config.inbox);
  for (Json& device : DevicesJson(config.devices)) {
    object["mounts"].push_back(std::move(device));
  }
  object["linux"] = LinuxJson(config);
  return FileText(object);
}

}  // namespace mountd::driver
