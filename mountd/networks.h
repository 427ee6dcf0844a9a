// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/cni_networks.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"
#include "mountd/network_room.h"
#include "mountd/network_spec.h"
#include "mountd/progress.h"
#include "mountd/store/boot_store.h"
#include "netns/address_pool.h"
#include "netns/events.h"
#include "netns/port_table.h"

namespace mountd {

// Allocations' networks: addresses, host ports, and the plans that make them.
// (Of a network of CNI's, its plugins have the addresses.)
//
//   (none) --AddNetwork--> creating --CreateNetwork--> created
//     ^                        |                          |
//     |                        v                          v
//     +--quarantine over-- quarantined <--DeleteNetwork-- deleting
//
// All networks of an allocation, one for each interface, are in one namespace:
// the first one makes or brings it, and it goes with the last. An intent is
// written before each plan. Methods block; calls for one allocation come one at
// a time (its strand), of different allocations side by side.
class Networks {
 public:
  struct Usage {
    std::uint32_t capacity = 0;  // addresses
    std::uint32_t free = 0;
  };

  struct Events {
    // Asks for ReapQuarantine to be called a little later.
    std::function<void()> check_again;
    // Few addresses are left in a network; told once, until more are free
    // again.
    std::function<void(const std::string& network, const Usage& usage)> scarce =
        [](const std::string&, const Usage&) {};
    // A network is torn down, and its record gone.
    std::function<void(const NetworkRecord& record)> gone =
        [](const NetworkRecord&) {};
    // How long a link may take to go with its namespace before it is deleted:
    // the kernel ends namespaces one batch after another, some 40 ms each, and
    // to delete a link that is among them only waits for them.
    std::chrono::milliseconds link_grace{1000};
    // The owner of an allocation, 0 if it has none: who is charged for what was
    // there at the start.
    std::function<std::uint32_t(const std::string& allocation)> owner_of =
        [](const std::string&) { return 0U; };
  };

  Networks(const Config& config, exec::Executor& executor,
           store::BootStore& store, Events events);

  // Takes the records' addresses and ports; rolls back what was under way.
  // Called once, before anything else. Networks that are there without a record
  // (a store that was lost) keep their addresses and ports, until a Setup that
  // asks for just them takes them over, or their allocation is released.
  Result<void> Recover();

  // `uid` may reach the files that are made with it, and is charged for them
  // and the namespace. Idempotent: the same allocation and interface, the same
  // namespace and addresses. FailedPrecondition for another spec than the one
  // it has, and for a namespace where it has one. ResourceExhausted as
  // NetworkRoom.
  Result<NetworkStatus> Setup(const std::string& allocation,
                              const NetworkSpec& spec,
                              const GivenNetns& given = {},
                              std::uint32_t uid = 0,
                              const Progress& progress = Progress());
  // None is success. FailedPrecondition for the namespace alone while others
  // are in it.
  Result<void> Teardown(const std::string& allocation,
                        const std::string& interface,
                        const Progress& progress = Progress());
  // In the order of their interfaces.
  Result<std::vector<NetworkStatus>> Of(const std::string& allocation);
  // Interfaces, so that a tear-down of each in turn succeeds.
  Result<std::vector<std::string>> TeardownOrder(const std::string& allocation);

  // What third parties' plugins make.
  CniNetworks& cni() { return cni_; }

  // Compares one with the kernel, and puts it right: bits of NetworkRepair.
  // FailedPrecondition if its namespace is gone.
  Result<std::uint32_t> Repair(const NetworkRecord& record);

  // Leaves out addresses that are of no network: all other neighbours and
  // routes of the host's are told, too.
  void DropOthers(netns::LinkEvents* events) const;
  // Whether one of the host's own addresses in a network may be gone.
  bool HasHostAddress(const netns::LinkEvents& events) const;

  // Frees addresses whose links are gone; asks again while some are left.
  void ReapQuarantine();

  std::map<std::string, Usage> GetUsage() const;
  // Of the ports from `first` to `last`, how many no allocation has.
  std::uint32_t CountFreePorts(std::uint16_t first, std::uint16_t last) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Pool {
    netns::AddressPool<netns::Ipv4> ipv4;
    netns::AddressPool<netns::Ipv6> ipv6;
    bool scarce = false;
  };

  // What is there without a record (networks_recovery.cc).
  Result<void> RecordFound();
  Result<void> RecordFound(const NetworkRecord& record);
  Result<NetworkStatus> TakeOver(const std::string& allocation,
                                 const NetworkSpec& spec,
                                 const GivenNetns& given, std::uint32_t uid,
                                 const std::vector<NetworkRecord>& all);

  Result<void> TakeOver(const GivenNetns& given, std::uint32_t uid,
                        const NetworkRecord& found, NetworkRecord* record);

  // Ports and addresses, in memory; the record gets the addresses.
  Result<void> Reserve(const NetworkSpec& spec, NetworkRecord* record);
  // AlreadyExists if a socket of the host listens on one of the ports.
  Result<void> CheckPorts(const NetworkRecord& record, const GivenNetns& given);
  Result<void> TakeAddresses(const NetworkSpec& spec, NetworkRecord* record);
  // The ports of the one are the other's then; on failure they stay its own.
  Result<void> PassPorts(const NetworkRecord& from, const NetworkRecord& to);
  void FreePorts(const NetworkRecord& record);
  // Makes the charge for `from` one for `to`.
  Result<void> PassRoom(std::uint32_t uid, const NetworkRecord& from,
                        const NetworkRecord& to);
  void FreeAddresses(const std::string& network, const netns::Ipv4& ipv4,
                     const netns::Ipv6& ipv6);
  // What is in the store.
  void TakeRecorded(const std::vector<QuarantineRecord>& quarantine,
                    const std::vector<NetworkRecord>& records);
  void TakeRecorded(const std::string& network, const netns::Ipv4& ipv4,
                    const netns::Ipv6& ipv6);
  // With mutex_ held.
  void TellIfScarce(const std::string& network, Pool* pool);
  Usage UsageOf(const Pool& pool) const;

  // Whether the quarantined link has had the time that it takes to go alone.
  bool IsOverdue(const netns::Ipv4& ipv4);

  struct Making {
    const GivenNetns& given;
    std::uint32_t uid;
    bool first;  // of its allocation
    const Progress& progress;
  };
  Result<NetworkStatus> Create(NetworkRecord record, const Making& making);
  Result<void> Make(const Making& making, NetworkRecord* record);
  Result<void> AttachCni(std::uint32_t uid, NetworkRecord* record);
  Result<void> WriteFiles(const NetworkRecord& record, std::uint32_t uid);
  // `alone`: its allocation has no other network.
  Result<void> Delete(NetworkRecord record, bool alone,
                      const Progress& progress);

  const Config& config_;
  exec::Executor& executor_;
  store::BootStore& store_;
  const Events events_;
  CniNetworks cni_;
  NetworkRoom room_;
  mutable std::mutex mutex_;
  std::map<std::string, Pool> pools_;
  netns::PortTable ports_;
  std::map<netns::Ipv4, Clock::time_point> dying_;  // since when; mutex_
};

}  // namespace mountd
