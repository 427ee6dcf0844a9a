// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

// One way to have one allocation's network, and to have it away again.
class NetworkWay {
 public:
  virtual ~NetworkWay() = default;
  virtual std::string name() const = 0;

  // Neither is measured: what is there before, and what is left behind.
  // `ports`: host ports, each mapped for TCP and UDP, as Nomad does.
  virtual Result<void> Prepare(const std::vector<std::uint16_t>& ports) = 0;
  virtual Result<void> CleanUp() = 0;

  virtual Result<void> SetUp() = 0;
  virtual Result<void> TearDown() = 0;
  // Not measured: what comes before TearDown, as SetUp comes after a call, too.
  virtual Result<void> Use() { return Ok(); }
  // After TearDown: returns when the link is gone.
  virtual Result<void> AwaitGone() { return Ok(); }
};

// The kernel ends one namespace after the other, and each takes it some 30 ms
// beyond its link; and a socket that was in one holds it as long after it was
// closed. An allocation lives longer than that.
inline void Settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

// What a host port leads to in the namespace; another port than on the host.
inline std::uint16_t ContainerPort(std::uint16_t host) {
  return static_cast<std::uint16_t>(host - 10'000);
}

inline std::vector<std::uint16_t> Ports(int first, int count) {
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < count; ++i) {
    ports.push_back(static_cast<std::uint16_t>(first + i));
  }
  return ports;
}

}  // namespace mountd::bench
