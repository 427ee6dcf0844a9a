// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

// One way to set up and to remove one allocation's network.
class NetworkWay {
 public:
  virtual ~NetworkWay() = default;
  virtual std::string name() const = 0;

  // Prepare and CleanUp are not measured; they make and remove the
  // surroundings. Each of `ports` is a host port that is mapped for TCP and
  // UDP, as Nomad does.
  virtual Result<void> Prepare(const std::vector<std::uint16_t>& ports) = 0;
  virtual Result<void> CleanUp() = 0;

  virtual Result<void> SetUp() = 0;
  virtual Result<void> TearDown() = 0;
  // Called before TearDown and not measured, because SetUp comes after another
  // call, too.
  virtual Result<void> Use() { return Ok(); }
  // Called after TearDown. Returns when the link is gone.
  virtual Result<void> AwaitGone() { return Ok(); }
};

// Waits a little, as an allocation does that lives. The kernel ends namespaces
// one after the other and needs some 30 ms for each after its link is gone. A
// closed socket keeps its namespace for as long.
inline void Settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

// Returns the port in the namespace for a host port; another number than on the
// host.
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
