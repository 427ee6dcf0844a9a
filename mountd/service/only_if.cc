// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/only_if.h"

#include <cstddef>
#include <string>
#include <vector>

#include "mountd/service/handed_out.h"

namespace mountd {
namespace {

constexpr std::size_t kMostNamed = 3;

// Returns "a", "a, b, c and 7 more".
std::string Summary(const std::vector<std::string>& objects) {
  std::string text;
  for (std::size_t i = 0; i < objects.size() && i < kMostNamed; ++i) {
    text += (i == 0 ? "" : ", ") + objects[i];
  }
  return objects.size() <= kMostNamed
             ? text
             : text + " and " + std::to_string(objects.size() - kMostNamed) +
                   " more";
}

// Adds the inboxes that a process has open. Such a process may bind the inbox
// into a task, and no mount reaches that task after a release. An inbox that
// nobody has open is no use, because drivers leave it to the release.
Result<void> AddOpenInboxes(const ServiceParts& parts,
                            const AllocationRecord& record,
                            std::vector<std::string>* used) {
  MOUNTD_ASSIGN(std::vector<HandedOutRecord> inboxes,
                parts.boot.handed_out.HandedOutOf(record.id));
  // Another user may have had an allocation of this name before.
  std::erase_if(inboxes, [&](const HandedOutRecord& one) {
    return one.kind != HandedOutKind::kInbox || one.uid != record.uid;
  });
  MOUNTD_ASSIGN(const HandedOutReport report, FindHandedOut(parts, inboxes));
  for (const HandedOutReport::Descriptor& one : report.descriptors) {
    used->push_back("inbox " + one.record.name);
  }
  return Ok();
}

}  // namespace

Result<OnlyIf> ParseOnlyIf(std::string_view name) {
  if (name.empty()) {
    return OnlyIf::kAny;
  }
  if (name == "unused") {
    return OnlyIf::kUnused;
  }
  if (name == "empty") {
    return OnlyIf::kEmpty;
  }
  return MakeError(Code::kInvalidArgument, "check", "options[\"only_if\"]",
                   R"(must be "unused" or "empty")");
}

Result<void> CheckOnlyIf(const ServiceParts& parts,
                         const AllocationRecord& record, OnlyIf only_if) {
  if (only_if == OnlyIf::kAny) {
    return Ok();
  }
  std::vector<std::string> used;
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> volumes,
                parts.state.volumes.PublicationsOf(record.id));
  for (const PublicationRecord& volume : volumes) {
    used.push_back("volume " + volume.alias);
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts.boot.mounts.MountsOf(record.id));
  for (const MountRecord& mount : mounts) {
    used.push_back("mount " + mount.task + "/" + mount.name);
  }
  MOUNTD_ASSIGN(const std::vector<PluginRecord> plugins,
                parts.state.plugins.ListPlugins());
  for (const PluginRecord& plugin : plugins) {
    if (plugin.allocation == record.id) {
      used.push_back("plugin " + plugin.id);
    }
  }
  if (only_if == OnlyIf::kEmpty) {
    MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                  parts.boot.networks.NetworksOf(record.id));
    for (const NetworkRecord& network : networks) {
      used.push_back("network " + network.interface);
    }
  }
  if (used.empty()) {
    MOUNTD_TRY(AddOpenInboxes(parts, record, &used));
  }
  return used.empty() ? Ok()
                      : Result<void>(MakeError(Code::kBusy, "release",
                                               "allocation " + record.id,
                                               "has " + Summary(used)));
}

}  // namespace mountd
