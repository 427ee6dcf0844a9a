// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/progress.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/networks/cni_networks.h"
#include "mountd/networks/network_request.h"
#include "mountd/networks/network_room.h"
#include "mountd/plan/network_executor.h"
#include "mountd/store/boot_store.h"
#include "netns/address/address_pool.h"
#include "netns/address/port_table.h"
#include "netns/events/events.h"

namespace mountd {

// Owns the allocations' networks: addresses, host ports, and the plans that
// make networks. The addresses of a CNI network are its plugins'.
//
//   (none) --AddNetwork--> creating --CreateNetwork--> created
//     ^                        |                          |
//     |                        v                          v
//     +--quarantine over-- quarantined <--DeleteNetwork-- deleting
//
// All networks of an allocation are in one namespace, one network for each
// interface. The first network makes or brings the namespace, and the last one
// ends it. Writes an intent before each plan. Methods block. Calls for one
// allocation come one at a time, on its strand. Calls for different allocations
// run at the same time.
class Networks {
 public:
  struct Usage {
    std::uint32_t capacity = 0;  // addresses
    std::uint32_t free = 0;
  };

  struct Events {
    // Asks for a call of ReapQuarantine a little later.
    std::function<void()> check_again;
    // Reports that a network has few free addresses. Reports it again only
    // after more addresses were free in between.
    std::function<void(const std::string& network, const Usage& usage)> scarce =
        [](const std::string&, const Usage&) {};
    // A network was removed, with its record.
    std::function<void(const NetworkRecord& record)> gone =
        [](const NetworkRecord&) {};
    // How long a link may take to end with its namespace before mountd deletes
    // it. The kernel ends namespaces in batches that take some 40 ms each.
    // Deleting a link of such a batch only waits for the batch.
    std::chrono::milliseconds link_grace{1000};
    // Returns the owner of an allocation, 0 if it has none. mountd charges the
    // owner for networks that exist at the start.
    std::function<std::uint32_t(const std::string& allocation)> owner_of =
        [](const std::string&) { return 0U; };
    // Returns whether the rules of the network's user now grant its ports.
    // mountd completes an update of ports with unknown outcome only then.
    std::function<bool(const NetworkRecord& record)> grants_ports =
        [](const NetworkRecord&) { return true; };
  };

  Networks(const Config& config, exec::NetworkExecutor& executor,
           store::BootStore& store, Events events);

  // Takes the addresses and ports of the records, and rolls back networks whose
  // making or removal was cut off. A network without a record (after a store
  // was lost) keeps its addresses and ports. The network stays until a Setup
  // for exactly these takes the network over, or its allocation is released.
  // Called once, before any other method.
  Result<void> Recover();

  // Sets up a network. `uid` may reach the files that are made with the
  // network, and is charged for the files and the namespace. Idempotent: the
  // same allocation and interface get the same namespace and addresses.
  // FailedPrecondition if the network exists with another request, or if the
  // allocation has another namespace than the passed one. ResourceExhausted as
  // NetworkRoom.
  Result<NetworkStatus> Setup(const std::string& allocation,
                              const NetworkRequest& request,
                              const GivenNetns& given = {},
                              std::uint32_t uid = 0,
                              const Progress& progress = Progress());
  // Removes the network. Success if there is none. FailedPrecondition for a
  // record that is only the namespace, while other networks are in the
  // namespace.
  Result<void> Teardown(const std::string& allocation,
                        const std::string& interface,
                        const Progress& progress = Progress());
  // Replaces the ports of a network in mode bridge, all or nothing; `interface`
  // as for Get. Idempotent. FailedPrecondition in other modes. AlreadyExists if
  // a port is taken.
  Result<NetworkStatus> UpdatePorts(const std::string& allocation,
                                    const std::string& interface,
                                    const std::vector<PortMapping>& ports,
                                    const Progress& progress = Progress());
  // Returns the networks in the order of their interfaces.
  Result<std::vector<NetworkStatus>> Of(const std::string& allocation);
  // Returns the network of the interface; with "" the only one. NotFound if
  // there is none; InvalidArgument for "" if there are several.
  Result<NetworkStatus> Get(const std::string& allocation,
                            const std::string& interface);
  // Opens the namespace of the network. FailedPrecondition if the network is
  // the host's, or if its namespace is gone.
  Result<exec::HandedOutFd> OpenNamespace(const std::string& allocation,
                                          const NetworkStatus& network);
  // Returns the interfaces in an order in which each can be removed.
  Result<std::vector<std::string>> TeardownOrder(const std::string& allocation);

  // The networks that third parties' plugins make.
  CniNetworks& cni() { return cni_; }

  // Compares the network with the kernel, repairs it, and returns bits of
  // NetworkRepair. FailedPrecondition if its namespace is gone.
  Result<std::uint32_t> Repair(const NetworkRecord& record);

  // Removes from the events addresses that no network has, because the kernel
  // reports all of the host's neighbours and routes.
  void DropOthers(netns::LinkEvents* events) const;
  // Returns whether a host address of one of the networks may be gone.
  bool HasHostAddress(const netns::LinkEvents& events) const;

  // Frees addresses in quarantine whose links are gone. If some remain, asks
  // for another call.
  void ReapQuarantine();

  std::map<std::string, Usage> GetUsage() const;
  // Returns how many ports from `first` to `last` no allocation has.
  std::uint32_t CountFreePorts(std::uint16_t first, std::uint16_t last) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Pool {
    netns::AddressPool<netns::Ipv4> ipv4;
    netns::AddressPool<netns::Ipv6> ipv6;
    bool scarce = false;
  };

  // Records networks without a record (networks_recovery.cc).
  Result<void> RecordFound();
  Result<void> RecordFound(const NetworkRecord& record);
  Result<NetworkStatus> TakeOver(const std::string& allocation,
                                 const NetworkRequest& request,
                                 const GivenNetns& given, std::uint32_t uid,
                                 const std::vector<NetworkRecord>& all);

  Result<void> TakeOver(const GivenNetns& given, std::uint32_t uid,
                        const NetworkRecord& found, NetworkRecord* record);

  // Removes from the record's ports those that are to be mapped only if they
  // are free, if another allocation has them. The caller holds mutex_.
  void DropTakenPorts(NetworkRecord* record) const;
  // Writes which of these ports the executor mapped, in memory and in the
  // store.
  Result<void> KeepMapped(const exec::NetworkState& state,
                          NetworkRecord* record);
  // Reserves ports and addresses in memory, and writes the addresses into the
  // record.
  Result<void> Reserve(const NetworkRequest& request, NetworkRecord* record);
  // Does the same. If an address is in quarantine, first checks whether its
  // link has ended.
  Result<void> ReserveOrReap(const NetworkRequest& request,
                             NetworkRecord* record);
  // AlreadyExists if a socket of the host listens on one of the ports.
  Result<void> CheckPorts(const NetworkRecord& record, const GivenNetns& given);
  Result<void> TakeAddresses(const NetworkRequest& request,
                             NetworkRecord* record);
  // Ends an update of ports whose outcome is unknown, and writes the ports that
  // the network then has into the record and the store (networks_ports.cc).
  Result<void> Settle(NetworkRecord* record);
  void SettleAtStart(const NetworkRecord& record);
  Result<void> KeepUpdated(const exec::NetworkState& state,
                           NetworkRecord* record);
  Result<NetworkRecord> FindBridge(const std::string& allocation,
                                   const std::string& interface);
  // Reserves the ports of `next` instead of those of `old`, in memory.
  Result<void> ReserveNext(const NetworkRecord& old, NetworkRecord* next);
  // Moves the ports from one record to the other. On a failure `from` keeps
  // them.
  Result<void> PassPorts(const NetworkRecord& from, const NetworkRecord& to);
  void FreePorts(const NetworkRecord& record);
  // Moves the charge from one record to the other.
  Result<void> PassRoom(std::uint32_t uid, const NetworkRecord& from,
                        const NetworkRecord& to);
  void FreeAddresses(const std::string& network, const netns::Ipv4& ipv4,
                     const netns::Ipv6& ipv6);
  // Takes the addresses and ports that are in the store.
  void TakeRecorded(const std::vector<QuarantineRecord>& quarantine,
                    const std::vector<NetworkRecord>& records);
  void TakeRecorded(const std::string& network, const netns::Ipv4& ipv4,
                    const netns::Ipv6& ipv6);
  // Reports scarcity of addresses, if it is new. The caller holds mutex_.
  void TellIfScarce(const std::string& network, Pool* pool);
  Usage UsageOf(const Pool& pool) const;

  // Returns whether the quarantined link has had the time of link_grace to end.
  bool IsOverdue(const std::string& link);

  struct Making {
    const GivenNetns& given;
    std::uint32_t uid;
    bool first;  // whether this is the allocation's first network
    const Progress& progress;
  };
  Result<NetworkStatus> Create(NetworkRecord record, const Making& making);
  Result<void> Make(const Making& making, NetworkRecord* record);
  Result<void> AttachCni(std::uint32_t uid, NetworkRecord* record);
  Result<void> WriteFiles(const NetworkRecord& record, std::uint32_t uid);
  // Removes the parts of the network that the executor made.
  Result<void> DeleteParts(const NetworkRecord& record, bool alone);
  // `alone`: the allocation has no other network.
  Result<void> Delete(NetworkRecord record, bool alone,
                      const Progress& progress);

  const Config& config_;
  exec::NetworkExecutor& executor_;
  store::BootStore& store_;
  const Events events_;
  CniNetworks cni_;
  NetworkRoom room_;
  mutable std::mutex mutex_;
  std::map<std::string, Pool> pools_;
  netns::PortTable ports_;
  // The quarantined links, and when each was first seen; mutex_.
  std::map<std::string, Clock::time_point> dying_;
};

}  // namespace mountd
