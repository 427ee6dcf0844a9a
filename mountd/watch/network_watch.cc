// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/network_watch.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "mountd/service/teardowns.h"
#include "netns/events/namespace_events.h"

namespace mountd {
namespace {

constexpr char kWatchStrand[] = "network watch";
constexpr char kCniStrand[] = "cni-check";
constexpr std::chrono::milliseconds kRearmPause{5000};
constexpr std::chrono::milliseconds kReadPause{50};

// Returns whether the events name the link with these addresses, or a route or
// neighbour on that link.
bool AreOnLink(const netns::LinkEvents& events, const netns::Ipv4& ipv4,
               const netns::Ipv6& ipv6) {
  return events.overflowed || events.ipv4.contains(ipv4) ||
         events.ipv6.contains(ipv6) ||
         events.links.contains(netns::HostLinkName(ipv4, ipv6));
}

bool Concern(const netns::LinkEvents& events, const NetworkRecord& record) {
  return HasNamespace(record.mode) &&
         (events.allocations.contains(record.allocation) ||
          AreOnLink(events, record.ipv4, record.ipv6));
}

// Returns the address of the host end with that name, nullopt if no host end
// has such a name.
std::optional<netns::Ipv4> AddressOf(const std::string& link) {
  netns::Ipv4 address{};
  if (std::sscanf(link.c_str(), "md%2hhx%2hhx%2hhx%2hhx", &address[0],
                  &address[1], &address[2], &address[3]) != 4 ||
      // sscanf(3) also accepts a longer name, and a number with one digit.
      netns::HostLinkName(address) != link) {
    return std::nullopt;
  }
  return address;
}

bool HasAny(const netns::LinkEvents& events) {
  return events.overflowed || !events.links.empty() ||
         !events.allocations.empty() || !events.ipv4.empty() ||
         !events.ipv6.empty();
}

// Returns events that make mountd look at every network.
netns::LinkEvents AnyChange() {
  netns::LinkEvents events;
  events.overflowed = true;
  return events;
}

// Returns whether a repair with this error may succeed later, even if the
// configuration stays the same.
bool MayPass(Code code) {
  return code != Code::kInvalidArgument && code != Code::kNotFound &&
         code != Code::kPermissionDenied && code != Code::kAlreadyExists &&
         code != Code::kNotSupported;
}

}  // namespace

std::string RepairText(std::uint32_t repaired) {
  constexpr std::array<std::pair<std::uint32_t, const char*>, 4> kWords = {
      {{exec::kRepairedLink, "link"},
       {exec::kRepairedHostEnd, "host-end"},
       {exec::kRepairedInside, "inside"},
       {exec::kRepairedElements, "elements"}}};
  std::string text;
  for (const auto& [bit, word] : kWords) {
    if ((repaired & bit) != 0) {
      text.append(text.empty() ? "" : "+").append(word);
    }
  }
  return text;
}

NetworkKeys KeysOf(const netns::LinkEvents& events) {
  NetworkKeys keys;
  std::vector<std::string>& all = keys.allocations_and_addresses;
  all.assign(events.allocations.begin(), events.allocations.end());
  for (const netns::Ipv4& address : events.ipv4) {
    all.push_back(netns::ToString(address));
  }
  for (const netns::Ipv6& address : events.ipv6) {
    all.push_back(netns::ToString(address));
  }
  for (const std::string& link : events.links) {
    if (const auto address = AddressOf(link)) {
      all.push_back(netns::ToString(*address));
    }
    keys.ipv6_alone = keys.ipv6_alone || netns::IsLinkNameOfIpv6Alone(link);
  }
  return keys;
}

NetworkWatch::NetworkWatch(const Parts& parts, Events events)
    : parts_(parts),
      events_(std::move(events)),
      failed_(parts.loop, parts.strands) {
  const auto socket = [this](exec::NetworkWatchKind kind) {
    return [this, kind] { return parts_.executor.WatchNetworks(kind); };
  };
  namespaces_.open = [this] {
    return netns::WatchNamespaces(parts_.namespaces);
  };
  namespaces_.read = [this](int fd) { return ReadNamespaces(fd); };
  namespaces_.look = [this] { LookAtNetworks(AnyChange()); };
  links_.open = socket(exec::NetworkWatchKind::kLinks);
  links_.read = [this](int fd) { return ReadLinks(fd); };
  links_.look = [this] { Look(AnyChange()); };
  ruleset_.open = socket(exec::NetworkWatchKind::kRuleset);
  ruleset_.read = [this](int fd) { return ReadRuleset(fd); };
  ruleset_.look = [this] { Restore(); };
}

// Opens all three watches on one strand, so they open in this order. mountd
// compares all networks once the links are watched.
void NetworkWatch::Start() {
  // This makes Armed compare everything, because a network may have changed
  // before mountd started.
  links_.missed = true;
  Arm(&namespaces_);
  Arm(&links_);
  Arm(&ruleset_);
}

void NetworkWatch::Arm(Watched* watched) {
  parts_.strands.Submit(kWatchStrand, [this, watched] {
    Result<UniqueFd> fd = watched->open();
    if (!fd) {
      spdlog::warn("mountd cannot watch the networks: {}",
                   fd.error().Message());
      parts_.loop.Post([this, watched] { ArmLater(watched); });
      return;
    }
    auto shared = std::make_shared<UniqueFd>(std::move(*fd));
    parts_.loop.Post(
        [this, watched, shared] { Armed(watched, std::move(*shared)); });
  });
}

void NetworkWatch::ArmLater(Watched* watched) {
  watched->missed = true;
  parts_.loop.After(kRearmPause, [this, watched] { Arm(watched); });
}

void NetworkWatch::Armed(Watched* watched, UniqueFd fd) {
  watched->source.reset();
  watched->fd = std::move(fd);
  if (std::exchange(watched->missed, false)) {
    parts_.strands.Submit(kWatchStrand, watched->look);
  }
  Watch(watched);
}

void NetworkWatch::Watch(Watched* watched) {
  watched->source = parts_.loop.WatchFd(
      watched->fd.get(), EPOLLIN,
      [this, watched](std::uint32_t) { OnReadable(watched); });
  if (watched->source == nullptr) {
    ArmLater(watched);
  }
}

// Waits before it reads, because most changes come from mountd, which is making
// more of them.
void NetworkWatch::OnReadable(Watched* watched) {
  watched->source.reset();
  parts_.loop.After(kReadPause, [this, watched] {
    if (const Result<void> read = watched->read(watched->fd.get()); !read) {
      spdlog::warn("{}; mountd watches the networks again",
                   read.error().Message());
      ArmLater(watched);
      return;
    }
    Watch(watched);
  });
}

void NetworkWatch::LookLater(const netns::LinkEvents& events) {
  if (HasAny(events)) {
    parts_.strands.Submit(kWatchStrand, [this, events] { Look(events); });
  }
}

Result<void> NetworkWatch::ReadLinks(int fd) {
  MOUNTD_ASSIGN(netns::LinkEvents events, netns::ReadLinkEvents(fd));
  parts_.networks.DropOthers(&events);
  LookLater(events);
  return Ok();
}

Result<void> NetworkWatch::ReadNamespaces(int fd) {
  MOUNTD_ASSIGN(const netns::LinkEvents events, netns::ReadNamespaceEvents(fd));
  LookLater(events);
  return Ok();
}

Result<void> NetworkWatch::ReadRuleset(int fd) {
  const auto events = ruleset_reader_.Read(fd);
  if (!events) {
    // The next socket reports other transactions, so forget the old ones.
    ruleset_reader_ = {};
    return events.error();
  }
  if (events->changed || events->overflowed) {
    parts_.strands.Submit(kWatchStrand, [this] { Restore(); });
  } else if (events->forward && parts_.forward_rules) {
    parts_.strands.Submit(kWatchStrand,
                          [this] { PrepareHost("forward rules"); });
  }
  return Ok();
}

// Restores the host's addresses and the forward rules. `what` is for the log.
void NetworkWatch::PrepareHost(const std::string& what) {
  const auto prepared = parts_.executor.PrepareNetworks(false);
  if (!prepared) {
    spdlog::warn("mountd cannot restore the {} of networks: {}", what,
                 prepared.error().Message());
  }
  failed_.Done(prepared.has_value(),
               {what, kWatchStrand, [this, what] { PrepareHost(what); }});
}

void NetworkWatch::Look(const netns::LinkEvents& events) {
  if (parts_.networks.HasHostAddress(events)) {
    PrepareHost("host addresses");
  }
  LookAtNetworks(events);
}

void NetworkWatch::LookAtNetworks(const netns::LinkEvents& events) {
  const auto quarantine = parts_.store.networks.ListQuarantine();
  if (quarantine && std::any_of(quarantine->begin(), quarantine->end(),
                                [&](const QuarantineRecord& record) {
                                  return AreOnLink(events, record.ipv4,
                                                   record.ipv6);
                                })) {
    parts_.networks.ReapQuarantine();
  }
  const NetworkKeys keys = KeysOf(events);
  const auto records =
      events.overflowed ? parts_.store.networks.ListNetworks()
                        : parts_.store.networks.NetworksWith(
                              keys.allocations_and_addresses, keys.ipv6_alone);
  const bool are_read = quarantine.has_value() && records.has_value();
  if (!are_read || events.overflowed) {
    // The retry looks at all networks, because more events may have come by
    // then.
    failed_.Done(are_read, {"all networks", kWatchStrand,
                            [this] { LookAtNetworks(AnyChange()); }});
  }
  for (const NetworkRecord& record :
       records ? *records : std::vector<NetworkRecord>{}) {
    if (Concern(events, record)) {
      LookAt(record);
    }
    if (events.overflowed && record.mode == NetworkMode::kCni) {
      parts_.strands.Submit(kCniStrand, [this, allocation = record.allocation,
                                         interface = record.interface] {
        CheckCni(allocation, interface);
      });
    }
  }
}

// Restores the rules before it looks at any network, because the rules separate
// the allocations.
void NetworkWatch::Restore() {
  if (const auto prepared = parts_.executor.PrepareNetworks(true); !prepared) {
    spdlog::error(
        "another program changed mountd's nftables table, and mountd cannot "
        "restore it: {}",
        prepared.error().Message());
    // Retry after the short pause, because allocations are not separated until
    // then.
    parts_.loop.Post([this] {
      parts_.loop.After(kRearmPause, [this] {
        parts_.strands.Submit(kWatchStrand, [this] { Restore(); });
      });
    });
    return;
  }
  events_.ruleset_restored();
  // Do not call Look, because it would restore the host's addresses again,
  // which PrepareNetworks has just done.
  LookAtNetworks(AnyChange());
}

void NetworkWatch::LookAt(const NetworkRecord& seen) {
  parts_.strands.Submit(AllocationStrand(seen.allocation),
                        [this, seen] { RepairNow(seen); });
}

void NetworkWatch::RepairNow(const NetworkRecord& seen) {
  failed_.Done(
      Repaired(seen),
      {"network " + seen.allocation + "/" + seen.interface,
       AllocationStrand(seen.allocation), [this, seen] { RepairNow(seen); }});
}

bool NetworkWatch::Repaired(const NetworkRecord& seen) {
  // The record may have been replaced by one with the same name and without a
  // namespace.
  const auto record = Created(seen.allocation, seen.interface);
  if (!record) {
    return false;
  }
  return !*record || !HasNamespace((*record)->mode) || RepairOne(**record);
}

// Runs on a strand of its own, because the allocation's strand must not wait
// for plugins.
void NetworkWatch::CheckCni(const std::string& allocation,
                            const std::string& interface) {
  const auto found = Created(allocation, interface);
  if (!found || !*found) {
    return;
  }
  const NetworkRecord& record = **found;
  const Result<void> checked = parts_.networks.cni().Check(record);
  if (!checked && checked.error().code != Code::kFailedPrecondition) {
    spdlog::warn("network {}/{}: {}", allocation, interface,
                 checked.error().Message());
  }
  // The plugins may have taken long, and the network may have been replaced.
  const auto now = Created(allocation, interface);
  const bool is_same = now && *now && (*now)->network == record.network &&
                       (*now)->netns_inode == record.netns_inode &&
                       (*now)->cni_result == record.cni_result;
  if (!checked && checked.error().code == Code::kFailedPrecondition &&
      is_same) {
    Lost(record, checked.error().detail);
  }
}

Result<std::optional<NetworkRecord>> NetworkWatch::Created(
    const std::string& allocation, const std::string& interface) const {
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> records,
                parts_.store.networks.NetworksOf(allocation));
  for (const NetworkRecord& record : records) {
    if (record.interface == interface &&
        record.state == NetworkRecordState::kCreated) {
      return std::optional(record);
    }
  }
  return std::optional<NetworkRecord>();
}

bool NetworkWatch::RepairOne(const NetworkRecord& record) {
  const Result<std::uint32_t> repaired = parts_.networks.Repair(record);
  if (repaired) {
    if (*repaired != 0) {
      events_.repaired(record, RepairText(*repaired));
    }
    return true;
  }
  if (repaired.error().code == Code::kFailedPrecondition) {
    Lost(record, repaired.error().detail);
    return true;
  }
  spdlog::warn("network {}/{}: {}", record.allocation, record.interface,
               repaired.error().Message());
  return !MayPass(repaired.error().code);
}

void NetworkWatch::Lost(const NetworkRecord& record,
                        const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    // Report the network once, until Forget.
    if (!lost_.insert({record.allocation, record.interface}).second) {
      return;
    }
  }
  events_.lost(record, reason);
}

void NetworkWatch::Forget(const NetworkRecord& record) {
  const std::lock_guard lock(mutex_);
  lost_.erase({record.allocation, record.interface});
}

}  // namespace mountd
