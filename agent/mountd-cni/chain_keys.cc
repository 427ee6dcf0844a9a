// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/chain_keys.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "agent/mountd-cni/values.h"
#include "netns/cni/documents/go_json.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

constexpr std::size_t kMaxTextBytes = 256;
constexpr std::size_t kMaxRoutes = 64;

enum class Accepts { kText, kFlag, kTrue, kFalse, kOpen, kIpam };

struct ChainKey {
  Personality personality;
  const char* key;
  Accepts accepts;
};

constexpr std::array<ChainKey, 13> kKeys = {{
    // mountd has no bridge. Its links are routed, so a port of the container's
    // own is reached in any mode of a bridge.
    {Personality::kBridge, "bridge", Accepts::kText},
    {Personality::kBridge, "forceAddress", Accepts::kFlag},
    {Personality::kBridge, "hairpinMode", Accepts::kFlag},
    // mountd does these always.
    {Personality::kBridge, "isGateway", Accepts::kTrue},
    {Personality::kBridge, "isDefaultGateway", Accepts::kTrue},
    {Personality::kBridge, "ipMasq", Accepts::kTrue},
    {Personality::kBridge, "ipam", Accepts::kIpam},
    // mountd has a table of its own.
    {Personality::kFirewall, "backend", Accepts::kText},
    {Personality::kFirewall, "iptablesAdminChainName", Accepts::kText},
    {Personality::kFirewall, "ingressPolicy", Accepts::kOpen},
    {Personality::kPortmap, "backend", Accepts::kText},
    // mountd changes the source address where the way back needs it.
    {Personality::kPortmap, "snat", Accepts::kFlag},
    {Personality::kPortmap, "masqAll", Accepts::kFalse},
}};

bool Is(const ChainKey& known, Personality personality, std::string_view key) {
  return known.personality == personality &&
         cni::FoldedName(known.key) == cni::FoldedName(key);
}

Outcome<void> CheckFlag(const Json& document, const char* key, bool only) {
  MOUNTD_ASSIGN(const bool flag, FlagAt(document, key));
  if (!cni::IsAbsent(document, key) && flag != only) {
    return BadConfig(key, only ? "must be true, because mountd always does this"
                               : "must be false, because mountd never does "
                                 "this");
  }
  return {};
}

// The section of the plugin that would choose addresses. mountd takes them from
// the ranges of its own network, whatever the section says.
Outcome<void> CheckIpam(const Json& document) {
  MOUNTD_ASSIGN(const Json ipam, ObjectAt(document, "ipam"));
  MOUNTD_ASSIGN(const std::string type,
                TextAt(ipam, "type", "host-local", kMaxTextBytes));
  if (type != "host-local") {
    return BadConfig("ipam",
                     "must have the type host-local, because mountd chooses "
                     "addresses itself");
  }
  MOUNTD_ASSIGN(const std::vector<Json> routes,
                ItemsAt(ipam, "routes", kMaxRoutes));
  for (const Json& route : routes) {
    MOUNTD_ASSIGN(const std::string dst,
                  TextAt(route, "dst", "", kMaxTextBytes));
    MOUNTD_ASSIGN(const std::string gw, TextAt(route, "gw", "", kMaxTextBytes));
    if ((dst != "0.0.0.0/0" && dst != "::/0") || !gw.empty()) {
      return BadConfig("ipam",
                       "must have no routes but the default ones, because "
                       "mountd sets no others");
    }
  }
  return {};
}

Outcome<void> CheckText(const Json& document, const char* key) {
  const auto text = TextAt(document, key, "", kMaxTextBytes);
  return text ? Outcome<void>() : text.error();
}

Outcome<void> CheckOpen(const Json& document, const char* key) {
  MOUNTD_ASSIGN(const std::string text,
                TextAt(document, key, "", kMaxTextBytes));
  if (!text.empty() && text != "open") {
    return BadConfig(key,
                     "must be \"open\"; the key \"isolated\" of the plugin "
                     "bridge keeps other allocations away");
  }
  return {};
}

Outcome<void> Check(const Json& document, const ChainKey& known) {
  switch (known.accepts) {
    case Accepts::kText:
      return CheckText(document, known.key);
    case Accepts::kFlag: {
      const auto flag = FlagAt(document, known.key);
      return flag ? Outcome<void>() : flag.error();
    }
    case Accepts::kTrue:
      return CheckFlag(document, known.key, true);
    case Accepts::kFalse:
      return CheckFlag(document, known.key, false);
    case Accepts::kOpen:
      return CheckOpen(document, known.key);
    case Accepts::kIpam:
      return CheckIpam(document);
  }
  return {};
}

}  // namespace

bool IsChainKey(Personality personality, std::string_view key) {
  return std::any_of(kKeys.begin(), kKeys.end(), [&](const ChainKey& known) {
    return Is(known, personality, key);
  });
}

Outcome<void> CheckChainKeys(Personality personality, const Json& document) {
  for (const ChainKey& known : kKeys) {
    if (known.personality == personality) {
      MOUNTD_TRY(Check(document, known));
    }
  }
  return {};
}

}  // namespace mountd::cni_plugin
