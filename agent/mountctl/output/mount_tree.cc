// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/mount_tree.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

using Row = std::vector<std::string>;
using Task = std::vector<const MountStatus*>;

struct Strokes {
  const char* child;
  const char* last;
  const char* pass;  // beside the children of an entry that is not the last
};

Strokes StrokesOf(Lines lines) {
  return lines == Lines::kUtf8 ? Strokes{"├─", "└─", "│ "}
                               : Strokes{"|-", "`-", "| "};
}

std::map<std::string, Task> TasksOf(const AllocationStatus& allocation) {
  std::map<std::string, Task> tasks;
  for (const MountStatus& mount : allocation.mounts) {
    tasks[mount.task].push_back(&mount);
  }
  return tasks;
}

std::string SourceOf(const MountStatus& mount) {
  return mount.source_type + ":" + mount.source;
}

std::string GroupText(std::uint64_t group) {
  return group == 0 ? "" : std::to_string(group);
}

Row RowOf(const std::string& name, const MountStatus& mount) {
  const MountConfig& config = mount.config;
  return {name,
          SourceOf(mount),
          config.read_only ? "ro" : "rw",
          config.propagation,
          mount.state,
          GroupText(config.peer_group),
          GroupText(config.master),
          config.task_path};
}

void AddUnique(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) {
    list.push_back(text);
  }
}

// Counts characters and not bytes.
std::size_t WidthOf(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

void PrintRows(std::ostream& out, std::vector<Row> rows) {
  std::vector<std::size_t> widths;
  for (Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = Printable(row[i]);
      widths[i] = std::max(widths[i], WidthOf(row[i]));
    }
  }
  constexpr std::size_t kGap = 2;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - WidthOf(row[i]) + kGap, ' ');
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }
}

void AddAllocation(const AllocationStatus& allocation, const Strokes& strokes,
                   std::vector<Row>& rows) {
  rows.push_back({allocation.id});
  const std::map<std::string, Task> tasks = TasksOf(allocation);
  for (auto task = tasks.begin(); task != tasks.end(); ++task) {
    const bool last_task = std::next(task) == tasks.end();
    rows.push_back({(last_task ? strokes.last : strokes.child) + task->first});
    const std::string beside = last_task ? "  " : strokes.pass;
    for (const MountStatus* mount : task->second) {
      const bool last = mount == task->second.back();
      rows.push_back(
          RowOf(beside + (last ? strokes.last : strokes.child) + mount->name,
                *mount));
    }
  }
}

void AddGroup(const MountGroup& group, const Strokes& strokes,
              std::vector<Row>& rows) {
  rows.push_back({std::to_string(group.id), Join(group.sources)});
  const std::size_t count = group.peers.size() + group.followers.size();
  std::size_t at = 0;
  for (const auto& [members, what] :
       {std::pair(&group.peers, "sends and receives"),
        std::pair(&group.followers, "receives")}) {
    for (const std::string& member : *members) {
      const bool last = ++at == count;
      rows.push_back({(last ? strokes.last : strokes.child) + member, what});
    }
  }
}

}  // namespace

std::vector<MountGroup> GroupsOf(const std::vector<AllocationStatus>& all) {
  std::map<std::uint64_t, MountGroup> groups;
  for (const AllocationStatus& allocation : all) {
    for (const MountStatus& mount : allocation.mounts) {
      const std::string name =
          allocation.id + "/" + mount.task + "/" + mount.name;
      // A host volume belongs to the node, every other source to the
      // allocation.
      const std::string source =
          (mount.source_type == "host" ? "" : allocation.id + " ") +
          SourceOf(mount);
      for (const auto& [id, members] :
           {std::pair(mount.config.peer_group, &MountGroup::peers),
            std::pair(mount.config.master, &MountGroup::followers)}) {
        if (id != 0) {
          MountGroup& group = groups[id];
          group.id = id;
          AddUnique(group.sources, source);
          (group.*members).push_back(name);
        }
      }
    }
  }
  std::vector<MountGroup> list;
  for (auto& [id, group] : groups) {
    list.push_back(std::move(group));
  }
  return list;
}

void PrintTree(std::ostream& out, const std::vector<AllocationStatus>& all,
               Lines lines) {
  const Strokes strokes = StrokesOf(lines);
  std::vector<Row> rows = {{"MOUNT", "SOURCE", "MODE", "PROPAGATION", "STATE",
                            "GROUP", "MASTER", "TASK PATH"}};
  for (const AllocationStatus& allocation : all) {
    AddAllocation(allocation, strokes, rows);
  }
  if (rows.size() > 1) {
    PrintRows(out, std::move(rows));
  }
  rows = {{"GROUP", "MOUNTS MADE LATER"}};
  for (const MountGroup& group : GroupsOf(all)) {
    AddGroup(group, strokes, rows);
  }
  if (rows.size() > 1) {
    out << '\n';
    PrintRows(out, std::move(rows));
  }
}

Json TreeToJson(const std::vector<AllocationStatus>& all) {
  Json allocations = Json::array();
  for (const AllocationStatus& allocation : all) {
    Json tasks = Json::array();
    for (const auto& [name, mounts] : TasksOf(allocation)) {
      Json list = Json::array();
      for (const MountStatus* mount : mounts) {
        list.push_back(ToJson(*mount));
      }
      tasks.push_back({{"name", name}, {"mounts", std::move(list)}});
    }
    allocations.push_back({{"id", allocation.id}, {"tasks", std::move(tasks)}});
  }
  Json groups = Json::array();
  for (const MountGroup& group : GroupsOf(all)) {
    groups.push_back({{"id", group.id},
                      {"sources", group.sources},
                      {"peers", group.peers},
                      {"followers", group.followers}});
  }
  return {{"allocations", std::move(allocations)},
          {"groups", std::move(groups)}};
}

}  // namespace mountd::agent
