// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/network_crowd.h"

#include <utility>

#include "bench/mountd_network.h"
#include "bench/network_way.h"

namespace mountd::bench {
namespace {

std::string Allocation(const std::string& name, int i) {
  return name + "-" + std::to_string(i);
}

}  // namespace

Result<void> NetworkCrowd::Prepare(const std::string& name, int count) {
  MOUNTD_TRY(
      agents_.ForEach(count, [&](agent::Client& client, int i) -> Result<void> {
        MOUNTD_TRY(client.PrepareAllocation(Allocation(name, i)));
        return Ok();
      }));
  return Ok();
}

Result<NetworkCrowd::Made> NetworkCrowd::SetUp(const std::string& name,
                                               int count, int first_port,
                                               int ports) {
  std::vector<std::string> made(static_cast<std::size_t>(count));
  const auto one = [&](agent::Client& client, int i) -> Result<void> {
    const auto spec = SpecWith(Ports(first_port + i * ports, ports));
    MOUNTD_ASSIGN(agent::NetworkStatus status,
                  client.SetupNetwork(Allocation(name, i), spec));
    made[static_cast<std::size_t>(i)] = std::move(status.host_interface);
    return Ok();
  };
  MOUNTD_ASSIGN(Spans spans, agents_.ForEach(count, one));
  return Made{std::move(spans), std::move(made)};
}

Result<NetworkCrowd::Ended> NetworkCrowd::TearDown(const std::string& name,
                                                   const Made& made) {
  const auto one = [&](agent::Client& client, int i) {
    return client.TeardownNetwork(Allocation(name, i));
  };
  Settle();
  links_.Forget();
  MOUNTD_ASSIGN(Spans spans,
                agents_.ForEach(static_cast<int>(made.links.size()), one));
  MOUNTD_TRY(links_.AwaitGone({made.links.begin(), made.links.end()}));
  const double gone = spans.Each(Spans::Clock::now());
  Settle();
  return Ended{std::move(spans), gone};
}

}  // namespace mountd::bench
