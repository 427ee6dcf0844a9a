// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/personality.h"

#include <array>
#include <utility>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/values.h"

namespace mountd::cni_plugin {
namespace {

// GC and STATUS came with this version of the CNI project's plugins. The part
// after the '+' counts for nothing when versions are compared (semver.org, 10).
constexpr char kProjectsVersion[] = "1.6.0+mountd";

constexpr std::array<std::pair<Personality, const char*>, 6> kNames = {{
    {Personality::kMountd, "mountd"},
    {Personality::kBridge, "bridge"},
    {Personality::kPortmap, "portmap"},
    {Personality::kFirewall, "firewall"},
    {Personality::kLoopback, "loopback"},
    {Personality::kHostLocal, "host-local"},
}};

}  // namespace

const char* NameOf(Personality personality) {
  for (const auto& [one, name] : kNames) {
    if (one == personality) {
      return name;
    }
  }
  return "";
}

std::optional<Personality> FindPersonality(std::string_view name) {
  for (const auto& [one, own] : kNames) {
    if (own == name) {
      return one;
    }
  }
  return std::nullopt;
}

Outcome<Personality> PersonalityOf(const Environment& environment,
                                   const cni::Json& document) {
  const auto by_name = FindPersonality(environment.program);
  if (by_name == Personality::kHostLocal) {
    return *by_name;
  }
  const std::string type = cni::FindText(document, "type").value_or("");
  const auto by_type = FindPersonality(type);
  if (by_name && !type.empty() && by_type != by_name) {
    return BadConfig("type", "must be \"" + environment.program +
                                 "\", the name of the program");
  }
  return by_name.value_or(by_type.value_or(Personality::kMountd));
}

std::string AboutText(Personality personality, const std::string& version) {
  const bool own = personality == Personality::kMountd;
  std::string text = std::string("CNI ") + NameOf(personality) + " plugin v" +
                     (own ? version : kProjectsVersion) +
                     "\nCNI protocol versions supported: ";
  const char* before = "";
  for (const char* one : kVersions) {
    text += before;
    text += one;
    before = ", ";
  }
  return text + "\n";
}

}  // namespace mountd::cni_plugin
