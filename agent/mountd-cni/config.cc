// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/config.h"

#include <algorithm>
#include <utility>

#include "agent/mountd-cni/values.h"
#include "netns/cni/documents/go_json.h"
#include "netns/cni/documents/limits.h"
#include "netns/cni/documents/names.h"
#include "netns/cni/documents/plugin_result.h"

namespace mountd::cni_plugin {
namespace {

using cni::FindMember;
using cni::Json;

// Enough for a container's result, or for a few thousand valid attachments.
constexpr cni::TextBounds kInputBounds{1U << 20U, 32, 65536};
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxAddressBytes = 256;
constexpr std::size_t kMaxAttachments = 10'000;
constexpr std::uint64_t kDefaultTimeoutMs = 60'000;
constexpr std::uint64_t kMaxTimeoutMs = 3'600'000;
constexpr char kValidAttachments[] = "cni.dev/valid-attachments";

constexpr std::array<std::string_view, 13> kKnownKeys = {
    "cniVersion", "name",         "type",          "network",    "address",
    "isolated",   "timeoutMs",    "runtimeConfig", "prevResult", "dns",
    "args",       "capabilities", "disableCheck"};

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

Outcome<void> CheckKeys(const Json& document) {
  for (const auto& [key, value] : document.items()) {
    // Go writes empty members for settings that a configuration does not have.
    const bool is_empty = value.is_null() || value.empty();
    if (!IsKnownKey(key) && !is_empty) {
      return Failure{
          cni::kUnsupportedField,
          key + ": " + cni::ToText(value) +
              " is not supported; remove it from the network configuration"};
    }
  }
  return {};
}

Outcome<std::string> VersionOf(const Json& document,
                               const std::string& command) {
  MOUNTD_ASSIGN(std::string version,
                TextAt(document, "cniVersion", "0.1.0", kMaxNameBytes));
  const bool is_new = command == "GC" || command == "STATUS";
  if (!IsOurVersion(version) || (is_new && version != kLatestVersion)) {
    return Failure{cni::kIncompatibleVersion,
                   "version " + version + " of CNI has no " + command +
                       " that this plugin speaks; it speaks 0.4.0 to 1.1.0"};
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

Outcome<void> ReadOwnKeys(const Json& document, Config* config) {
  MOUNTD_ASSIGN(config->name, TextAt(document, "name", "", kMaxNameBytes));
  MOUNTD_ASSIGN(config->network,
                TextAt(document, "network", "default", kMaxNameBytes));
  MOUNTD_ASSIGN(config->address,
                TextAt(document, "address", "", kMaxAddressBytes));
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
  MOUNTD_ASSIGN(config.version, VersionOf(document, command));
  MOUNTD_TRY(CheckKeys(document));
  MOUNTD_TRY(ReadOwnKeys(document, &config));
  MOUNTD_ASSIGN(config.prev_result,
                PrevResultOf(document, config.version, command));
  if (command == "ADD") {
    MOUNTD_ASSIGN(config.runtime, ReadRuntimeConfig(document, environment));
  }
  if (command == "GC") {
    MOUNTD_ASSIGN(config.valid_attachments, ValidAttachmentsOf(document));
  }
  return config;
}

}  // namespace mountd::cni_plugin
