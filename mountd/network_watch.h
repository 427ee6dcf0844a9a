// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/exec/executor.h"
#include "mountd/networks.h"
#include "mountd/retry_rounds.h"
#include "mountd/store/boot_store.h"
#include "netns/events.h"

namespace mountd {

// Notices when somebody else takes away or changes a part of what allocations'
// networks are made of, and has it put right: links, routes and neighbours by
// rtnetlink's notifications, the table by those of nf_tables. Namespaces that
// lose their names, by inotify, cannot be.
//
//   Start --> arm --> compare all --> read events --> ...
//              ^                        |     |
//              +-- an fd has broken ----+     |
//        compare what the events are on, or all  <----+
//
// What nothing is told of is seen when something else is, at the latest with
// the next start: settings of a link in /proc/sys, what is done in a namespace,
// and one that is unmounted while its file stays.
//
// A repair that fails is tried again by RetryRounds, because its executor may
// have been killed and nothing else tells of what it left.
//
// What has changed is looked at 50 ms later, with all that came meanwhile; each
// network on its allocation's strand, so that what mountd itself takes away is
// not. Of CNI's networks the namespace is; their plugins are asked (CHECK)
// where anything may have changed, one network after the other, and what they
// miss is told: only they could put it right. Of the loop's thread; plans and
// the store are for workers. Outlives neither the strands nor the loop.
class NetworkWatch {
 public:
  struct Parts {
    Loop& loop;
    Strands& strands;
    exec::Executor& executor;
    store::BootStore& store;
    Networks& networks;
    bool forward_rules = false;  // are to be kept in iptables' chain
    std::string namespaces = paths::kNetnsDir;
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

  NetworkWatch(const Parts& parts, Events events);

  void Start();

  // It is torn down. From any thread.
  void Forget(const NetworkRecord& record);

 private:
  struct Watched {
    std::function<Result<UniqueFd>()> open;  // from a worker
    std::function<Result<void>(int fd)> read;
    std::function<void()> look;  // at all, from a worker
    UniqueFd fd{};
    std::unique_ptr<Loop::Source> source{};
    bool missed = false;  // maybe something, while it was not there
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
  // From a worker.
  void Look(const netns::LinkEvents& events);
  void LookAtNetworks(const netns::LinkEvents& events);
  void LookAt(const NetworkRecord& record);
  void Restore();
  // Both from a worker.
  void TryAgain(RetryRounds::Job job);
  std::vector<RetryRounds::Job> JobsToTryAgain();
  void PrepareHost(const std::string& what);
  // On the allocation's strand, both.
  void RepairNow(const NetworkRecord& seen);
  void RepairOne(const NetworkRecord& record);
  void CheckCni(const std::string& allocation, const std::string& interface);
  // The record, if there is one that was created.
  std::optional<NetworkRecord> Created(const std::string& allocation,
                                       const std::string& interface) const;
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
  std::map<std::string, RetryRounds::Job> failed_;  // mutex_; by Job::what
  RetryRounds retries_;
};

// "link", "host-end", "inside", "elements", several with "+".
std::string RepairText(std::uint32_t repaired);

}  // namespace mountd
