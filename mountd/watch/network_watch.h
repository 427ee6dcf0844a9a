// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/paths.h"
#include "mountd/base/retry_rounds.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/networks/networks.h"
#include "mountd/plan/network_executor.h"
#include "mountd/store/boot_store.h"
#include "netns/events/events.h"

namespace mountd {

// Notices when somebody else removes or changes a part of an allocation's
// network, and repairs the part. rtnetlink notifies of links, routes and
// neighbours. nf_tables notifies of mountd's table. inotify notifies of a
// namespace that loses its name; mountd cannot repair that, and reports the
// network as lost.
//
//   Start --> arm --> compare all --> read events --> ...
//              ^                        |     |
//              +-- an fd has broken ----+     |
//        compare what the events are on, or all  <----+
//
// The kernel does not notify of some changes: a setting of a link in /proc/sys,
// a change inside a namespace, and a namespace that is unmounted while its file
// stays. The watch finds such a change when another event makes it look at the
// network, or at the next start.
//
// If a repair fails, RetryRounds repeats it, because the kernel does not notify
// again of a state that a killed executor left.
//
// The watch reads events 50 ms after the first one, together with all that came
// meanwhile. The watch looks at each network on the strand of its allocation.
// If mountd itself removes the network, its record is gone from the store by
// then.
//
// The watch itself compares only the namespace of a CNI network. The watch asks
// the network's plugins (CHECK) where anything may have changed, one network
// after the other. The watch reports a failed check as lost, because only the
// plugins could repair the network.
//
// Runs on the loop's thread; plans and queries of the store run on workers.
// Never outlives the strands or the loop.
class NetworkWatch {
 public:
  struct Parts {
    Loop& loop;
    Strands& strands;
    exec::NetworkExecutor& executor;
    store::BootStore& store;
    Networks& networks;
    // Keep mountd's rules in iptables' chain FORWARD.
    bool forward_rules = false;
    std::string namespaces = paths::kNetnsDir;
  };
  // Workers call all of these functions.
  struct Events {
    std::function<void(const NetworkRecord& record, const std::string& what)>
        repaired;
    // Called once for a network, and again only after Forget.
    std::function<void(const NetworkRecord& record, const std::string& reason)>
        lost;
    std::function<void()> ruleset_restored;
  };

  NetworkWatch(const Parts& parts, Events events);

  void Start();

  // Lets `lost` report the network again, because it was torn down. Callable
  // from any thread.
  void Forget(const NetworkRecord& record);

 private:
  struct Watched {
    std::function<Result<UniqueFd>()> open;  // runs on a worker
    std::function<Result<void>(int fd)> read;
    std::function<void()> look;  // compares everything; runs on a worker
    UniqueFd fd{};
    std::unique_ptr<Loop::Source> source{};
    bool missed = false;  // events may be lost, because the fd was not open
  };

  void Arm(Watched* watched);
  void ArmLater(Watched* watched);
  void Armed(Watched* watched, UniqueFd fd);
  void Watch(Watched* watched);
  void OnReadable(Watched* watched);
  Result<void> ReadLinks(int fd);
  Result<void> ReadRuleset(int fd);
  Result<void> ReadNamespaces(int fd);
  void LookLater(const netns::LinkEvents& events);
  // These run on a worker, up to Restore.
  void Look(const netns::LinkEvents& events);
  void LookAtNetworks(const netns::LinkEvents& events);
  void LookAt(const NetworkRecord& record);
  void Restore();
  // This runs on a worker, too.
  void PrepareHost(const std::string& what);
  // These three run on the allocation's strand. The last two return false if
  // the repair must be tried again.
  void RepairNow(const NetworkRecord& seen);
  bool Repaired(const NetworkRecord& seen);
  bool RepairOne(const NetworkRecord& record);
  void CheckCni(const std::string& allocation, const std::string& interface);
  // Returns the record, if there is one in state kCreated.
  Result<std::optional<NetworkRecord>> Created(
      const std::string& allocation, const std::string& interface) const;
  void Lost(const NetworkRecord& record, const std::string& reason);

  const Parts parts_;
  const Events events_;
  Watched namespaces_;
  Watched links_;
  Watched ruleset_;
  netns::RulesetEventReader ruleset_reader_;
  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>>
      lost_;  // mutex_; allocations and interfaces
  FailedJobs failed_;
};

// The keys by which NetworkTable::NetworksWith finds the records of the
// networks that events may concern.
struct NetworkKeys {
  std::vector<std::string> allocations_and_addresses{};
  // True if a link of a network with only IPv6 is among the links. The name of
  // such a link does not contain its address.
  bool ipv6_alone = false;

  friend bool operator==(const NetworkKeys&, const NetworkKeys&) = default;
};
// Ignores a link whose name mountd never gives.
NetworkKeys KeysOf(const netns::LinkEvents& events);

// Returns the names of the bits of NetworkRepair: "link", "host-end", "inside",
// "elements", joined by "+".
std::string RepairText(std::uint32_t repaired);

}  // namespace mountd
