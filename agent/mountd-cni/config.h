// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/personality.h"
#include "agent/mountd-cni/runtime_config.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/request.h"

namespace mountd::cni_plugin {

// In ascending order.
inline constexpr std::array<const char*, 4> kVersions = {"0.3.1", "0.4.0",
                                                         "1.0.0", "1.1.0"};
inline constexpr const char* kLatestVersion = kVersions.back();

// True if this plugin supports the version.
bool IsOurVersion(std::string_view version);

// One plugin's configuration (CNI 1.1, section 1 and "Deriving execution
// configuration").
struct Config {
  Personality personality = Personality::kMountd;
  std::string version;
  std::string name;     // of the network configuration
  std::string network;  // the network in mountd
  std::string address;  // the path of mountd's socket; "": the client's default
  bool isolated = false;  // no traffic to or from other allocations
  std::chrono::milliseconds timeout{};  // for all that one call does
  RuntimeConfig runtime;
  // The result of the plugin before this one in the chain; null for none. Valid
  // (ReadPluginResult) and unchanged.
  cni::Json prev_result;
  std::vector<cni::Attachment> valid_attachments;  // GC
};

// Returns the version that stdin asks for if this plugin supports that version,
// otherwise the latest. A failure is reported in this version's format.
std::string AnswerVersion(const cni::Json& document);

// kUndecodable if the text is no JSON.
Outcome<cni::Json> ParseDocument(std::string_view text);

// Errors:
// - kIncompatibleVersion if the version is unknown or has no such verb.
// - kUnsupportedField for a key that neither this plugin nor the specification
//   knows, because a misspelt "isolated" must not go unnoticed.
// - kInvalidConfig for a wrong value.
// - kInvalidEnvironment for CNI_ARGS.
//
// Reads for kHostLocal only the version, because the rest of its document is
// another plugin's.
Outcome<Config> ParseConfig(const cni::Json& document,
                            const Environment& environment);

}  // namespace mountd::cni_plugin
