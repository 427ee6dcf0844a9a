// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/request_bounds.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace mountd::cni {
namespace {

constexpr std::uint32_t kMaxPort = 65535;

Error OutOfBounds(const char* member, std::string object) {
  return MakeError(Code::kPermissionDenied, member, std::move(object),
                   "is outside of what this run of mountd-cni-run may do");
}

bool Contains(const std::vector<NumberRange>& ports, std::uint64_t port) {
  return std::any_of(ports.begin(), ports.end(), [&](const NumberRange& range) {
    return port >= range.first && port <= range.last;
  });
}

Result<void> CheckHostPorts(const std::vector<NumberRange>& ports,
                            const Json& capabilities) {
  const Json* mappings = FindMember(capabilities, "portMappings");
  if (mappings == nullptr) {
    return Ok();
  }
  for (const Json& mapping : *mappings) {
    const auto port = mapping.at("hostPort").get<std::uint64_t>();
    if (!Contains(ports, port)) {
      return OutOfBounds("hostPort", std::to_string(port));
    }
  }
  return Ok();
}

}  // namespace

std::optional<std::vector<NumberRange>> ParsePorts(std::string_view text) {
  std::vector<NumberRange> ports;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const auto range = ParseNumberRange(text.substr(0, comma), kMaxPort);
    // A comma at the end means that a number is missing.
    if (!range || comma == text.size() - 1) {
      return std::nullopt;
    }
    ports.push_back(*range);
    text.remove_prefix(std::min(comma, text.size() - 1) + 1);
  }
  return ports;
}

Result<Request> Bounded(const RequestBounds& bounds, const std::string& verb,
                        Request request) {
  if (verb == "gc" && request.network.empty()) {
    request.network = bounds.network;
  }
  if (!bounds.network.empty() && request.network != bounds.network) {
    return OutOfBounds("network", request.network);
  }
  if (!bounds.container_id.empty() &&
      request.attachment.container_id != bounds.container_id) {
    return OutOfBounds("container_id", request.attachment.container_id);
  }
  if (bounds.host_ports && verb == "add") {
    MOUNTD_TRY(CheckHostPorts(*bounds.host_ports, request.capabilities));
  }
  return request;
}

}  // namespace mountd::cni
