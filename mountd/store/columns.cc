// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/columns.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "mountd/plan/plan_ids.h"

namespace mountd::store {
namespace {

using nlohmann::json;

json Parse(std::string_view text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Replaces invalid bytes, because nlohmann::json would throw. Ids and contexts
// come as checked UTF-8, so there should be none.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Text(const json& value, std::size_t index) {
  const bool present = value.is_array() && index < value.size();
  return present && value[index].is_string() ? value[index].get<std::string>()
                                             : std::string();
}

template <typename T>
T Number(const json& value, std::size_t index) {
  const bool present = value.is_array() && index < value.size();
  return present && value[index].is_number_unsigned() ? value[index].get<T>()
                                                      : T{0};
}

std::vector<std::string> Texts(const json& value, std::size_t index) {
  std::vector<std::string> texts;
  if (value.is_array() && index < value.size() && value[index].is_array()) {
    for (std::size_t i = 0; i < value[index].size(); ++i) {
      texts.push_back(Text(value[index], i));
    }
  }
  return texts;
}

// Returns no address if the text in the store is damaged.
template <typename Address>
Address AddressFrom(const Result<Address>& parsed) {
  return parsed ? *parsed : Address{};
}

std::vector<int> Numbers(const json& value, std::size_t index) {
  std::vector<int> numbers;
  if (value.is_array() && index < value.size() && value[index].is_array()) {
    for (const json& one : value[index]) {
      if (one.is_number_integer()) {
        numbers.push_back(one.get<int>());
      }
    }
  }
  return numbers;
}

}  // namespace

std::string ToColumn(const StringMap& map) { return Dump(json(map)); }
std::string ToColumn(const std::vector<std::string>& texts) {
  return Dump(json(texts));
}

std::vector<std::string> TextsFromColumn(std::string_view text) {
  return Texts(json::array({Parse(text)}), 0);
}

StringMap MapFromColumn(std::string_view text) {
  StringMap map;
  const json value = Parse(text);
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (item.is_string()) {
        map.emplace(key, item.get<std::string>());
      }
    }
  }
  return map;
}

// Composes the text by hand. With many ports, building JSON values would take
// longer than the SQL statement.
std::string ToColumn(const std::vector<PortMapping>& ports) {
  std::string text = "[";
  for (const PortMapping& port : ports) {
    text.append(text.size() > 1 ? ",[" : "[").append(Dump(json(port.label)));
    for (const unsigned number :
         {unsigned{port.host_port}, unsigned{port.container_port},
          unsigned{port.protocols}, unsigned{port.count}}) {
      text.append(",").append(std::to_string(number));
    }
    text.append(",\"").append(netns::ToString(port.host_address)).append("\"");
    if (port.if_free != 0) {
      text.append(",").append(std::to_string(unsigned{port.if_free}));
    }
    text.append("]");
  }
  return text.append("]");
}

std::vector<PortMapping> PortsFromColumn(std::string_view text) {
  std::vector<PortMapping> ports;
  const json value = Parse(text);
  if (value.is_array()) {
    for (const json& item : value) {
      ports.push_back(
          {Text(item, 0), Number<std::uint16_t>(item, 1),
           Number<std::uint16_t>(item, 2), Number<std::uint8_t>(item, 3),
           std::max<std::uint16_t>(Number<std::uint16_t>(item, 4), 1),
           AddressFrom(netns::ParseHostIp(Text(item, 5))),
           Number<std::uint8_t>(item, 6)});
    }
  }
  return ports;
}

std::string ToColumn(const NetworkFiles& files) {
  if (files.empty()) {
    return "";
  }
  json hosts = json::array();
  for (const HostEntry& entry : files.hosts) {
    hosts.push_back({entry.address, entry.names});
  }
  return Dump(json::array({files.hostname, std::move(hosts), files.dns.servers,
                           files.dns.searches, files.dns.options}));
}

NetworkFiles FilesFromColumn(std::string_view text) {
  NetworkFiles files;
  if (text.empty()) {
    return files;
  }
  const json value = Parse(text);
  files.hostname = Text(value, 0);
  if (value.is_array() && value.size() > 1 && value[1].is_array()) {
    for (const json& item : value[1]) {
      files.hosts.push_back({Text(item, 0), Texts(item, 1)});
    }
  }
  files.dns.servers = Texts(value, 2);
  files.dns.searches = Texts(value, 3);
  files.dns.options = Texts(value, 4);
  return files;
}

std::string ToColumn(const CniSettings& settings) {
  if (settings == CniSettings{}) {
    return "";
  }
  const CniSettings::Bandwidth& rates = settings.bandwidth;
  return Dump(json::array({settings.args, settings.mac, settings.ips,
                           rates.ingress_rate, rates.ingress_burst,
                           rates.egress_rate, rates.egress_burst}));
}

CniSettings CniSettingsFromColumn(std::string_view text) {
  CniSettings settings;
  if (text.empty()) {
    return settings;
  }
  const json value = Parse(text);
  if (value.is_array() && !value.empty()) {
    settings.args = MapFromColumn(Dump(value[0]));
  }
  settings.mac = Text(value, 1);
  settings.ips = Texts(value, 2);
  settings.bandwidth = {
      Number<std::uint64_t>(value, 3), Number<std::uint64_t>(value, 4),
      Number<std::uint64_t>(value, 5), Number<std::uint64_t>(value, 6)};
  return settings;
}

std::string ToColumn(const CniResult& result) {
  if (result == CniResult{}) {
    return "";
  }
  return Dump(json::array(
      {netns::ToString(result.ipv4), netns::ToString(result.ipv6),
       netns::ToString(result.gateway4), netns::ToString(result.gateway6),
       result.mac, result.dns.servers, result.dns.searches, result.dns.options,
       static_cast<unsigned>(result.makes_resolv_conf)}));
}

CniResult CniResultFromColumn(std::string_view text) {
  CniResult result;
  if (text.empty()) {
    return result;
  }
  const json value = Parse(text);
  result.ipv4 = AddressFrom(netns::ParseIpv4(Text(value, 0)));
  result.ipv6 = AddressFrom(netns::ParseIpv6(Text(value, 1)));
  result.gateway4 = AddressFrom(netns::ParseIpv4(Text(value, 2)));
  result.gateway6 = AddressFrom(netns::ParseIpv6(Text(value, 3)));
  result.mac = Text(value, 4);
  result.dns.servers = Texts(value, 5);
  result.dns.searches = Texts(value, 6);
  result.dns.options = Texts(value, 7);
  result.makes_resolv_conf = Number<unsigned>(value, 8) != 0;
  return result;
}

namespace {

json ToRows(std::span<const exec::IdExtent> extents) {
  json value = json::array();
  for (const exec::IdExtent& extent : extents) {
    value.push_back({extent.on_disk, extent.shown, extent.count});
  }
  return value;
}

// Reads the extents, and returns their number. Returns 0 if there are too many.
std::uint32_t FromRows(
    const json& value,
    std::array<exec::IdExtent, exec::kMaxIdExtents>* extents) {
  std::uint32_t count = 0;
  if (value.is_array() && value.size() <= extents->size()) {
    for (const json& item : value) {
      extents->at(count++) = {Number<std::uint32_t>(item, 0),
                              Number<std::uint32_t>(item, 1),
                              Number<std::uint32_t>(item, 2)};
    }
  }
  return count;
}

}  // namespace

// Returns "" without a map, because most mounts have none. A map for both users
// and groups is a list, as older versions wrote it. Any other map is an object
// with one list for users and one for groups.
std::string ToColumn(const exec::IdMapPlan& ids) {
  if (ids.count == 0) {
    return "";
  }
  json users = ToRows(exec::ExtentsOf(ids));
  if (ids.gid_count == 0) {
    return Dump(users);
  }
  return Dump(json{{"uids", std::move(users)},
                   {"gids", ToRows(exec::GidExtentsOf(ids))}});
}

exec::IdMapPlan IdsFromColumn(std::string_view text) {
  exec::IdMapPlan ids;
  if (text.empty()) {
    return ids;
  }
  const json value = Parse(text);
  if (!value.is_object()) {
    ids.count = FromRows(value, &ids.extents);
  } else if (value.contains("uids") && value.contains("gids")) {
    ids.count = FromRows(value["uids"], &ids.extents);
    ids.gid_count = FromRows(value["gids"], &ids.gids);
  }
  return ids;
}

std::string ToColumn(const exec::TmpfsPlan& tmpfs) {
  if (tmpfs.bytes == 0) {
    return "";
  }
  return Dump(json::array({tmpfs.bytes, tmpfs.inodes, tmpfs.mode, tmpfs.uid,
                           tmpfs.gid, tmpfs.no_swap}));
}

exec::TmpfsPlan TmpfsFromColumn(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  const json value = Parse(text);
  return {Number<std::uint64_t>(value, 0), Number<std::uint64_t>(value, 1),
          Number<std::uint32_t>(value, 2), Number<std::uint32_t>(value, 3),
          Number<std::uint32_t>(value, 4), Number<std::uint32_t>(value, 5)};
}

namespace {

// Writes a path as numbers, because a path is bytes and need not be UTF-8.
template <std::size_t kSize>
json ToBytes(const std::array<char, kSize>& text) {
  json bytes = json::array();
  for (const char c : text) {
    if (c == '\0') {
      break;
    }
    bytes.push_back(static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return bytes;
}

// Copies the bytes if they fit with a NUL, and returns whether they do.
template <std::size_t kSize>
bool FromBytes(const std::vector<int>& bytes, std::array<char, kSize>* text) {
  if (bytes.size() >= kSize) {
    return false;
  }
  std::transform(bytes.begin(), bytes.end(), text->begin(),
                 [](int byte) { return static_cast<char>(byte); });
  return true;
}

}  // namespace

std::string ToColumn(const exec::FileSystemPlan& file_system) {
  return file_system.device == 0
             ? ""
             : Dump({file_system.device, file_system.node,
                     file_system.type.data(), ToBytes(file_system.root),
                     ToBytes(file_system.source)});
}

// A record of an older version has no source, so its source reads as "".
exec::FileSystemPlan FileSystemFromColumn(std::string_view text) {
  exec::FileSystemPlan file_system;
  const json value = Parse(text);
  const std::string type = Text(value, 2);
  if (type.size() >= file_system.type.size() ||
      !FromBytes(Numbers(value, 3), &file_system.root) ||
      !FromBytes(Numbers(value, 4), &file_system.source)) {
    return {};
  }
  file_system.device = Number<std::uint64_t>(value, 0);
  file_system.node = Number<std::uint64_t>(value, 1);
  std::copy(type.begin(), type.end(), file_system.type.begin());
  return file_system;
}

std::string ToColumn(const std::vector<ReceiptRecord::Volume>& volumes) {
  json value = json::array();
  for (const ReceiptRecord::Volume& volume : volumes) {
    value.push_back({volume.plugin, volume.volume_id,
                     static_cast<unsigned>(volume.unstaged),
                     static_cast<unsigned>(volume.owed)});
  }
  return Dump(value);
}

std::vector<ReceiptRecord::Volume> ReceiptVolumesFromColumn(
    std::string_view text) {
  std::vector<ReceiptRecord::Volume> volumes;
  const json value = Parse(text);
  if (value.is_array()) {
    for (const json& item : value) {
      volumes.push_back({Text(item, 0), Text(item, 1),
                         Number<unsigned>(item, 2) != 0,
                         Number<unsigned>(item, 3) != 0});
    }
  }
  return volumes;
}

std::string ToColumn(const csi::Fingerprint& fingerprint) {
  const csi::PluginCapabilities& capabilities = fingerprint.capabilities;
  const csi::NodeInfo& node = fingerprint.node;
  return Dump({fingerprint.info.name, fingerprint.info.vendor_version,
               capabilities.services, capabilities.controller_rpcs,
               capabilities.node_rpcs, node.node_id, node.max_volumes,
               node.topology});
}

csi::Fingerprint FingerprintFromColumn(std::string_view text) {
  const json value = Parse(text);
  csi::Fingerprint fingerprint;
  fingerprint.info = {Text(value, 0), Text(value, 1)};
  fingerprint.capabilities = {Numbers(value, 2), Numbers(value, 3),
                              Numbers(value, 4)};
  fingerprint.node.node_id = Text(value, 5);
  fingerprint.node.max_volumes = Number<std::int64_t>(value, 6);
  if (value.is_array() && value.size() > 7) {
    fingerprint.node.topology = MapFromColumn(Dump(value[7]));
  }
  return fingerprint;
}

}  // namespace mountd::store
