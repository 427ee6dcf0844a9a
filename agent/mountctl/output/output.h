// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountctl/output/snapshot_message.h"
#include "agent/types.h"
#include "agent/types_controller.h"
#include "mountd/base/error.h"

// Writes mountctl's output for people: aligned columns, no colours.
namespace mountd::agent {

class Table {
 public:
  explicit Table(std::vector<std::string> header) {
    rows_.push_back(std::move(header));
  }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // An empty table prints nothing.
  void Print(std::ostream& out, std::string_view indent = {}) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string YesNo(bool value);
// Returns "-" if the text is empty.
std::string OrDash(const std::string& text);
// Prints a line "  name          value".
void PrintField(std::ostream& out, std::string_view name,
                const std::string& value);
// Prints the names that a caller gave its call, each only if there is one.
void PrintNames(std::ostream& out, const std::string& traceparent,
                const std::string& request_id);
// "1.5 GiB"
std::string Size(std::int64_t bytes);
// "1.23 ms"
std::string Millis(std::chrono::nanoseconds duration);
// "2026-11-21 14:03:05 UTC"
std::string Time(Timestamp time);
std::chrono::seconds AgeOf(Timestamp since);
// "3d 4h", "2m 5s"
std::string Age(std::chrono::seconds age);
// "http 8080->80/tcp, …"
std::string PortList(const std::vector<Port>& ports);
// "1 mount", "2 mounts"
std::string Count(std::size_t number, std::string_view one);
// Returns "a, b, c"; "-" if there are none.
std::string Join(const std::vector<std::string>& words);
// "a=1, b=2"
std::string PairList(const std::map<std::string, std::string>& pairs);
// "web/data, ..."
std::string UserList(const std::vector<VolumeUser>& users);
// Returns "abnormal: why" or "normal"; "" if the plugin told no condition.
std::string ConditionOf(bool told, bool abnormal, const std::string& why);
// Replaces control characters and bytes that are not UTF-8, so that no name of
// a plugin or a volume can control a terminal.
std::string Printable(std::string_view text);

// Prints to stderr: "mountctl: org.mountd1.Error.NotFound: <the daemon's
// message>". Adds a line that says what to do if Error::away says who is away.
void PrintError(const Error& error);

void PrintNetwork(std::ostream& out, const NetworkStatus& network);
void PrintMounts(std::ostream& out, const std::vector<MountStatus>& mounts);
void PrintAllocation(std::ostream& out, const AllocationStatus& allocation);
void PrintHolders(std::ostream& out, const Holders& holders);
void PrintLeases(std::ostream& out, const std::vector<Lease>& leases);
void PrintFence(std::ostream& out, const Fence& fence);
void PrintHandedOut(std::ostream& out, const HandedOutList& list);
void PrintTaskReport(std::ostream& out, const TaskReport& report);
void PrintPlugin(std::ostream& out, const PluginStatus& plugin);
void PrintReceipt(std::ostream& out, const Receipt& receipt);
void PrintAllocations(std::ostream& out,
                      const std::vector<AllocationEntry>& list);
void PrintPlugins(std::ostream& out, const std::vector<PluginStatus>& list);
void PrintVolumes(std::ostream& out, const std::vector<StagedVolume>& list);
void PrintPluginVolumes(std::ostream& out,
                        const std::vector<PluginVolume>& list);
// Prints what a plugin reports about a volume, without the volume's id.
void PrintKnownVolume(std::ostream& out, const PluginVolume& volume);
void PrintVolumeStats(std::ostream& out, const VolumeStats& stats);
void PrintSnapshots(std::ostream& out, const std::vector<Snapshot>& list);
void PrintReconciled(std::ostream& out,
                     const std::vector<ReconciledAllocation>& list);
// "stage, attempt 3 (Unavailable)", "unmount 2/7", "tree 1200"
std::string StepText(const OperationStatus& operation);
void PrintOperations(std::ostream& out,
                     const std::vector<OperationStatus>& list);
void PrintOwed(std::ostream& out, const std::vector<OwedTeardown>& list);

}  // namespace mountd::agent
