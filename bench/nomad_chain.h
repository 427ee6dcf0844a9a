// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

inline constexpr char kNomadAllocation[] =
    "5d4b3c2a-1f0e-4d9c-8b7a-69584736f5e4";
inline constexpr char kNomadSubnet[] = "172.26.64.0/20";

// Runs the CNI plugins that Nomad runs for an allocation in bridge mode, in the
// same way: loopback, bridge with host-local, firewall, portmap. Each is a
// process whose stdin has its configuration with the previous plugin's result;
// DEL runs them in reverse order. Leaves out the calls of iptables that Nomad
// makes before each.
class NomadChain {
 public:
  // `directory` has the plugins. Each plugin also has `environment`.
  explicit NomadChain(std::string directory,
                      std::vector<std::string> environment = {});

  // Returns the path of each program that the chain runs.
  std::vector<std::string> Programs() const;

  // Each of `ports` is a host port that is mapped for TCP and UDP.
  Result<void> Add(const std::string& netns,
                   const std::vector<std::uint16_t>& ports);
  // Removes what the last Add has made.
  Result<void> Delete(const std::string& netns);

 private:
  std::string PathOf(const std::string& plugin) const;
  Result<std::string> Call(const std::string& command,
                           const nlohmann::json& plugin,
                           const std::string& netns) const;

  const std::string directory_;
  const std::vector<std::string> environment_;
  const nlohmann::json plugins_;
  nlohmann::json mappings_;
  nlohmann::json result_;
};

}  // namespace mountd::bench
