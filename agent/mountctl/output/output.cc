// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/output.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <utility>

#include "mountd/base/names.h"

namespace mountd::agent {
namespace {

constexpr std::size_t kGap = 2;

std::string Number(std::uint64_t number) {
  return number == 0 ? "-" : std::to_string(number);
}

std::string_view AdviceOf(Away away) {
  switch (away) {
    case Away::kDaemon:
      return "mountd is not there: see systemctl status mountd and mountctl "
             "doctor";
    case Away::kRestarting:
      return "mountd restarts: give the same command again in a moment";
    case Away::kPlugin:
      return "mountd answers, and the plugin does not: look at the plugin, "
             "then give the same command again";
    case Away::kNone:
      break;
  }
  return "";
}

}  // namespace

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

void PrintField(std::ostream& out, std::string_view name,
                const std::string& value) {
  constexpr std::size_t kNameWidth = 14;
  const std::size_t gap =
      name.size() < kNameWidth ? kNameWidth - name.size() : 1;
  out << "  " << name << std::string(gap, ' ') << Printable(OrDash(value))
      << '\n';
}

void Table::Print(std::ostream& out, std::string_view indent) const {
  if (rows_.size() < 2) {
    return;
  }
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> shown = rows_;
  for (auto& row : shown) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = Printable(OrDash(row[i]));
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : shown) {
    out << indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      out << row[i];
      if (i + 1 < row.size()) {
        out << std::string(widths[i] - row[i].size() + kGap, ' ');
      }
    }
    out << '\n';
  }
}

std::string YesNo(bool value) { return value ? "yes" : "no"; }

std::string Millis(std::chrono::nanoseconds duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f ms",
                std::chrono::duration<double, std::milli>(duration).count());
  return text;
}

std::string Time(Timestamp time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
  std::tm utc{};
  char text[32];
  if (::gmtime_r(&seconds, &utc) == nullptr ||
      std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc) == 0) {
    return "-";
  }
  return text;
}

std::chrono::seconds AgeOf(Timestamp since) {
  const auto now = std::chrono::time_point_cast<Timestamp::duration>(
      std::chrono::system_clock::now());
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::max(now - since, Timestamp::duration::zero()));
}

std::string Age(std::chrono::seconds age) {
  const auto days = age.count() / 86400;
  const auto hours = age.count() / 3600 % 24;
  const auto minutes = age.count() / 60 % 60;
  const auto seconds = age.count() % 60;
  const auto two = [](auto first, const char* unit, auto second,
                      const char* rest) {
    return std::to_string(first) + unit + " " + std::to_string(second) + rest;
  };
  if (days != 0) {
    return two(days, "d", hours, "h");
  }
  if (hours != 0) {
    return two(hours, "h", minutes, "m");
  }
  return minutes != 0 ? two(minutes, "m", seconds, "s")
                      : std::to_string(seconds) + "s";
}

std::string PortList(const std::vector<Port>& ports) {
  std::vector<std::string> words;
  words.reserve(ports.size());
  for (const Port& port : ports) {
    const std::string host =
        port.host_address.empty()
            ? std::to_string(port.host)
            : "[" + port.host_address + "]:" + std::to_string(port.host);
    words.push_back(port.label + " " + host + "->" +
                    std::to_string(port.container) + "/" + port.protocols +
                    (port.count > 1 ? " x" + std::to_string(port.count) : ""));
  }
  return Join(words);
}

std::string Count(std::size_t number, std::string_view one) {
  return std::to_string(number) + " " + std::string(one) +
         (number == 1 ? "" : "s");
}

std::string Join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) {
    joined += (joined.empty() ? "" : ", ") + word;
  }
  return OrDash(joined);
}

std::string PairList(const std::map<std::string, std::string>& pairs) {
  std::vector<std::string> words;
  words.reserve(pairs.size());
  for (const auto& [key, value] : pairs) {
    words.push_back(std::string(key).append("=").append(value));
  }
  return Join(words);
}

std::string Printable(std::string_view text) {
  const bool utf8 = IsValidUtf8(text);
  std::string shown(text);
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      c = '?';
    }
  }
  return shown;
}

void PrintError(const Error& error) {
  const std::string text = error.detail.empty() || error.sys_errno != 0
                               ? error.Message()
                               : error.detail;
  std::cerr << "mountctl: org.mountd1.Error." << CodeName(error.code) << ": "
            << Printable(text) << std::endl;
  if (const std::string_view advice = AdviceOf(error.away); !advice.empty()) {
    std::cerr << "mountctl: " << advice << std::endl;
  }
}

void PrintNetwork(std::ostream& out, const NetworkStatus& network) {
  PrintField(out, "mode", Join({network.mode, network.network}));
  PrintField(out, "namespace", OrDash(network.netns_path));
  PrintField(out, "interface",
             network.interface + " (host: " + network.host_interface + ")");
  PrintField(out, "address",
             Join({OrDash(network.address), OrDash(network.address6)}));
  PrintField(out, "gateway",
             Join({OrDash(network.gateway), OrDash(network.gateway6)}));
  PrintField(out, "ports", PortList(network.ports));
  for (const NetworkStatus::File& file : network.files) {
    PrintField(out, "file", file.host_path + " for " + file.task_path);
  }
}

void PrintMounts(std::ostream& out, const std::vector<MountStatus>& mounts) {
  Table table({"TASK", "MOUNT", "SOURCE", "PROPAGATION", "READ-ONLY", "STATE",
               "ROOTFS", "ID", "GROUP", "MASTER", "TASK PATH", "HOST PATH"});
  for (const MountStatus& mount : mounts) {
    const MountConfig& config = mount.config;
    table.Add({mount.task, mount.name, mount.source_type + ":" + mount.source,
               config.propagation, YesNo(config.read_only), mount.state,
               config.required_rootfs_propagation, Number(config.mount_id),
               Number(config.peer_group), Number(config.master),
               config.task_path, config.host_path});
  }
  table.Print(out, "  ");
}

void PrintAllocation(std::ostream& out, const AllocationStatus& allocation) {
  out << "allocation " << Printable(allocation.id) << '\n';
  PrintField(out, "state", allocation.state);
  PrintField(out, "owner", "uid " + std::to_string(allocation.uid));
  PrintField(out, "scope", allocation.scope);
  PrintField(
      out, "group",
      allocation.group == 0 ? "" : "gid " + std::to_string(allocation.group));
  PrintField(out, "directory", allocation.host_path);
  for (const NetworkStatus& network : allocation.networks) {
    out << "network\n";
    PrintNetwork(out, network);
  }
  if (!allocation.volumes.empty()) {
    out << "volumes\n";
    Table table(
        {"ALIAS", "PLUGIN", "VOLUME", "STATE", "READ-ONLY", "HOST PATH"});
    for (const VolumeStatus& volume : allocation.volumes) {
      table.Add({volume.alias, volume.plugin, volume.volume, volume.state,
                 YesNo(volume.read_only), volume.host_path});
    }
    table.Print(out, "  ");
  }
  if (!allocation.mounts.empty()) {
    out << "mounts\n";
    PrintMounts(out, allocation.mounts);
  }
}

void PrintHolders(std::ostream& out, const Holders& holders) {
  Table table({"PID", "UID", "COMMAND", "HOW", "COPY"});
  for (const Holder& holder : holders.holders) {
    const bool known = !holder.how.empty();
    table.Add({std::to_string(holder.pid),
               known ? std::to_string(holder.uid) : "-", OrDash(holder.command),
               OrDash(holder.how), known ? YesNo(holder.copy) : "-"});
  }
  table.Print(out);
  if (holders.more) {
    out << "and others\n";
  }
  if (!holders.complete) {
    out << "mountd could not look at every process\n";
  }
}

void PrintHandedOut(std::ostream& out, const HandedOutList& list) {
  for (const HandedOut& one : list.descriptors) {
    const std::string what =
        one.source_type.empty() ? one.task : one.source_type + ":" + one.source;
    out << one.kind << (what.empty() ? "" : " ") << what << "\n";
    PrintHolders(out, one.holders);
  }
  if (!list.complete) {
    out << "there may be others, because the kernel has no unique mount ids\n";
  }
}

void PrintTaskReport(std::ostream& out, const TaskReport& report) {
  Table table({"MOUNT", "VERDICT", "READ-ONLY", "GROUP", "MASTER", "REASON"});
  for (const TaskMount& mount : report.mounts) {
    table.Add({mount.name, mount.verdict, YesNo(mount.read_only),
               Number(mount.peer_group), Number(mount.master), mount.reason});
  }
  table.Print(out);
}

void PrintPlugin(std::ostream& out, const PluginStatus& plugin) {
  out << "plugin " << Printable(plugin.id) << '\n';
  PrintField(out, "state", plugin.state);
  if (!plugin.reason.empty()) {
    PrintField(out, "reason", plugin.reason);
  }
  PrintField(out, "type", plugin.type);
  PrintField(out, "provider", plugin.provider);
  PrintField(out, "version", plugin.vendor_version);
  PrintField(out, "node id", plugin.node_id);
  PrintField(out, "max volumes",
             plugin.max_volumes == 0 ? "no limit"
                                     : std::to_string(plugin.max_volumes));
  PrintField(out, "topology", PairList(plugin.topology));
  PrintField(out, "services", Join(plugin.plugin_capabilities));
  PrintField(out, "node RPCs", Join(plugin.node_capabilities));
  PrintField(out, "control RPCs", Join(plugin.controller_capabilities));
  PrintField(out, "controller",
             ControllerRequired(plugin) ? "required" : "not required");
  PrintField(out, "owner", "uid " + std::to_string(plugin.uid));
  PrintField(out, "allocation", plugin.allocation);
  PrintField(out, "generation", std::to_string(plugin.generation));
  if (plugin.instances.size() < 2) {
    return;
  }
  Table table({"TYPE", "ALLOCATION", "STATE", "PROVIDER", "VERSION", "REASON"});
  for (const PluginStatus& one : plugin.instances) {
    table.Add({one.type, one.allocation, one.state, one.provider,
               one.vendor_version, one.reason});
  }
  table.Print(out, "  ");
}

void PrintNames(std::ostream& out, const std::string& traceparent,
                const std::string& request_id) {
  if (!traceparent.empty()) {
    PrintField(out, "traceparent", traceparent);
  }
  if (!request_id.empty()) {
    PrintField(out, "request id", request_id);
  }
}

void PrintReceipt(std::ostream& out, const Receipt& receipt) {
  out << "released " << Printable(receipt.allocation) << '\n';
  PrintField(out, "at", Time(receipt.released_at));
  PrintField(out, "node detached", YesNo(receipt.node_detached));
  PrintField(out, "serial", std::to_string(receipt.serial));
  PrintNames(out, receipt.traceparent, receipt.request_id);
  Table table({"PLUGIN", "VOLUME", "UNSTAGED"});
  for (const ReleasedVolume& volume : receipt.volumes) {
    table.Add({volume.plugin, volume.volume, YesNo(volume.unstaged)});
  }
  table.Print(out, "  ");
}

void PrintAllocations(std::ostream& out,
                      const std::vector<AllocationEntry>& list) {
  Table table({"ALLOCATION", "UID", "STATE", "SCOPE"});
  for (const AllocationEntry& entry : list) {
    table.Add({entry.id, std::to_string(entry.uid), entry.state, entry.scope});
  }
  table.Print(out);
}

void PrintPlugins(std::ostream& out, const std::vector<PluginStatus>& list) {
  Table table({"PLUGIN", "TYPE", "ALLOCATION", "STATE", "PROVIDER", "VERSION",
               "NODE ID", "REASON"});
  const auto add = [&table](const std::string& name,
                            const PluginStatus& plugin) {
    table.Add({name, plugin.type, plugin.allocation, plugin.state,
               plugin.provider, plugin.vendor_version, plugin.node_id,
               plugin.reason});
  };
  for (const PluginStatus& plugin : list) {
    add(plugin.id, plugin);
    if (plugin.instances.size() < 2) {
      continue;  // the plugin's line says the same
    }
    for (const PluginStatus& instance : plugin.instances) {
      add("  instance", instance);
    }
  }
  table.Print(out);
}

void PrintReconciled(std::ostream& out,
                     const std::vector<ReconciledAllocation>& list) {
  Table table({"ALLOCATION", "OUTCOME", "NEEDS", "REASON"});
  for (const ReconciledAllocation& one : list) {
    table.Add({one.allocation, one.outcome, Join(one.needs), one.reason});
  }
  table.Print(out);
}

std::string StepText(const OperationStatus& operation) {
  std::string text = operation.step;
  if (operation.total != 0) {
    text += " " + std::to_string(operation.done) + "/" +
            std::to_string(operation.total);
  } else if (operation.done != 0) {
    text += " " + std::to_string(operation.done);
  }
  if (operation.attempt > 1 || !operation.error.empty()) {
    text += operation.attempt == 0
                ? ""
                : ", attempt " + std::to_string(operation.attempt);
    text += operation.error.empty() ? "" : " (" + operation.error + ")";
  }
  return text + (operation.cancelled ? ", cancelled" : "");
}

void PrintOperations(std::ostream& out,
                     const std::vector<OperationStatus>& list) {
  Table table({"ID", "METHOD", "OBJECT", "UID", "FOR", "WAITERS", "STEP"});
  for (const OperationStatus& one : list) {
    table.Add(
        {one.id, one.method, OrDash(one.object), std::to_string(one.uid),
         Age(std::chrono::duration_cast<std::chrono::seconds>(one.elapsed)),
         std::to_string(one.waiters), StepText(one)});
  }
  table.Print(out);
}

void PrintOwed(std::ostream& out, const std::vector<OwedTeardown>& list) {
  Table table({"ID", "KIND", "OBJECT", "ATTEMPTS", "SINCE", "AGE", "REASON"});
  for (const OwedTeardown& owed : list) {
    table.Add({std::to_string(owed.id), owed.kind, owed.object,
               std::to_string(owed.attempts), Time(owed.since),
               Age(AgeOf(owed.since)), owed.reason});
  }
  table.Print(out);
}

}  // namespace mountd::agent
