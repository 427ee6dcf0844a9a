// SPDX-License-Identifier: LGPL-2.1-or-later
#include <array>
#include <cstdio>
#include <ostream>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

std::string SizeOrDash(std::int64_t bytes) {
  return bytes == 0 ? "-" : Size(bytes);
}

std::string SourceOf(const PluginVolume& volume) {
  if (!volume.source_snapshot.empty()) {
    return "snapshot " + volume.source_snapshot;
  }
  return volume.source_volume.empty() ? "" : "volume " + volume.source_volume;
}

}  // namespace

std::string ConditionOf(bool told, bool abnormal, const std::string& why) {
  if (!told) {
    return "";
  }
  return (abnormal ? "abnormal" : "normal") + (why.empty() ? "" : ": " + why);
}

std::string Size(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double kStep = 1024;
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= kStep && unit + 1 < kUnits.size()) {
    size /= kStep;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g %s", size, kUnits[unit]);
  return text;
}

std::string UserList(const std::vector<VolumeUser>& users) {
  std::vector<std::string> words;
  words.reserve(users.size());
  for (const VolumeUser& user : users) {
    words.push_back(user.allocation + "/" + user.alias);
  }
  return Join(words);
}

void PrintVolumes(std::ostream& out, const std::vector<StagedVolume>& list) {
  Table table({"PLUGIN", "VOLUME", "STATE", "ACCESS", "ATTACHMENT",
               "FILE SYSTEM", "USERS"});
  for (const StagedVolume& volume : list) {
    table.Add({volume.plugin, volume.volume,
               volume.state + (volume.abnormal ? ", abnormal" : ""),
               volume.access_mode, volume.attachment_mode, volume.fs_type,
               UserList(volume.users)});
  }
  table.Print(out);
}

void PrintPluginVolumes(std::ostream& out,
                        const std::vector<PluginVolume>& list) {
  Table table({"VOLUME", "CAPACITY", "NODES", "CONDITION", "SOURCE"});
  for (const PluginVolume& volume : list) {
    table.Add(
        {volume.volume, SizeOrDash(volume.capacity_bytes),
         Join(volume.published_node_ids),
         ConditionOf(volume.has_condition, volume.abnormal, volume.condition),
         SourceOf(volume)});
  }
  table.Print(out);
}

void PrintKnownVolume(std::ostream& out, const PluginVolume& volume) {
  PrintField(out, "capacity", SizeOrDash(volume.capacity_bytes));
  PrintField(out, "source", SourceOf(volume));
  std::vector<std::string> topologies;
  for (const auto& segments : volume.topology) {
    topologies.push_back(PairList(segments));
  }
  PrintField(out, "topology", Join(topologies));
  PrintField(out, "context", PairList(volume.volume_context));
  if (!volume.published_node_ids.empty()) {
    PrintField(out, "nodes", Join(volume.published_node_ids));
  }
  if (volume.has_condition) {
    PrintField(out, "condition",
               ConditionOf(true, volume.abnormal, volume.condition));
  }
}

void PrintVolumeStats(std::ostream& out, const VolumeStats& stats) {
  Table table({"UNIT", "TOTAL", "USED", "AVAILABLE"});
  for (const VolumeUse& use : stats.usage) {
    const auto shown = [&use](std::int64_t number) {
      return use.unit == "bytes" ? Size(number) : std::to_string(number);
    };
    table.Add(
        {use.unit, shown(use.total), shown(use.used), shown(use.available)});
  }
  table.Print(out);
  if (stats.has_condition) {
    out << Printable(ConditionOf(true, stats.abnormal, stats.condition))
        << '\n';
  }
}

void PrintSnapshots(std::ostream& out, const std::vector<Snapshot>& list) {
  Table table({"SNAPSHOT", "VOLUME", "SIZE", "CREATED", "READY", "GROUP"});
  for (const Snapshot& snapshot : list) {
    table.Add({snapshot.snapshot, snapshot.source_volume,
               SizeOrDash(snapshot.size_bytes),
               snapshot.creation_time ? Time(*snapshot.creation_time) : "-",
               YesNo(snapshot.ready_to_use), snapshot.group_snapshot});
  }
  table.Print(out);
}

}  // namespace mountd::agent
