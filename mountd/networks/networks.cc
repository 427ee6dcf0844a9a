// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/networks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mountd/base/memory_file.h"
#include "mountd/networks/etc_files.h"
#include "mountd/networks/record_to_plan.h"
#include "mountd/plan/protocols.h"
#include "mountd/plan/wire.h"

namespace mountd {
namespace {

void PutKeeper(const GivenNetns& given, exec::NetworkPlan* plan) {
  plan->owner_uid = given.owner_uid;
  plan->has_keeper = given.keeper >= 0 && plan->port_count != 0 ? 1 : 0;
}

int KeeperOf(const exec::NetworkPlan& plan, const GivenNetns& given) {
  return plan.has_keeper != 0 ? given.keeper : -1;
}

// Copies the namespace of the allocation's other networks into the record.
void Inherit(const std::vector<NetworkRecord>& others, NetworkRecord* record) {
  for (const NetworkRecord& other : others) {
    record->netns_inode = other.netns_inode;
    record->netns_given = other.netns_given;
  }
}

bool AnyHasDefaultRoute(const std::vector<NetworkRecord>& records) {
  return std::any_of(records.begin(), records.end(),
                     [](const NetworkRecord& record) {
                       return (record.flags & exec::kDefaultRoute) != 0;
                     });
}

// Lists each port separately, so that equal sets of ports compare equal,
// whatever ranges they came in.
std::set<std::string> EachPort(const std::vector<PortMapping>& ports) {
  std::set<std::string> all;
  for (const PortMapping& port : ports) {
    for (const auto& [bit, number] : exec::kProtocolNumbers) {
      for (unsigned i = 0; (port.protocols & bit) != 0 && i < port.count; ++i) {
        all.insert(std::to_string(number) + " " +
                   netns::ToString(port.host_address) + " " +
                   std::to_string(port.host_port + i) + " " +
                   std::to_string(port.container_port + i));
      }
    }
  }
  return all;
}

// Returns whether a network has the ports that the request asks for, and no
// others. Ports that were to be mapped only if they are free may be missing.
bool HasPortsOf(const std::vector<PortMapping>& found,
                const std::vector<PortMapping>& asked) {
  std::vector<PortMapping> needed = asked;
  for (PortMapping& port : needed) {
    port.protocols = static_cast<std::uint8_t>(port.protocols & ~port.if_free);
  }
  const std::set<std::string> has = EachPort(found);
  const std::set<std::string> all = EachPort(asked);
  const std::set<std::string> least = EachPort(needed);
  return std::includes(has.begin(), has.end(), least.begin(), least.end()) &&
         std::includes(all.begin(), all.end(), has.begin(), has.end());
}

// Returns whether another network of the allocation has files.
bool OthersHaveFiles(const std::vector<NetworkRecord>& all,
                     const std::string& interface) {
  return std::any_of(all.begin(), all.end(), [&](const NetworkRecord& record) {
    return record.interface != interface && HasFiles(record);
  });
}

NetworkRecord RecordFor(const std::string& allocation,
                        const NetworkRequest& request, const GivenNetns& given,
                        const std::vector<NetworkRecord>& others) {
  NetworkRecord record;
  record.allocation = allocation;
  record.interface = request.interface;
  AskedFor(record) = AskedFor(request);
  record.flags = request.isolated ? exec::kIsolated : 0U;
  if (request.mode == NetworkMode::kBridge &&
      request.default_route.value_or(!AnyHasDefaultRoute(others))) {
    record.flags |= exec::kDefaultRoute;
  }
  if (given.valid()) {
    record.netns_inode = given.inode;
    record.netns_given = true;
  }
  Inherit(others, &record);
  return record;
}

}  // namespace

Networks::Networks(const Config& config, exec::NetworkExecutor& executor,
                   store::BootStore& store, Events events)
    : config_(config),
      executor_(executor),
      store_(store),
      events_(std::move(events)),
      cni_(executor, store),
      room_(config.limits) {
  for (const auto& [name, network] : config.networks) {
    pools_.emplace(name, Pool{netns::AddressPool(network.ipv4),
                              netns::AddressPool(network.ipv6)});
  }
}

Result<void> Networks::Recover() {
  MOUNTD_TRY(executor_.PrepareNetworks(false));
  MOUNTD_TRY(RecordFound());
  MOUNTD_ASSIGN(const std::vector<QuarantineRecord> quarantine,
                store_.networks.ListQuarantine());
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> records,
                store_.networks.ListNetworks());
  TakeRecorded(quarantine, records);
  for (const NetworkRecord& record : records) {
    room_.TakeRecorded(events_.owner_of(record.allocation), record);
    // Roll back a network whose making was cut off, because no caller knows of
    // it. A CNI network becomes pending instead, because its plugins may take
    // long.
    if (record.state != NetworkRecordState::kCreated &&
        record.state != NetworkRecordState::kFound &&
        record.mode != NetworkMode::kCni) {
      IgnoreBecauseBestEffort(Teardown(record.allocation, record.interface));
    } else if (record.next_ports) {
      SettleAtStart(record);
    }
  }
  if (!quarantine.empty()) {
    events_.check_again();
  }
  return Ok();
}

namespace {

Result<void> CheckSame(const NetworkRecord& record,
                       const NetworkRequest& request) {
  return IsSame(record, request)
             ? Ok()
             : Result<void>(MakeError(
                   Code::kFailedPrecondition, "set up",
                   "network of " + record.allocation,
                   "has " + request.interface +
                       ", set up with other options; tear it down first"));
}

}  // namespace

Result<void> Networks::ReserveOrReap(const NetworkRequest& request,
                                     NetworkRecord* record) {
  Result<void> reserved = Reserve(request, record);
  if (!reserved && reserved.error().code == Code::kAlreadyExists &&
      !(netns::IsNone(request.ipv4) && netns::IsNone(request.ipv6))) {
    // The same container may have used the address a moment ago. Its link may
    // be gone by now, so look for that first.
    ReapQuarantine();
    reserved = Reserve(request, record);
  }
  return reserved;
}

Result<NetworkStatus> Networks::Setup(const std::string& allocation,
                                      const NetworkRequest& asked,
                                      const GivenNetns& given,
                                      std::uint32_t uid,
                                      const Progress& progress) {
  MOUNTD_ASSIGN(const NetworkRequest request, Normalised(asked));
  MOUNTD_ASSIGN(std::vector<NetworkRecord> others,
                store_.networks.NetworksOf(allocation));
  const auto own = std::find_if(others.begin(), others.end(),
                                [&](const NetworkRecord& record) {
                                  return record.interface == request.interface;
                                });
  // Once a network is taken over, other found networks do not matter.
  const bool is_there =
      own != others.end() && own->state == NetworkRecordState::kCreated;
  if (!is_there && std::any_of(others.begin(), others.end(),
                               [](const NetworkRecord& record) {
                                 return record.state ==
                                        NetworkRecordState::kFound;
                               })) {
    return TakeOver(allocation, request, given, uid, others);
  }
  std::optional<NetworkRecord> found;
  if (own != others.end()) {
    found = *own;
  }
  if (found && found->state != NetworkRecordState::kCreated) {
    // An earlier attempt could not be undone. Undo it now, and then begin
    // again.
    MOUNTD_TRY(Delete(*found, others.size() == 1, progress));
    others.erase(own);
    found.reset();
  }
  MOUNTD_TRY(CheckGoesWith(allocation, request, given, others));
  if (found) {
    MOUNTD_TRY(Settle(&*found));
    MOUNTD_TRY(CheckSame(*found, request));
    return StatusOf(*found);
  }
  NetworkRecord record = RecordFor(allocation, request, given, others);
  MOUNTD_TRY(ReserveOrReap(request, &record));
  // Check after the reservation, so that no other call can take the ports in
  // between.
  if (Result<void> free = CheckPorts(record, given); !free) {
    FreePorts(record);
    return std::move(free).error();
  }
  return Create(std::move(record), {given, uid, others.empty(), progress});
}

// Checks ports that mountd does not map itself. For a bridge the plan that maps
// the ports checks them. On a failure the caller only needs FreePorts, because
// these networks reserve nothing but ports.
Result<void> Networks::CheckPorts(const NetworkRecord& record,
                                  const GivenNetns& given) {
  if (record.mode == NetworkMode::kBridge || record.ports.empty()) {
    return Ok();
  }
  exec::NetworkPlan plan = PortsPlanOf(record);
  PutKeeper(given, &plan);
  return executor_.CheckHostPorts(plan, KeeperOf(plan, given));
}

// Takes over a found network. The executor answers Ok if all parts of the plan
// exist already. If something else exists, the executor makes nothing.
Result<NetworkStatus> Networks::TakeOver(
    const std::string& allocation, const NetworkRequest& request,
    const GivenNetns& given, std::uint32_t uid,
    const std::vector<NetworkRecord>& all) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const NetworkRecord& one) {
        return one.state == NetworkRecordState::kFound &&
               one.mode == request.mode && one.network == request.network &&
               (netns::IsNone(request.ipv4) || one.ipv4 == request.ipv4) &&
               (netns::IsNone(request.ipv6) || one.ipv6 == request.ipv6) &&
               (!given.valid() || one.netns_inode == given.inode) &&
               HasPortsOf(one.ports, request.ports);
      });
  if (found == all.end()) {
    return MakeError(
        Code::kFailedPrecondition, "set up", "network of " + allocation,
        "it lost its record and has other options; release the allocation");
  }
  std::vector<NetworkRecord> others = all;
  std::erase_if(others, [](const NetworkRecord& one) {
    return one.state == NetworkRecordState::kFound;
  });
  NetworkRecord record = RecordFor(allocation, request, given, others);
  record.ipv4 = found->ipv4;
  record.ipv6 = found->ipv6;
  record.netns_inode = found->netns_inode;
  record.taken_over = true;
  MOUNTD_TRY(PassRoom(uid, *found, record));
  if (Result<void> taken = TakeOver(given, uid, *found, &record); !taken) {
    room_.Free(record);
    // Charge the user for the found record again.
    room_.TakeRecorded(uid, *found);
    return std::move(taken).error();
  }
  return StatusOf(record);
}

Result<void> Networks::TakeOver(const GivenNetns& given, std::uint32_t uid,
                                const NetworkRecord& found,
                                NetworkRecord* record) {
  MOUNTD_ASSIGN(
      const exec::NetworkState there,
      executor_.CreateNetwork(
          PlanOf(*record, OriginOf(*record, /*alone=*/true)), given.fd, -1));
  TakeUnmapped(there, record);
  MOUNTD_TRY(WriteFiles(*record, uid));
  record->state = NetworkRecordState::kCreated;
  MOUNTD_TRY(PassPorts(found, *record));
  if (Result<void> recorded = store_.Together([&]() -> Result<void> {
        MOUNTD_TRY(store_.networks.RemoveNetwork(found));
        return store_.networks.AddNetwork(*record);
      });
      !recorded) {
    // The found record stays, so give the ports back to it.
    IgnoreBecauseBestEffort(PassPorts(*record, found));
    return std::move(recorded).error();
  }
  return Ok();
}

Result<void> Networks::PassRoom(std::uint32_t uid, const NetworkRecord& from,
                                const NetworkRecord& to) {
  room_.Free(from);
  Result<void> taken = room_.Take(uid, to);
  if (!taken) {
    room_.TakeRecorded(uid, from);
  }
  return taken;
}

Result<NetworkStatus> Networks::Create(NetworkRecord record,
                                       const Making& making) {
  Result<void> added = room_.Take(making.uid, record);
  if (added) {
    added = store_.networks.AddNetwork(record);
  }
  if (!added) {
    room_.Free(record);
    FreePorts(record);
    if (record.mode == NetworkMode::kBridge) {
      FreeAddresses(record.network, record.ipv4, record.ipv6);
    }
    return std::move(added).error();
  }
  if (Result<void> made = Make(making, &record); !made) {
    // The plan undid itself, unless its executor died. The delete removes the
    // rest in both cases. If the delete fails, the record stays, and the next
    // Setup or the release tries again.
    IgnoreBecauseBestEffort(Delete(record, making.first, making.progress));
    return std::move(made).error();
  }
  record.state = NetworkRecordState::kCreated;
  MOUNTD_TRY(store_.networks.SetNetworkState(record));
  return StatusOf(record);
}

Result<void> Networks::Make(const Making& making, NetworkRecord* record) {
  const GivenNetns& given = making.given;
  // For a CNI network mountd makes only the namespace.
  const bool needs_namespace = making.first && HasNamespace(record->mode);
  making.progress.At(Step::kNetwork);
  if (needs_namespace || record->mode == NetworkMode::kBridge) {
    exec::NetworkPlan plan = PlanOf(*record, OriginOf(*record, making.first));
    PutKeeper(given, &plan);
    plan.may_be_hosts = given.may_be_hosts ? 1 : 0;
    const bool passes = plan.origin == exec::NamespaceOrigin::kGiven;
    MOUNTD_ASSIGN(const exec::NetworkState created,
                  executor_.CreateNetwork(plan, passes ? given.fd : -1,
                                          KeeperOf(plan, given)));
    record->netns_inode = created.netns_inode;
    MOUNTD_TRY(KeepMapped(created, record));
  }
  if (record->mode == NetworkMode::kCni) {
    making.progress.At(Step::kCniAdd);
    MOUNTD_TRY(AttachCni(making.uid, record));
    making.progress.At(Step::kNetwork);
  }
  return WriteFiles(*record, making.uid);
}

// Writes the ports that were mapped. On a failure the record in the store still
// has all of the ports, so the delete that follows finds every map.
Result<void> Networks::KeepMapped(const exec::NetworkState& state,
                                  NetworkRecord* record) {
  const NetworkRecord asked = *record;
  if (!TakeUnmapped(state, record)) {
    return Ok();
  }
  MOUNTD_TRY(PassPorts(asked, *record));
  return store_.networks.SetNetworkPorts(*record);
}

Result<void> Networks::AttachCni(std::uint32_t uid, NetworkRecord* record) {
  MOUNTD_ASSIGN(CniAttachment attachment, cni_.Attach(*record));
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> all,
                store_.networks.NetworksOf(record->allocation));
  CniResult& result = record->cni_result;
  result = std::move(attachment.result);
  result.makes_resolv_conf = !result.dns.empty() && record->files.dns.empty() &&
                             !OthersHaveFiles(all, record->interface);
  record->flags |= attachment.default_route ? exec::kDefaultRoute : 0U;
  // Record the plugins' result before writing files, because only the result
  // says that there are files.
  MOUNTD_TRY(store_.networks.SetNetworkState(*record));
  // Charge again, because the plugins may have filled resolv.conf.
  return room_.Take(uid, *record);
}

Result<void> Networks::WriteFiles(const NetworkRecord& record,
                                  std::uint32_t uid) {
  for (const NetworkFile& file : FilesOf(record)) {
    MOUNTD_ASSIGN(const UniqueFd content,
                  MemoryWith("network-file", file.text));
    exec::NetworkFilePlan plan;
    plan.allocation = exec::ToWire(record.allocation);
    plan.uid = uid;
    plan.kind = file.kind;
    MOUNTD_TRY(executor_.WriteNetworkFile(plan, content.get()));
  }
  return Ok();
}

Result<std::vector<NetworkStatus>> Networks::Of(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> records,
                store_.networks.NetworksOf(allocation));
  std::vector<NetworkStatus> all;
  for (const NetworkRecord& record : records) {
    if (record.state == NetworkRecordState::kCreated) {
      all.push_back(StatusOf(record));
    }
  }
  return all;
}

Result<std::uint32_t> Networks::Repair(const NetworkRecord& record) {
  exec::NetworkPlan plan = PlanOf(record, OriginOf(record, true));
  // While the outcome of an update is unknown, neither set of ports is the
  // right one, so the plan has none.
  plan.port_count = record.next_ports ? 0 : plan.port_count;
  MOUNTD_ASSIGN(const exec::NetworkState state, executor_.RepairNetwork(plan));
  if (record.next_ports) {
    NetworkRecord pending = record;
    MOUNTD_TRY(Settle(&pending));
  }
  return state.repaired;
}

}  // namespace mountd
