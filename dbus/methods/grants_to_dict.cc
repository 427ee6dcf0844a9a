// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/grants_to_dict.h"

#include <sdbus-c++/Types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mountd/service/services.h"

namespace mountd::dbus {
namespace {

std::vector<std::string> ModeNames(
    const std::vector<exec::Propagation>& modes) {
  std::vector<std::string> names;
  for (const exec::Propagation mode : modes) {
    names.emplace_back(PropagationName(mode));
  }
  return names;
}

template <typename Range>
std::vector<std::string> RangeTexts(const std::vector<Range>& ranges) {
  std::vector<std::string> texts;
  for (const Range& range : ranges) {
    texts.push_back(netns::ToString(range));
  }
  return texts;
}

Dict SourceToDict(const SourceGrant& grant, bool of_all_users) {
  std::vector<sdbus::Struct<std::uint32_t, std::uint32_t>> ids;
  for (const IdRange& range : grant.ids) {
    ids.emplace_back(range.first, range.last);
  }
  Dict dict = {{"name", Value(grant.name)},
               {"read_only_propagation", Value(ModeNames(grant.read_only))},
               {"writable_propagation", Value(ModeNames(grant.writable))},
               {"attributes", Value(grant.attributes)},
               {"ids", Value(ids)},
               {"limits", Value(grant.limits)}};
  if (of_all_users) {
    dict.emplace("uids", Value(grant.uids));
  }
  return dict;
}

}  // namespace

Dict ToDict(const HostVolumeGrant& grant, bool of_all_users) {
  Dict dict = SourceToDict(grant, of_all_users);
  dict.emplace("path", Value(ToBytes(grant.path)));
  std::vector<std::string> root_as_caller;
  if (grant.read_only_root_as_caller) {
    root_as_caller.emplace_back("read-only");
  }
  if (grant.writable_root_as_caller) {
    root_as_caller.emplace_back("writable");
  }
  dict.emplace("root_as_caller", Value(root_as_caller));
  return dict;
}

Dict ToDict(const FilesystemGrant& grant, bool of_all_users) {
  Dict dict = SourceToDict(grant, of_all_users);
  dict.emplace("type", Value(grant.type));
  dict.emplace("options", Value(grant.options));
  return dict;
}

Dict ToDict(const NetworkGrant& grant, bool /*of_all_users*/) {
  std::vector<sdbus::Struct<std::uint16_t, std::uint16_t>> host_ports;
  for (const PortRange& range : grant.host_ports) {
    host_ports.emplace_back(range.first, range.last);
  }
  Dict dict = {{"network", Value(grant.network)},
               {"mode", Value(ModeText(grant.mode, grant.network))},
               {"host_ports", Value(host_ports)},
               {"host_namespaces", Value(grant.host_namespaces)},
               {"limits", Value(grant.limits)}};
  if (grant.mode == NetworkMode::kCni) {
    dict.emplace("unusable", Value(grant.unusable));
  } else {
    dict.insert({{"ipv4", Value(RangeTexts(grant.ipv4))},
                 {"ipv6", Value(RangeTexts(grant.ipv6))},
                 {"mtu", Value(grant.mtu)}});
  }
  return dict;
}

}  // namespace mountd::dbus
