// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/attachment_ids.h"

#include "mountd/base/names.h"
#include "netns/cni/documents/names.h"

namespace mountd::cni_plugin {
namespace {

constexpr std::string_view kPrefix = "cni-";
// With the prefix and the longest marker the id is still a valid name.
constexpr std::size_t kMaxPlainBytes = 100;
static_assert(kPrefix.size() + kMaxPlainBytes + sizeof("[]") - 1 + 15 <=
              kMaxNameBytes);

}  // namespace

std::string AllocationOf(std::string_view container_id) {
  const std::string prefix(kPrefix);
  if (container_id.size() <= kMaxPlainBytes) {
    return prefix + std::string(container_id);
  }
  // 128 bits of a SHA-256.
  return prefix + "." + VolumeKey::Derive("cni", container_id).str();
}

std::string MarkerOf(std::string_view allocation, std::string_view ifname) {
  return std::string(allocation) + "[" + std::string(ifname) + "]";
}

std::optional<AllocationId> ParseAllocationId(std::string_view id) {
  if (!id.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const std::size_t bracket = id.find('[');
  if (bracket == std::string_view::npos) {
    return AllocationId{std::string(id), ""};
  }
  if (!id.ends_with(']')) {
    return std::nullopt;
  }
  const std::string_view ifname =
      id.substr(bracket + 1, id.size() - bracket - 2);
  if (!cni::IsInterfaceName(ifname)) {
    return std::nullopt;
  }
  return AllocationId{std::string(id.substr(0, bracket)), std::string(ifname)};
}

}  // namespace mountd::cni_plugin
