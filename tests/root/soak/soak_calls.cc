// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/soak/soak_calls.h"

#include <net/if.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "mountd/base/number.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {
namespace {

constexpr char kAllocations[] = "/run/mountd/base/a";

template <typename T>
Result<void> Plain(const Result<T>& result) {
  return result ? Ok() : Result<void>(result.error());
}

agent::BindMountSpec SpecOf(const SoakOperation& operation) {
  agent::BindMountSpec spec;
  spec.task = operation.task;
  spec.name = operation.name;
  spec.source_type = operation.mount.type;
  spec.source = operation.mount.source;
  spec.read_only = operation.mount.read_only;
  spec.propagation = operation.mount.propagation;
  if (operation.mount.type == agent::SourceType::kTmpfs) {
    spec.tmpfs = agent::TmpfsOptions{.size = 65'536};
  }
  return spec;
}

agent::NetworkSpec NetworkOf(const SoakOperation& operation) {
  agent::NetworkSpec spec;
  spec.mode = operation.network.mode;
  spec.network = operation.network.network;
  spec.interface = operation.task;
  for (const std::uint16_t port : operation.network.ports) {
    spec.ports.push_back(
        {.label = "p" + std::to_string(port), .host = port, .container = 80});
  }
  return spec;
}

agent::VolumeSpec VolumeOf(const SoakOperation& operation) {
  agent::VolumeSpec spec;
  spec.alias = operation.task;
  spec.volume = operation.name;
  spec.plugin = "fault";
  spec.usage.access_mode = "multi-node-multi-writer";
  return spec;
}

// One line for each object.
using Lines = std::set<std::string>;

std::string Compared(const std::string& what, const Lines& wanted,
                     const Lines& found) {
  std::string text;
  for (const std::string& line : wanted) {
    text += found.contains(line) ? "" : what + ": missing " + line + "\n";
  }
  for (const std::string& line : found) {
    text += wanted.contains(line) ? "" : what + ": unexpected " + line + "\n";
  }
  return text;
}

std::string LineOf(const std::string& task, const std::string& name,
                   const SoakMount& mount) {
  constexpr const char* kNames[] = {"private", "host-to-task", "bidirectional"};
  return task + "/" + name + " " +
         std::string(agent::SourceTypeName(mount.type)) + ":" + mount.source +
         (mount.read_only ? " ro " : " rw ") +
         kNames[static_cast<int>(mount.propagation)];
}

Lines LinesOf(const SoakAllocation& allocation) {
  Lines lines;
  for (const auto& [alias, volume] : allocation.volumes) {
    lines.insert("volume " + alias + "=" + volume + " published");
  }
  for (const auto& [key, mount] : allocation.mounts) {
    lines.insert("mount " + LineOf(key.first, key.second, mount) + " attached");
  }
  for (const auto& [interface, network] : allocation.networks) {
    std::string line = "network " + interface + " " + network.network;
    for (const std::uint16_t port : network.ports) {
      line += " " + std::to_string(port);
    }
    lines.insert(line);
  }
  for (const std::string& task : allocation.inboxes) {
    lines.insert("inbox " + task);
  }
  return lines;
}

Lines LinesOf(const agent::AllocationStatus& status) {
  Lines lines;
  for (const agent::VolumeStatus& volume : status.volumes) {
    lines.insert("volume " + volume.alias + "=" + volume.volume + " " +
                 volume.state);
  }
  for (const agent::MountStatus& mount : status.mounts) {
    lines.insert("mount " + mount.task + "/" + mount.name + " " +
                 mount.source_type + ":" + mount.source +
                 (mount.config.read_only ? " ro " : " rw ") +
                 mount.config.propagation + " " + mount.state);
  }
  for (const agent::NetworkStatus& network : status.networks) {
    std::string line = "network " + network.interface + " " + network.network;
    for (const agent::Port& port : network.ports) {
      line += " " + std::to_string(port.host);
    }
    lines.insert(line);
  }
  for (const std::string& task : status.inboxes) {
    lines.insert("inbox " + task);
  }
  return lines;
}

std::string AllocationsDiffer(const SoakModel& model, agent::Client& client) {
  const auto all = client.ListAllocations();
  if (!all) {
    return "ListAllocations: " + all.error().Message() + "\n";
  }
  Lines wanted;
  Lines found;
  for (const auto& [id, unused] : model) {
    wanted.insert(id + " prepared");
  }
  for (const agent::AllocationEntry& entry : *all) {
    found.insert(entry.id + " " + entry.state);
  }
  std::string text = Compared("allocations", wanted, found);
  for (const auto& [id, allocation] : model) {
    const auto status = client.GetAllocation(id);
    text += status ? Compared(id, LinesOf(allocation), LinesOf(*status))
                   : id + ": " + status.error().Message() + "\n";
  }
  return text;
}

std::string VolumesDiffer(const SoakModel& model, agent::Client& client) {
  Lines wanted;
  for (const auto& [id, allocation] : model) {
    for (const auto& [alias, volume] : allocation.volumes) {
      wanted.insert(volume + " staged");
      wanted.insert(volume + " of " + id + "/" + alias);
    }
  }
  const auto volumes = client.ListVolumes();
  if (!volumes) {
    return "ListVolumes: " + volumes.error().Message() + "\n";
  }
  Lines found;
  for (const agent::StagedVolume& volume : *volumes) {
    found.insert(volume.volume + " " + volume.state);
    for (const agent::VolumeUser& user : volume.users) {
      found.insert(volume.volume + " of " + user.allocation + "/" + user.alias);
    }
  }
  return Compared("volumes", wanted, found);
}

std::string OwedDiffers(agent::Client& client) {
  const auto owed = client.ListOwed();
  if (!owed) {
    return "ListOwed: " + owed.error().Message() + "\n";
  }
  std::string text;
  for (const agent::OwedTeardown& one : *owed) {
    text += "owed: " + one.kind + " " + one.object + ": " + one.reason + "\n";
  }
  return text;
}

// Compares the mounts below allocations, and their number.
std::string MountsDiffer(const SoakModel& model) {
  Lines wanted;
  std::size_t count = 0;
  for (const auto& [id, allocation] : model) {
    for (const auto& [key, mount] : allocation.mounts) {
      wanted.insert(id + "/" + key.first + "/" + key.second +
                    (mount.read_only ? " ro" : " rw"));
      ++count;
    }
  }
  Lines found;
  std::size_t there = 0;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::string id, parent, device, root, point, options;
    std::istringstream(line) >> id >> parent >> device >> root >> point >>
        options;
    const std::string prefix = std::string(kAllocations) + "/";
    if (!point.starts_with(prefix)) {
      continue;
    }
    const bool kept = options.find("nosuid") != std::string::npos &&
                      options.find("nodev") != std::string::npos;
    found.insert(point.substr(prefix.size()) + " " + options.substr(0, 2) +
                 (kept ? "" : " without nosuid, nodev"));
    ++there;
  }
  return Compared("mountinfo", wanted, found) +
         (there == count ? "" : "mountinfo: one is there twice\n");
}

std::size_t HostLinks() {
  std::size_t count = 0;
  struct if_nameindex* links = ::if_nameindex();
  for (auto* link = links; link != nullptr && link->if_index != 0; ++link) {
    count += std::string(link->if_name).starts_with("md") ? 1U : 0U;
  }
  ::if_freenameindex(links);
  return count;
}

// Returns the host ports in the ruleset's maps. Every number of that size in
// the elements is such a port.
Lines MappedPorts() {
  Lines ports;
  for (const std::string& item : Inventory::Take().items) {
    if (!item.starts_with("nft ")) {
      continue;
    }
    std::string number;
    for (const char c : item + " ") {
      if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
        number += c;
        continue;
      }
      const auto value = ParseNumber<std::uint32_t>(number);
      if (value && *value >= 20'000 && *value < 21'000) {
        ports.insert(number);
      }
      number.clear();
    }
  }
  return ports;
}

std::string NetworksDiffer(const SoakModel& model) {
  Lines names;
  Lines ports;
  std::size_t links = 0;
  for (const auto& [id, allocation] : model) {
    for (const auto& [interface, network] : allocation.networks) {
      names.insert(id);
      ++links;
      for (const std::uint16_t port : network.ports) {
        ports.insert(std::to_string(port));
      }
    }
  }
  Lines pinned;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator("/run/netns", none)) {
    pinned.insert(entry.path().filename().string());
  }
  std::string text = Compared("/run/netns", names, pinned) +
                     Compared("ports", ports, MappedPorts());
  if (const std::size_t there = HostLinks(); there != links) {
    text += "links: " + std::to_string(there) + ", not " +
            std::to_string(links) + "\n";
  }
  return text;
}

}  // namespace

Result<void> Call(agent::Client& client, const SoakOperation& operation) {
  const std::string& id = operation.allocation;
  switch (operation.kind) {
    case SoakKind::kPrepare:
      return Plain(client.PrepareAllocation(id));
    case SoakKind::kRelease:
      return Plain(client.ReleaseAllocation(id));
    case SoakKind::kPublish:
      return Plain(client.PublishVolume(id, VolumeOf(operation)));
    case SoakKind::kUnpublish:
      return client.UnpublishVolume(id, operation.task);
    case SoakKind::kBind:
      return Plain(client.BindMount(id, SpecOf(operation)));
    case SoakKind::kReplace:
      return Plain(client.ReplaceMount(id, SpecOf(operation)));
    case SoakKind::kUnmount:
      return client.Unmount(id, operation.task, operation.name);
    case SoakKind::kPrepareInbox:
      return Plain(client.PrepareInbox(id, operation.task));
    case SoakKind::kRemoveInbox:
      return client.RemoveInbox(id, operation.task);
    case SoakKind::kSetup:
      return Plain(client.SetupNetwork(id, NetworkOf(operation)));
    case SoakKind::kTeardown:
      break;
  }
  return client.TeardownNetwork(id, operation.task);
}

bool IsForNow(const Result<void>& result) {
  if (result) {
    return false;
  }
  const Code code = result.error().code;
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded ||
         code == Code::kAborted || code == Code::kInProgress;
}

std::string DifferenceFrom(const SoakModel& model, agent::Client& client) {
  return AllocationsDiffer(model, client) + VolumesDiffer(model, client) +
         OwedDiffers(client) + MountsDiffer(model) + NetworksDiffer(model);
}

}  // namespace mountd::testing
