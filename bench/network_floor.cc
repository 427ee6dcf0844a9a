// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/network_floor.h"

#include <linux/netlink.h>

#include <map>
#include <optional>
#include <utility>

#include "bench/floor_messages.h"
#include "bench/namespaces.h"
#include "bench/programs.h"

namespace mountd::bench {
namespace {

class Floor final : public NetworkFloor {
 public:
  Floor(UniqueFd route, UniqueFd netfilter, LinkWatch& links)
      : route_(std::move(route)),
        netfilter_(std::move(netfilter)),
        links_(links) {}
  std::string name() const override { return "messages"; }

  // Makes the sets, the host's addresses and the first namespace.
  Result<void> MakeHost() {
    MOUNTD_TRY(RunProgram(
        {.command = {"/usr/sbin/nft", "-f", "-"}, .input = kFloorSets}));
    MOUNTD_ASSIGN(namespace_, MakeQuietNamespace());
    return Exchange(route_, HostAddresses(), "RTM_NEWADDR");
  }

  Result<void> Prepare(const std::vector<std::uint16_t>& ports) override {
    ends_.emplace(number_++);
    ports_ = ports;
    return Ok();
  }
  // Makes the next round's namespace now, so that it rests as one of a pool
  // does. A namespace made just before a round would leave the kernel's memory
  // warm for the pair, and all messages would take a fifth less time than after
  // one made ahead.
  Result<void> CleanUp() override {
    MOUNTD_ASSIGN(namespace_, MakeQuietNamespace());
    return Ok();
  }

  Result<void> SetUp() override {
    const auto part = [this](const char* name, const auto& call) {
      return Time(parts_[ports_.size()][name], call);
    };
    MOUNTD_TRY(part("veth", [&] {
      return Exchange(route_, HostEnd(*ends_, namespace_.fd.get()), "host end");
    }));
    MOUNTD_TRY(part("eth0", [&] {
      return Exchange(namespace_.route, AllocationEnd(*ends_), "eth0");
    }));
    MOUNTD_TRY(part("carrier", [&] {
      return Exchange(route_, HostEndReady(*ends_), "carrier");
    }));
    // Closes the socket early, because a closed socket keeps its namespace for
    // some 20 ms more.
    namespace_.route.reset();
    return part("elements", [&] {
      return Exchange(netfilter_, AddedElements(*ends_, ports_), "elements");
    });
  }

  Result<void> TearDown() override {
    MOUNTD_TRY(
        Exchange(netfilter_, DeletedElements(*ends_, ports_), "elements"));
    namespace_ = {};
    return Ok();
  }
  Result<void> AwaitGone() override { return links_.AwaitGone({ends_->name}); }

  const SetupParts& parts(int ports) override {
    return parts_[static_cast<std::size_t>(ports)];
  }

 private:
  const UniqueFd route_;
  const UniqueFd netfilter_;
  LinkWatch& links_;
  Namespace namespace_;
  std::optional<Ends> ends_;
  std::vector<std::uint16_t> ports_;
  int number_ = 0;
  std::map<std::size_t, SetupParts> parts_;  // by ports
};

}  // namespace

Result<std::unique_ptr<NetworkFloor>> ByMessages(LinkWatch& links) {
  MOUNTD_ASSIGN(UniqueFd route, OpenNetlink(NETLINK_ROUTE));
  MOUNTD_ASSIGN(UniqueFd netfilter, OpenNetlink(NETLINK_NETFILTER));
  auto floor =
      std::make_unique<Floor>(std::move(route), std::move(netfilter), links);
  MOUNTD_TRY(floor->MakeHost());
  return std::unique_ptr<NetworkFloor>(std::move(floor));
}

}  // namespace mountd::bench
