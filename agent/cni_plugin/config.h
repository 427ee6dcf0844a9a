// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/cni_plugin/environment.h"
#include "agent/cni_plugin/failure.h"
#include "agent/cni_plugin/runtime_config.h"
#include "netns/cni/json.h"
#include "netns/cni/request.h"

namespace mountd::cni_plugin {

// Ascending.
inline constexpr std::array<const char*, 3> kVersions = {"0.4.0", "1.0.0",
                                                         "1.1.0"};
inline constexpr const char* kLatestVersion = kVersions.back();

// Whether this plugin speaks it.
bool IsOurVersion(std::string_view version);

// One plugin's configuration (CNI 1.1, section 1 and "Deriving execution
// configuration").
struct Config {
  std::string version;
  std::string name;       // of the network configuration
  std::string network;    // of mountd's
  std::string address;    // of mountd's socket; "": the client's default
  bool isolated = false;  // from other allocations
  std::chrono::milliseconds timeout{};  // for all that one call does
  RuntimeConfig runtime;
  // A plugin's before this one; null for none. Valid (ReadPluginResult), and
  // kept as it came.
  cni::Json prev_result;
  std::vector<cni::Attachment> valid_attachments;  // GC
};

// The version that stdin asks for, if it is one of ours; otherwise the latest:
// in which form a failure is told.
std::string AnswerVersion(const cni::Json& document);

// kUndecodable for what is not JSON.
Outcome<cni::Json> ParseDocument(std::string_view text);

// kIncompatibleVersion; also where the verb is not of the version.
// kUnsupportedField for a key that is neither ours nor the specification's: a
// misspelt "isolated" must not go unnoticed. kInvalidConfig for a wrong value,
// kInvalidEnvironment for CNI_ARGS.
Outcome<Config> ParseConfig(const cni::Json& document,
                            const Environment& environment);

}  // namespace mountd::cni_plugin
