// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "mountd/networks/networks.h"
#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"

namespace mountd {

// Returns a request for the network "default".
inline NetworkRequest Spec(std::uint16_t host_port = 0) {
  NetworkRequest spec;
  if (host_port != 0) {
    spec.ports.push_back({"http", host_port, 80, exec::kTcp});
  }
  return spec;
}

class NetworksTest : public ::testing::Test {
 protected:
  exec::FakeExecutor& executor() { return *core_.executor; }
  Networks& networks() { return *core_.networks; }
  std::uint32_t Free() { return networks().GetUsage().at("default").free; }
  std::optional<NetworkRecord> RecordOf(const std::string& allocation) {
    const auto records = core_.boot->networks.NetworksOf(allocation).value();
    return records.empty() ? std::nullopt : std::optional(records.front());
  }
  Result<void> Teardown(const std::string& allocation) {
    return networks().Teardown(allocation, "eth0");
  }
  std::optional<NetworkStatus> Get(const std::string& allocation) {
    const auto all = networks().Of(allocation).value();
    return all.empty() ? std::nullopt : std::optional(all.front());
  }
  std::vector<std::string> Existing() { return executor().Existing(); }

  const std::vector<std::string> web_ = {"link 10.0.0.2", "network web"};
  Core core_;
};

}  // namespace mountd
