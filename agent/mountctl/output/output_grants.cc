// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/output_grants.h"

#include <ostream>
#include <string>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

template <typename Range>
std::string RangeList(const std::vector<Range>& ranges) {
  std::vector<std::string> words;
  for (const Range& range : ranges) {
    words.push_back(range.first == range.last
                        ? std::to_string(range.first)
                        : std::to_string(range.first) + "-" +
                              std::to_string(range.last));
  }
  return Join(words);
}

std::string AddressList(const NetworkGrant& network) {
  std::vector<std::string> ranges = network.ipv4;
  ranges.insert(ranges.end(), network.ipv6.begin(), network.ipv6.end());
  return Join(ranges);
}

// Returns the ids of the first source, because all sources have the same ids.
std::string IdsOf(const GrantReport& report) {
  if (!report.host_volumes.empty()) {
    return RangeList(report.host_volumes.front().source.ids);
  }
  return report.filesystems.empty()
             ? Join({})
             : RangeList(report.filesystems.front().source.ids);
}

template <typename Grant>
std::vector<std::string> RowOfSource(const Grant& grant,
                                     const std::string& what) {
  const SourceGrant& source = grant.source;
  return {source.name, what, Join(source.read_only_propagation),
          Join(source.writable_propagation), Join(source.attributes)};
}

}  // namespace

void PrintGrants(std::ostream& out, const GrantReport& report) {
  if (report.host_volumes.empty() && report.filesystems.empty() &&
      report.networks.empty()) {
    out << "no rule grants a host volume, a file system or a network\n";
    return;
  }
  Table volumes({"HOST VOLUME", "PATH", "READ-ONLY", "WRITABLE", "ATTRIBUTES",
                 "ROOT AS CALLER"});
  for (const HostVolumeGrant& volume : report.host_volumes) {
    std::vector<std::string> row = RowOfSource(volume, volume.path);
    row.push_back(Join(volume.root_as_caller));
    volumes.Add(row);
  }
  volumes.Print(out);
  Table filesystems(
      {"FILE SYSTEM", "TYPE", "READ-ONLY", "WRITABLE", "ATTRIBUTES"});
  for (const FilesystemGrant& filesystem : report.filesystems) {
    filesystems.Add(RowOfSource(filesystem, filesystem.type));
  }
  filesystems.Print(out);
  Table networks({"NETWORK", "MODE", "ADDRESSES", "HOST PORTS", "UNUSABLE"});
  for (const NetworkGrant& network : report.networks) {
    networks.Add({network.network, network.mode, AddressList(network),
                  RangeList(network.host_ports), network.unusable});
  }
  networks.Print(out);
  out << "ids on disk that --idmap may map: " << IdsOf(report) << '\n';
}

}  // namespace mountd::agent
