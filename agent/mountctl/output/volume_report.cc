// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/volume_report.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "agent/mountctl/output/output.h"
#include "agent/mountctl/output/pages.h"

namespace mountd::agent {
namespace {

Result<std::optional<StagedVolume>> FindStaged(Client& client,
                                               const std::string& plugin,
                                               const std::string& volume) {
  MOUNTD_ASSIGN(const auto all, client.ListVolumes());
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const StagedVolume& each) {
        return each.plugin == plugin && each.volume == volume;
      });
  return found == all.end() ? std::optional<StagedVolume>()
                            : std::optional(*found);
}

Result<std::optional<PluginVolume>> FindKnown(Client& client,
                                              const std::string& plugin,
                                              const std::string& volume) {
  MOUNTD_ASSIGN(const auto all, AllPluginVolumes(client, plugin));
  const auto found = std::find_if(
      all.begin(), all.end(),
      [&](const PluginVolume& each) { return each.volume == volume; });
  return found == all.end() ? std::optional<PluginVolume>()
                            : std::optional(*found);
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? ToJson(*value) : Json();
}

}  // namespace

Result<VolumeReport> ReportOfAlias(Client& client,
                                   const std::string& allocation,
                                   const std::string& alias) {
  MOUNTD_ASSIGN(const AllocationStatus status,
                client.GetAllocation(allocation));
  const auto found = std::find_if(
      status.volumes.begin(), status.volumes.end(),
      [&](const VolumeStatus& each) { return each.alias == alias; });
  if (found == status.volumes.end()) {
    return MakeError(Code::kNotFound, "volume", allocation + "/" + alias,
                     "the allocation has no volume with this alias");
  }
  VolumeReport report{found->plugin, found->volume, *found};
  MOUNTD_ASSIGN(report.staged,
                FindStaged(client, report.plugin, report.volume));
  return report;
}

Result<VolumeReport> ReportOfVolume(Client& client, const std::string& plugin,
                                    const std::string& volume) {
  VolumeReport report{plugin, volume};
  MOUNTD_ASSIGN(report.staged, FindStaged(client, plugin, volume));
  Result<std::optional<PluginVolume>> known = FindKnown(client, plugin, volume);
  if (!known && !report.staged) {
    return std::move(known).error();
  }
  if (known) {
    report.known = *std::move(known);
  }
  if (!report.staged && !report.known) {
    return MakeError(Code::kNotFound, "volume", plugin + "/" + volume,
                     "neither this node nor the plugin knows this volume");
  }
  return report;
}

Result<std::vector<PluginVolume>> AllPluginVolumes(Client& client,
                                                   const std::string& plugin) {
  std::vector<PluginVolume> all;
  MOUNTD_TRY(EachPage([&](const std::string& token) -> Result<std::string> {
    MOUNTD_ASSIGN(PluginVolumePage page,
                  client.ListPluginVolumes(plugin, {.starting_token = token}));
    std::move(page.volumes.begin(), page.volumes.end(),
              std::back_inserter(all));
    return std::move(page.next_token);
  }));
  return all;
}

Json ToJson(const VolumeReport& report) {
  return {{"plugin", report.plugin},
          {"volume", report.volume},
          {"published", OrNull(report.published)},
          {"staged", OrNull(report.staged)},
          {"known", OrNull(report.known)}};
}

void PrintVolumeReport(std::ostream& out, const VolumeReport& report) {
  out << "volume " << Printable(report.volume) << '\n';
  PrintField(out, "plugin", report.plugin);
  if (report.published) {
    const VolumeStatus& published = *report.published;
    PrintField(out, "alias", published.alias);
    PrintField(out, "published", published.state);
    PrintField(out, "read-only", YesNo(published.read_only));
    PrintField(out, "host path", published.host_path);
  }
  PrintField(out, "state", report.staged ? report.staged->state : "not staged");
  if (report.staged) {
    const StagedVolume& staged = *report.staged;
    PrintField(out, "access", staged.access_mode);
    PrintField(out, "attachment", staged.attachment_mode);
    PrintField(out, "file system", staged.fs_type);
    PrintField(out, "needs secrets", YesNo(staged.needs_secrets));
    PrintField(out, "users", UserList(staged.users));
    if (staged.has_condition) {
      PrintField(out, "condition",
                 ConditionOf(true, staged.abnormal, staged.condition));
    }
  }
  if (report.known) {
    PrintKnownVolume(out, *report.known);
  }
}

}  // namespace mountd::agent
