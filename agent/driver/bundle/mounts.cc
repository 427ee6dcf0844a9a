// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/mounts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "agent/driver/bundle/checks.h"
#include "mountd/base/names.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

Json MountOf(const char* type, std::string source, std::string destination,
             std::vector<std::string> options) {
  return {{"type", type},
          {"source", std::move(source)},
          {"destination", std::move(destination)},
          {"options", std::move(options)}};
}

// Sets nosuid and nodev, whatever the task asks for, because mountd's mounts
// have both flags and a container may not clear them.
Json BindOf(const TaskMount& mount) {
  std::vector<std::string> options = {
      "rbind",
      mount.propagation == TaskPropagation::kPrivate ? "rprivate" : "rslave",
      "nosuid", "nodev"};
  if (mount.no_exec) {
    options.emplace_back("noexec");
  }
  if (mount.read_only) {
    options.emplace_back("ro");
  }
  return MountOf("bind", mount.source, mount.destination, std::move(options));
}

Json Defaults(const DefaultMounts& defaults) {
  std::vector<std::string> pts = {"nosuid", "noexec", "newinstance",
                                  "ptmxmode=0666", "mode=0620"};
  if (defaults.has_tty_group) {
    pts.emplace_back("gid=5");
  }
  return {
      MountOf("proc", "proc", "/proc", {"nosuid", "noexec", "nodev"}),
      MountOf("tmpfs", "tmpfs", "/dev",
              {"nosuid", "noexec", "strictatime", "mode=755", "size=65536k"}),
      MountOf("devpts", "devpts", "/dev/pts", std::move(pts)),
      MountOf("tmpfs", "shm", "/dev/shm",
              {"nosuid", "noexec", "nodev", "mode=1777",
               "size=" + std::to_string(defaults.shm_bytes)}),
      MountOf("mqueue", "mqueue", "/dev/mqueue", {"nosuid", "noexec", "nodev"}),
      MountOf("sysfs", "sysfs", "/sys", {"nosuid", "noexec", "nodev", "ro"}),
      MountOf("cgroup", "cgroup", "/sys/fs/cgroup",
              {"nosuid", "noexec", "nodev", "relatime", "ro"}),
  };
}

std::ptrdiff_t DepthOf(const TaskMount& mount) {
  return std::count(mount.destination.begin(), mount.destination.end(), '/');
}

Result<void> CheckMount(const TaskMount& mount) {
  MOUNTD_TRY(CheckPath("mount source", mount.source));
  MOUNTD_TRY(CheckDestination("mount destination", mount.destination));
  if (mount.propagation == TaskPropagation::kBidirectional) {
    return MakeError(
        Code::kNotSupported, "mount", mount.destination,
        "propagation \"bidirectional\" cannot work in a rootless container, "
        "because a mount in its user namespace never reaches the host; use "
        "\"host-to-task\" or \"private\"");
  }
  return Ok();
}

Error Twice(const std::string& destination) {
  return MakeError(Code::kInvalidArgument, "mount destination", destination,
                   "another mount or link of the task has it");
}

Result<void> CheckLink(const Inbox& inbox, const InboxLink& link) {
  MOUNTD_TRY(CheckDestination("link", link.destination));
  MOUNTD_TRY(Name::Parse("mount", link.mount));
  if (inbox.source.empty()) {
    return MakeError(Code::kInvalidArgument, "link", link.destination,
                     "the task has no inbox");
  }
  return Ok();
}

// Refuses a mount beneath a link, because the runtime would follow the link and
// mount in the inbox.
Result<void> CheckNothingBeneath(const std::set<std::string>& destinations,
                                 const InboxLink& link) {
  for (const std::string& other : destinations) {
    if (other != link.destination && IsAtOrBeneath(other, link.destination)) {
      return MakeError(Code::kInvalidArgument, "mount destination", other,
                       "the path is beneath " + link.destination +
                           ", which is a link into the inbox");
    }
  }
  return Ok();
}

// Names in /dev that the runtime makes in each container.
constexpr std::array kTakenDevices = {
    "/dev/console", "/dev/fd",     "/dev/full",   "/dev/mqueue",  "/dev/null",
    "/dev/ptmx",    "/dev/pts",    "/dev/random", "/dev/shm",     "/dev/stderr",
    "/dev/stdin",   "/dev/stdout", "/dev/tty",    "/dev/urandom", "/dev/zero"};

Result<void> CheckDevice(const TaskDevice& device) {
  MOUNTD_TRY(CheckPath("device source", device.source));
  MOUNTD_TRY(CheckPath("device destination", device.destination));
  if (device.destination == "/dev" ||
      !IsAtOrBeneath(device.destination, "/dev")) {
    return MakeError(Code::kInvalidArgument, "device destination",
                     device.destination,
                     "a device of a task is beneath /dev; choose another path");
  }
  for (const char* taken : kTakenDevices) {
    if (IsAtOrBeneath(device.destination, taken)) {
      return MakeError(Code::kInvalidArgument, "device destination",
                       device.destination,
                       "each container has its own " + std::string(taken) +
                           "; choose another path");
    }
  }
  return Ok();
}

}  // namespace

Result<void> CheckTaskDevices(const std::vector<TaskDevice>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    MOUNTD_TRY(CheckDevice(devices[i]));
    for (std::size_t j = 0; j < i; ++j) {
      if (IsAtOrBeneath(devices[i].destination, devices[j].destination) ||
          IsAtOrBeneath(devices[j].destination, devices[i].destination)) {
        return MakeError(Code::kInvalidArgument, "device destination",
                         devices[i].destination,
                         "another device of the task has the path, or one "
                         "above or beneath it");
      }
    }
  }
  return Ok();
}

Json DevicesJson(const std::vector<TaskDevice>& devices) {
  Json all = Json::array();
  for (const TaskDevice& device : devices) {
    // "ro" still allows writes to the device, but keeps a task from changing
    // the mode and the owner of the host's node.
    all.push_back(MountOf("bind", device.source, device.destination,
                          {"bind", "rprivate", "nosuid", "noexec", "ro"}));
  }
  return all;
}

std::string TargetOfLink(const Inbox& inbox, const InboxLink& link) {
  return inbox.destination + "/" + link.mount;
}

Result<void> CheckTaskMounts(const std::vector<TaskMount>& mounts,
                             const Inbox& inbox) {
  std::set<std::string> destinations;
  for (const TaskMount& mount : mounts) {
    MOUNTD_TRY(CheckMount(mount));
    if (!destinations.insert(mount.destination).second) {
      return Twice(mount.destination);
    }
  }
  for (const InboxLink& link : inbox.links) {
    MOUNTD_TRY(CheckLink(inbox, link));
    if (!destinations.insert(link.destination).second) {
      return Twice(link.destination);
    }
  }
  if (!inbox.source.empty()) {
    MOUNTD_TRY(CheckPath("inbox", inbox.source));
    MOUNTD_TRY(CheckDestination("inbox", inbox.destination));
    for (const std::string& other : destinations) {
      if (IsAtOrBeneath(other, inbox.destination)) {
        return Twice(other);
      }
    }
    destinations.insert(inbox.destination);
  }
  for (const InboxLink& link : inbox.links) {
    MOUNTD_TRY(CheckNothingBeneath(destinations, link));
  }
  return Ok();
}

Json MountsJson(const DefaultMounts& defaults,
                const std::vector<TaskMount>& mounts, const Inbox& inbox) {
  Json all = Defaults(defaults);
  std::vector<TaskMount> sorted = mounts;
  if (!inbox.source.empty()) {
    sorted.push_back({inbox.source, inbox.destination, true, false,
                      TaskPropagation::kHostToTask});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TaskMount& a, const TaskMount& b) {
                     return DepthOf(a) < DepthOf(b);
                   });
  for (const TaskMount& mount : sorted) {
    all.push_back(BindOf(mount));
  }
  return all;
}

}  // namespace mountd::driver
