// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/config.h"

#include <algorithm>
#include <utility>

#include "agent/mountd-cni/chain_keys.h"
#include "agent/mountd-cni/values.h"
#include "netns/cni/documents/go_json.h"
#include "netns/cni/documents/limits.h"
#include "netns/cni/documents/names.h"
#include "netns/cni/documents/plugin_result.h"

namespace mountd::cni_plugin {
namespace {

using cni::FindMember;
using cni::Json;

// These bounds are enough for a container's result, or for a few thousand valid
// attachments.
constexpr cni::TextBounds kInputBounds{1U << 20U, 32, 65536};
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxAddressBytes = 256;
constexpr std::size_t kMaxAttachments = 10'000;
constexpr std::uint64_t kDefaultTimeoutMs = 60'000;
constexpr std::uint64_t kMaxTimeoutMs = 3'600'000;
constexpr char kValidAttachments[] = "cni.dev/valid-attachments";

constexpr std::array<std::string_view, 14> kKnownKeys = {
    "cniVersion", "name",         "type",          "network",    "address",
    "isolated",   "timeoutMs",    "runtimeConfig", "prevResult", "dns",
    "args",       "capabilities", "disableCheck",  "udpIfFree"};
constexpr std::string_view kFirstVersion = kVersions.front();

// Accepts keys with a domain, because they are extensions of the specification
// or of a runtime.
bool IsKnownKey(std::string_view key) {
  const std::string folded = cni::FoldedName(key);
  return key.find('/') != std::string_view::npos ||
         std::any_of(kKnownKeys.begin(), kKnownKeys.end(),
                     [&](std::string_view known) {
                       return cni::FoldedName(known) == folded;
                     });
}

Outcome<void> CheckKeys(const Json& document, Personality personality) {
  for (const auto& [key, value] : document.items()) {
    // Go writes empty members for settings that a configuration does not have.
    const bool is_empty = value.is_null() || value.empty();
    if (!IsKnownKey(key) && !IsChainKey(personality, key) && !is_empty) {
      return Failure{
          cni::kUnsupportedField,
          key + ": " + cni::ToText(value) +
              " is not supported; remove it from the network configuration"};
    }
  }
  return CheckChainKeys(personality, document);
}

// The specification added CHECK with 0.4.0, and GC and STATUS with 1.1.0.
bool HasCommand(std::string_view version, const std::string& command) {
  if (command == "GC" || command == "STATUS") {
    return version == kLatestVersion;
  }
  return command != "CHECK" || version != kFirstVersion;
}

Outcome<std::string> VersionOf(const Json& document,
                               const std::string& command) {
  MOUNTD_ASSIGN(std::string version,
                TextAt(document, "cniVersion", "0.1.0", kMaxNameBytes));
  if (!IsOurVersion(version) || !HasCommand(version, command)) {
    return Failure{cni::kIncompatibleVersion,
                   "version " + version + " of CNI has no " + command +
                       " that this plugin speaks; it speaks " +
                       std::string(kFirstVersion) + " to " + kLatestVersion};
  }
  return version;
}

Outcome<Json> PrevResultOf(const Json& document, const std::string& version,
                           const std::string& command) {
  const Json* found = FindMember(document, "prevResult");
  Json result;
  // Ignores the previous result, because a bad result of another plugin must
  // not keep an attachment from being removed.
  if (found == nullptr || command == "DEL" || command == "GC") {
    if (command == "CHECK") {
      return BadConfig("prevResult", "is required for CHECK");
    }
    return result;
  }
  const auto valid = cni::ReadPluginResult(*found, version);
  if (!found->is_object() || !valid) {
    return BadConfig("prevResult",
                     valid ? "must be an object" : valid.error().Message());
  }
  result = *found;
  return result;
}

Outcome<std::vector<cni::Attachment>> ValidAttachmentsOf(const Json& document) {
  if (cni::IsAbsent(document, kValidAttachments)) {
    // Absent is an error and not an empty list, because an empty list would
    // detach everything.
    return BadConfig(kValidAttachments, "is required for GC");
  }
  MOUNTD_ASSIGN(const std::vector<Json> items,
                ItemsAt(document, kValidAttachments, kMaxAttachments));
  std::vector<cni::Attachment> attachments;
  for (const Json& item : items) {
    cni::Attachment one;
    MOUNTD_ASSIGN(one.container_id,
                  TextAt(item, "containerID", "", kMaxNameBytes));
    MOUNTD_ASSIGN(one.ifname, TextAt(item, "ifname", "", kMaxNameBytes));
    if (one.container_id.empty() || one.ifname.empty()) {
      return BadConfig(kValidAttachments,
                       "must have a containerID and an ifname in each entry");
    }
    attachments.push_back(std::move(one));
  }
  return attachments;
}

Outcome<void> ReadOwnKeys(const Json& document, const Environment& environment,
                          Config* config) {
  const std::string& network = environment.network;
  MOUNTD_ASSIGN(config->name, TextAt(document, "name", "", kMaxNameBytes));
  MOUNTD_ASSIGN(
      config->network,
      TextAt(document, "network", network.empty() ? "default" : network.c_str(),
             kMaxNameBytes));
  MOUNTD_ASSIGN(config->address,
                TextAt(document, "address", environment.address.c_str(),
                       kMaxAddressBytes));
  MOUNTD_ASSIGN(config->isolated, FlagAt(document, "isolated"));
  MOUNTD_ASSIGN(
      const std::uint64_t timeout,
      NumberAt(document, "timeoutMs", kDefaultTimeoutMs, kMaxTimeoutMs));
  config->timeout = std::chrono::milliseconds(timeout);
  if (timeout == 0) {
    return BadConfig("timeoutMs", "must not be 0");
  }
  if (!cni::IsNetworkName(config->name)) {
    return BadConfig("name", "must be 1 to 128 bytes of [A-Za-z0-9_.-]");
  }
  return {};
}

// Nomad asks for UDP with each TCP port, because a job does not say which of
// the two it uses. Nomad since 1.10 names itself in CNI_ARGS; only older ones
// need the key.
Outcome<void> ReadUdpIfFree(const Json& document,
                            const Environment& environment, Config* config) {
  bool if_free = config->personality == Personality::kPortmap;
  if (cni::IsAbsent(document, "udpIfFree")) {
    MOUNTD_ASSIGN(const std::vector<std::string> nomads,
                  ValuesInArgs(environment.args, "NOMAD_ALLOC_ID"));
    if_free = if_free || !nomads.empty();
  } else {
    MOUNTD_ASSIGN(if_free, FlagAt(document, "udpIfFree"));
  }
  if (if_free) {
    MakeUdpOptional(&config->runtime.ports);
  }
  return {};
}

}  // namespace

bool IsOurVersion(std::string_view version) {
  return std::find(kVersions.begin(), kVersions.end(), version) !=
         kVersions.end();
}

std::string AnswerVersion(const Json& document) {
  const auto version = cni::FindText(document, "cniVersion");
  return version && IsOurVersion(*version) ? *version : kLatestVersion;
}

Outcome<Json> ParseDocument(std::string_view text) {
  Result<Json> document = cni::ParseAsGo(text, kInputBounds, "stdin");
  if (!document) {
    return Failure{cni::kUndecodable, document.error().Message()};
  }
  return std::move(document).value();
}

Outcome<Config> ParseConfig(const Json& document,
                            const Environment& environment) {
  Config config;
  const std::string& command = environment.command;
  MOUNTD_ASSIGN(config.personality, PersonalityOf(environment, document));
  MOUNTD_ASSIGN(config.version, VersionOf(document, command));
  if (config.personality == Personality::kHostLocal) {
    return config;
  }
  MOUNTD_TRY(CheckKeys(document, config.personality));
  MOUNTD_TRY(ReadOwnKeys(document, environment, &config));
  MOUNTD_ASSIGN(config.prev_result,
                PrevResultOf(document, config.version, command));
  if (command == "ADD" || command == "CHECK") {
    MOUNTD_ASSIGN(config.runtime, ReadRuntimeConfig(document, environment));
    MOUNTD_TRY(ReadUdpIfFree(document, environment, &config));
  }
  if (command == "GC") {
    MOUNTD_ASSIGN(config.valid_attachments, ValidAttachmentsOf(document));
  }
  return config;
}

}  // namespace mountd::cni_plugin
