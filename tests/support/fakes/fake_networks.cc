// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The namespaces, links and port maps of FakeExecutor.
#include <linux/rtnetlink.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <tuple>

#include "mountd/plan/wire.h"
#include "netns/address/address.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::exec {
namespace {

bool SharePort(const NetworkPlan& a, const NetworkPlan& b) {
  const auto ports = [](const NetworkPlan& plan) {
    return std::vector<PortMap>(plan.ports.begin(),
                                plan.ports.begin() + plan.port_count);
  };
  const std::vector<PortMap> others = ports(b);
  const std::vector<PortMap> own = ports(a);
  return std::any_of(own.begin(), own.end(), [&](const PortMap& one) {
    return std::any_of(others.begin(), others.end(), [&](const PortMap& other) {
      return one.host_port < other.host_port + other.count &&
             other.host_port < one.host_port + one.count &&
             one.host_address == other.host_address &&
             (one.protocols & other.protocols) != 0;
    });
  });
}

// Returns the address that names the link.
std::string KeyOf(const NetworkPlan& plan) {
  return netns::IsNone(plan.ipv4) ? netns::ToString(plan.ipv6)
                                  : netns::ToString(plan.ipv4);
}

// Returns whether `there` has all ports of `plan`, however they are grouped.
bool HasPorts(const NetworkPlan& there, const NetworkPlan& plan) {
  const auto each = [](const NetworkPlan& of) {
    std::set<
        std::tuple<unsigned, unsigned, unsigned, std::array<std::uint8_t, 16>>>
        all;
    for (std::uint32_t i = 0; i < of.port_count; ++i) {
      const PortMap& port = of.ports.at(i);
      for (const unsigned bit : {kTcp, kUdp, kSctp}) {
        for (unsigned at = 0; (port.protocols & bit) != 0 && at < port.count;
             ++at) {
          all.emplace(bit, port.host_port + at, port.container_port + at,
                      port.host_address);
        }
      }
    }
    return all;
  };
  const auto has = each(there);
  const auto needed = each(plan);
  return std::includes(has.begin(), has.end(), needed.begin(), needed.end());
}

// Returns the plan with only the ports that the other plan does not have.
NetworkPlan OnlyNew(const NetworkPlan& old, const NetworkPlan& plan) {
  NetworkPlan fresh = plan;
  fresh.port_count = 0;
  for (std::uint32_t i = 0; i < plan.port_count; ++i) {
    NetworkPlan alone = plan;
    alone.port_count = 1;
    alone.ports[0] = plan.ports.at(i);
    if (!SharePort(alone, old)) {
      fresh.ports.at(fresh.port_count++) = plan.ports.at(i);
    }
  }
  return fresh;
}

PlanBody BodyOf(const NetworkPlan& plan) {
  PlanBody body;
  body.network = plan;
  return body;
}

// Returns a netlink socket whose next read fails with ENOBUFS, because the
// answers to its requests exceed its buffer.
Result<UniqueFd> OverflowedSocket() {
  UniqueFd overflowed(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr header{};
    ifinfomsg link{};
  } request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.link.ifi_index = 1;  // lo
  const int size = 1;          // the smallest there is
  ::setsockopt(overflowed.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
  for (int i = 0; i < 100; ++i) {
    (void)!::send(overflowed.get(), &request, sizeof(request), 0);
  }
  return overflowed;
}

Error OtherNamespace(const std::string& id) {
  return MakeError(Code::kFailedPrecondition, "create network", id,
                   "another network namespace has this name");
}

}  // namespace

Result<void> FakeExecutor::PrepareNetworks(bool anew) {
  PlanBody body;
  body.prepare_networks.anew = anew ? 1 : 0;
  return Run<Result<void>>(PlanKind::kPrepareNetworks, "PrepareNetworks",
                           anew ? "anew" : "", body, [] { return Ok(); });
}

Result<std::vector<FoundNetwork>> FakeExecutor::ListNetworks() {
  return Run<Result<std::vector<FoundNetwork>>>(
      PlanKind::kListNetworks, "ListNetworks", "", PlanBody(),
      [&]() -> Result<std::vector<FoundNetwork>> {
        std::vector<FoundNetwork> all;
        std::map<std::string, std::uint64_t> bare = networks_;
        for (const auto& [address, link] : links_) {
          FoundNetwork row;
          row.allocation = link.plan.allocation;
          row.ipv4 = link.plan.ipv4;
          row.ipv6 = link.plan.ipv6;
          row.flags = link.plan.flags & kIsolated;
          row.port_count = link.plan.port_count;
          row.ports = link.plan.ports;
          if (const auto home = networks_.find(Text(row.allocation));
              home != networks_.end() && !link.dying) {
            row.netns_inode = home->second;
            bare.erase(home->first);
          }
          all.push_back(row);
        }
        for (const auto& [id, inode] : bare) {
          FoundNetwork row;
          row.allocation = ToWire(id);
          row.netns_inode = inode;
          all.push_back(row);
        }
        return all;
      });
}

Result<void> FakeExecutor::CheckNetworkLocked(const NetworkPlan& plan) const {
  const std::string id = Text(plan.allocation);
  const auto found = networks_.find(id);
  const bool wants_it = plan.origin == NamespaceOrigin::kExisting;
  if (wants_it != (found != networks_.end()) ||
      (wants_it && found->second != plan.netns_inode)) {
    return OtherNamespace(id);
  }
  if (links_.contains(KeyOf(plan))) {
    return MakeError(
        Code::kBusy, "create network", id,
        "an earlier link with this address still exists; call again");
  }
  for (const auto& [address, link] : links_) {
    if (!link.dying && SharePort(plan, link.plan)) {
      return MakeError(Code::kAlreadyExists, "map", id,
                       "a host port is already mapped; ask for another");
    }
  }
  return Ok();
}

bool FakeExecutor::IsMadeLocked(const NetworkPlan& plan) const {
  const std::string id = Text(plan.allocation);
  const auto home = networks_.find(id);
  if (home == networks_.end() || (plan.origin == NamespaceOrigin::kGiven &&
                                  home->second != plan.netns_inode)) {
    return false;
  }
  const auto link = links_.find(KeyOf(plan));
  return !netns::HasAddress(plan) ||
         (link != links_.end() && !link->second.dying &&
          Text(link->second.plan.allocation) == id);
}

NetworkState FakeExecutor::StateLocked(const NetworkPlan& plan) const {
  NetworkState state;
  const auto found = networks_.find(Text(plan.allocation));
  state.netns_inode = found == networks_.end() ? 0 : found->second;
  const auto link = links_.find(KeyOf(plan));
  state.host_ifindex = link == links_.end() ? 0 : link->second.index;
  state.elements_present = link != links_.end() && !link->second.dying &&
                                   HasPorts(link->second.plan, plan)
                               ? 1
                               : 0;
  for (std::uint32_t i = 0; link != links_.end() && i < plan.port_count; ++i) {
    state.unmapped.at(i) = static_cast<std::uint8_t>(
        plan.ports.at(i).if_free & ~link->second.plan.ports.at(i).protocols);
  }
  return state;
}

void FakeExecutor::PutHostSocket(std::uint16_t port, std::uint8_t protocols) {
  const std::lock_guard lock(mutex_);
  host_sockets_[port] = protocols;
}

NetworkPlan FakeExecutor::KeepFreePortsLocked(NetworkPlan plan) const {
  for (std::uint32_t i = 0; i < plan.port_count; ++i) {
    PortMap& port = plan.ports.at(i);
    for (const std::uint8_t bit : {kTcp, kUdp, kSctp}) {
      NetworkPlan alone = plan;
      alone.port_count = 1;
      alone.ports[0] = port;
      alone.ports[0].protocols = bit;
      alone.ports[0].if_free = 0;
      const bool mapped =
          std::any_of(links_.begin(), links_.end(), [&](const auto& entry) {
            return !entry.second.dying && SharePort(alone, entry.second.plan);
          });
      if ((port.if_free & bit) != 0 &&
          (mapped || !CheckHostPortsLocked(alone))) {
        port.protocols = static_cast<std::uint8_t>(port.protocols & ~bit);
      }
    }
  }
  return plan;
}

Result<void> FakeExecutor::CheckHostPortsLocked(const NetworkPlan& plan) const {
  for (std::uint32_t i = 0; i < plan.port_count && plan.has_keeper == 0; ++i) {
    const PortMap& port = plan.ports.at(i);
    for (const auto& [number, protocols] : host_sockets_) {
      if (number >= port.host_port &&
          number < port.host_port + std::uint32_t{port.count} &&
          (protocols & port.protocols) != 0) {
        return ErrnoError(EADDRINUSE, "map",
                          "host port " + std::to_string(number) + "/tcp",
                          "a socket of the host already listens on it");
      }
    }
  }
  return Ok();
}

Result<void> FakeExecutor::CheckHostPorts(const NetworkPlan& plan, int keeper) {
  const std::string id = Text(plan.allocation);
  return Run<Result<void>>(PlanKind::kCheckHostPorts, "CheckHostPorts", id,
                           BodyOf(plan), [&]() -> Result<void> {
                             if ((plan.has_keeper != 0) != (keeper >= 0)) {
                               return MakeError(Code::kInternal,
                                                "check host ports", id, "fds");
                             }
                             return CheckHostPortsLocked(plan);
                           });
}

Result<NetworkState> FakeExecutor::CreateNetwork(const NetworkPlan& plan,
                                                 int netns, int keeper) {
  const std::string id = Text(plan.allocation);
  return Run<Result<NetworkState>>(
      PlanKind::kCreateNetwork, "CreateNetwork", id, BodyOf(plan),
      [&]() -> Result<NetworkState> {
        const std::string address = KeyOf(plan);
        if (IsMadeLocked(plan)) {
          return StateLocked(plan);
        }
        if ((plan.origin == NamespaceOrigin::kGiven) != (netns >= 0) ||
            (plan.has_keeper != 0) != (keeper >= 0)) {
          return MakeError(Code::kInternal, "create network", id, "fds");
        }
        const NetworkPlan chosen = KeepFreePortsLocked(plan);
        MOUNTD_TRY(CheckNetworkLocked(chosen));
        MOUNTD_TRY(CheckHostPortsLocked(chosen));
        networks_.emplace(id, plan.origin == NamespaceOrigin::kGiven
                                  ? plan.netns_inode
                                  : ++last_id_);
        if (netns::HasAddress(plan)) {
          links_[address] = {static_cast<std::uint32_t>(++last_id_), chosen};
        }
        return StateLocked(plan);
      });
}

Result<void> FakeExecutor::DeleteNetwork(const NetworkPlan& plan) {
  const std::string id = Text(plan.allocation);
  return Run<Result<void>>(
      PlanKind::kDeleteNetwork, "DeleteNetwork", id, BodyOf(plan),
      [&]() -> Result<void> {
        const auto found = networks_.find(id);
        const bool keeps = plan.origin == NamespaceOrigin::kExisting;
        if (!keeps && found != networks_.end() && plan.netns_inode != 0 &&
            found->second != plan.netns_inode) {
          return OtherNamespace(id);
        }
        if (busy_.contains(id)) {
          return ErrnoError(EBUSY, "umount2", id);
        }
        const auto link = links_.find(KeyOf(plan));
        if (link != links_.end() && Text(link->second.plan.allocation) == id) {
          link->second.dying = true;
          if (!keep_links_) {
            links_.erase(link);
          }
        }
        if (!keeps && found != networks_.end()) {
          networks_.erase(found);
        }
        return Ok();
      });
}

Result<NetworkState> FakeExecutor::InspectNetwork(const NetworkPlan& plan) {
  return Run<Result<NetworkState>>(PlanKind::kInspectNetwork, "InspectNetwork",
                                   Text(plan.allocation), BodyOf(plan),
                                   [&] { return StateLocked(plan); });
}

Result<NetworkState> FakeExecutor::RepairNetwork(const NetworkPlan& plan) {
  const std::string id = Text(plan.allocation);
  return Run<Result<NetworkState>>(
      PlanKind::kRepairNetwork, "RepairNetwork", id, BodyOf(plan),
      [&]() -> Result<NetworkState> {
        const auto found = networks_.find(id);
        if (found == networks_.end() || found->second != plan.netns_inode) {
          return MakeError(Code::kFailedPrecondition, "find namespace", id,
                           "the allocation's namespace no longer exists; "
                           "release the allocation");
        }
        const std::string address = KeyOf(plan);
        std::uint32_t repaired = 0;
        if (netns::HasAddress(plan) && !links_.contains(address)) {
          links_[address] = {static_cast<std::uint32_t>(++last_id_), plan};
          repaired = kRepairedLink;
        }
        NetworkState state = StateLocked(plan);
        state.repaired = repaired;
        return state;
      });
}

Result<NetworkState> FakeExecutor::UpdatePorts(const PortsPlan& plan) {
  const std::string id = Text(plan.network.allocation);
  PlanBody body;
  body.ports = plan;
  return Run<Result<NetworkState>>(
      PlanKind::kUpdatePorts, "UpdatePorts", id, body,
      [&]() -> Result<NetworkState> {
        const auto link = links_.find(KeyOf(plan.network));
        const auto home = networks_.find(id);
        if (link == links_.end() || link->second.dying ||
            home == networks_.end() ||
            home->second != plan.network.netns_inode) {
          return MakeError(Code::kFailedPrecondition, "update ports", id,
                           "its link is gone or another's");
        }
        const Link before = link->second;
        links_.erase(link);
        NetworkPlan wanted = KeepFreePortsLocked(plan.network);
        Result<void> free = CheckHostPortsLocked(OnlyNew(before.plan, wanted));
        for (const auto& [address, other] : links_) {
          if (!other.dying && SharePort(wanted, other.plan)) {
            free = MakeError(Code::kAlreadyExists, "map", id,
                             "a host port is already mapped; ask for another");
          }
        }
        Link after = before;
        if (free) {
          after.plan.port_count = wanted.port_count;
          after.plan.ports = wanted.ports;
        }
        links_[KeyOf(plan.network)] = after;
        MOUNTD_TRY(free);
        return StateLocked(plan.network);
      });
}

// A memfd stands for the namespace, because only the kernel looks at an fd's
// kind.
Result<HandedOutFd> FakeExecutor::OpenNamespace(const NetworkPlan& plan) {
  const std::string id = Text(plan.allocation);
  return Run<Result<HandedOutFd>>(
      PlanKind::kOpenNamespace, "OpenNamespace", id, BodyOf(plan),
      [&]() -> Result<HandedOutFd> {
        const auto found = networks_.find(id);
        if (found == networks_.end() || found->second != plan.netns_inode) {
          return MakeError(Code::kFailedPrecondition, "open namespace", id,
                           "the allocation's namespace no longer exists; "
                           "release the allocation");
        }
        HandedOutMount mount;
        mount.mount_id = HandedOutLocked().mount_id;
        return HandedOutFd{UniqueFd(memfd_create("netns", MFD_CLOEXEC)), mount};
      });
}

Result<UniqueFd> FakeExecutor::WatchNetworks(NetworkWatchKind kind) {
  PlanBody body;
  body.network_watch.kind = kind;
  return Run<Result<UniqueFd>>(
      PlanKind::kWatchNetworks, "WatchNetworks", "", body,
      [&]() -> Result<UniqueFd> {
        if (network_watches_overflow_) {
          return OverflowedSocket();
        }
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
                         ends.data()) != 0) {
          return ErrnoError(errno, "socketpair", "");
        }
        network_watches_[kind].reset(ends[0]);
        return UniqueFd(ends[1]);
      });
}

Result<void> FakeExecutor::WriteNetworkFile(const NetworkFilePlan& plan,
                                            int content) {
  PlanBody body;
  body.network_file = plan;
  const std::string id = Text(plan.allocation);
  return Run<Result<void>>(
      PlanKind::kWriteNetworkFile, "WriteNetworkFile", id, body,
      [&]() -> Result<void> {
        std::array<char, 4096> text{};
        const ssize_t size = ::pread(content, text.data(), text.size(), 0);
        if (size < 0) {
          return ErrnoError(errno, "pread", id);
        }
        network_files_[id + "/" + std::to_string(static_cast<int>(plan.kind))] =
            std::string(text.data(), static_cast<std::size_t>(size));
        return Ok();
      });
}

Result<void> FakeExecutor::RemoveNetworkFiles(const NetworkFilePlan& plan) {
  PlanBody body;
  body.network_file = plan;
  const std::string id = Text(plan.allocation);
  return Run<Result<void>>(PlanKind::kRemoveNetworkFiles, "RemoveNetworkFiles",
                           id, body, [&]() -> Result<void> {
                             std::erase_if(
                                 network_files_, [&](const auto& entry) {
                                   return entry.first.starts_with(id + "/");
                                 });
                             return Ok();
                           });
}

std::string FakeExecutor::NetworkFileText(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  const auto found = network_files_.find(file);
  return found == network_files_.end() ? "" : found->second;
}

void FakeExecutor::TellNetworks(NetworkWatchKind kind,
                                std::span<const std::byte> message) {
  const std::lock_guard lock(mutex_);
  (void)!::send(network_watches_[kind].get(), message.data(), message.size(),
                MSG_NOSIGNAL);
}

void FakeExecutor::BreakNetworkWatch(NetworkWatchKind kind) {
  const std::lock_guard lock(mutex_);
  network_watches_[kind].reset();
}

void FakeExecutor::OverflowNetworkWatches() {
  const std::lock_guard lock(mutex_);
  network_watches_overflow_ = true;
}

void FakeExecutor::TakeNamespace(const std::string& allocation) {
  const std::lock_guard lock(mutex_);
  networks_.erase(allocation);
}

void FakeExecutor::TakeLink(const std::string& address) {
  const std::lock_guard lock(mutex_);
  links_.erase(address);
}

void FakeExecutor::KeepLinks() {
  const std::lock_guard lock(mutex_);
  keep_links_ = true;
}

void FakeExecutor::EndLinks() {
  const std::lock_guard lock(mutex_);
  std::erase_if(links_, [](const auto& entry) { return entry.second.dying; });
  keep_links_ = false;
}

}  // namespace mountd::exec
