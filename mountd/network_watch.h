// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/exec/executor.h"
#include "mountd/networks.h"
#include "mountd/store/boot_store.h"
#include "netns/events.h"

namespace mountd {

// Notices when somebody else takes away or changes a part of what allocations'
// networks are made of, and has it put right: links, routes and neighbours by
// rtnetlink's notifications, the table by those of nf_tables.
//
//   Start --> arm (plans) --> compare all --> read events --> ...
//                 ^                             |     |
//                 +-- a socket has broken ------+     |
//        compare what the events are on, or all  <----+
//
// What has changed is looked at 50 ms later, with all that came meanwhile; each
// network on its allocation's strand, so that what mountd itself takes away is
// not. Of the loop's thread; plans and the store are for workers. Outlives
// neither the strands nor the loop.
class NetworkWatch {
 public:
  struct Parts {
    Loop& loop;
    Strands& strands;
    exec::Executor& executor;
    store::BootStore& store;
    Networks& networks;
    bool forward_rules = false;  // are to be kept in iptables' chain
  };
  // All from workers.
  struct Events {
    std::function<void(const NetworkRecord& record, const std::string& what)>
        repaired;
    // Once, until it is set up anew.
    std::function<void(const NetworkRecord& record, const std::string& reason)>
        lost;
    std::function<void()> ruleset_restored;
  };

  NetworkWatch(const Parts& parts, Events events)
      : parts_(parts), events_(std::move(events)) {}

  void Start();

  // It is torn down. From any thread.
  void Forget(const NetworkRecord& record);

 private:
  // One of the two sockets.
  struct Watched {
    exec::NetworkWatchKind kind;
    UniqueFd fd;
    std::unique_ptr<Loop::Source> source;
    bool missed = false;  // maybe something, while it was not there
  };

  void Arm(Watched* watched);
  void ArmLater(Watched* watched);
  void Armed(Watched* watched, UniqueFd fd);
  void Watch(Watched* watched);
  void OnReadable(Watched* watched);
  Result<void> Read(const Watched& watched);
  Result<void> ReadLinks(int fd);
  Result<void> ReadRuleset(int fd);
  // From a worker.
  void Look(const netns::LinkEvents& events);
  void LookAtNetworks(const netns::LinkEvents& events);
  void LookAt(const NetworkRecord& record);
  void Restore();
  void RepairOne(const NetworkRecord& record);
  void Lost(const NetworkRecord& record, const std::string& reason);

  const Parts parts_;
  const Events events_;
  Watched links_{exec::NetworkWatchKind::kLinks, {}, {}, false};
  Watched ruleset_{exec::NetworkWatchKind::kRuleset, {}, {}, false};
  netns::RulesetEventReader ruleset_reader_;
  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>>
      lost_;  // mutex_; allocations and interfaces
};

// "link", "host-end", "inside", "elements", several with "+".
std::string RepairText(std::uint32_t repaired);

}  // namespace mountd
