// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/drain.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace mountd::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The number of releases at once. One user may have far more calls under way
// (limits.operations_per_uid, limits.peers_per_uid), but the user's agent works
// at the same time.
constexpr std::size_t kAtOnce = 8;
// The time for the answer to a read-only call, also after the deadline.
constexpr milliseconds kAnswerTime{10'000};
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5'000};
// The limit is low, because one search of holders looks at every process of the
// node.
constexpr std::size_t kMostMounts = 100;

// True if another allocation uses the volume, or if it only waits to be
// unstaged.
bool NeedsItsPlugin(const StagedVolume& volume, const std::string& allocation) {
  return volume.users.empty() ||
         std::any_of(volume.users.begin(), volume.users.end(),
                     [&](const VolumeUser& user) {
                       return user.allocation != allocation;
                     });
}

std::set<std::string> PluginsIn(const std::string& allocation,
                                const std::vector<PluginStatus>& plugins) {
  std::set<std::string> ids;
  for (const PluginStatus& plugin : plugins) {
    const bool runs_there =
        plugin.allocation == allocation ||
        std::any_of(plugin.instances.begin(), plugin.instances.end(),
                    [&](const PluginStatus& instance) {
                      return instance.allocation == allocation;
                    });
    if (runs_there) {
      ids.insert(plugin.id);
    }
  }
  return ids;
}

// Collects the mounts that the allocation still has, with their holders.
Result<void> FindHolders(Client& client, const std::string& allocation,
                         std::vector<HeldMount>& held) {
  MOUNTD_ASSIGN(const AllocationStatus status,
                client.GetAllocation(allocation));
  for (const MountStatus& mount : status.mounts) {
    if (held.size() >= kMostMounts) {
      break;
    }
    MOUNTD_ASSIGN(Holders holders,
                  client.ListHolders(allocation, mount.task, mount.name, true));
    if (!holders.holders.empty()) {
      held.push_back({allocation, mount.task, mount.name, std::move(holders)});
    }
  }
  return Ok();
}

}  // namespace

std::vector<AllocationEntry> ReleasableOf(
    const std::vector<AllocationEntry>& pending,
    const std::vector<PluginStatus>& plugins,
    const std::vector<StagedVolume>& volumes) {
  std::vector<AllocationEntry> ready;
  for (const AllocationEntry& entry : pending) {
    const std::set<std::string> runs = PluginsIn(entry.id, plugins);
    const bool needed = std::any_of(volumes.begin(), volumes.end(),
                                    [&](const StagedVolume& volume) {
                                      return runs.contains(volume.plugin) &&
                                             NeedsItsPlugin(volume, entry.id);
                                    });
    if (!needed) {
      ready.push_back(entry);
    }
  }
  return ready;
}

Drain::Drain(ClientOptions options, Tell tell, ReleaseOne release_one)
    : options_(std::move(options)),
      tell_(std::move(tell)),
      release_one_(std::move(release_one)),
      end_(steady_clock::now() +
           (options_.join ? options_.deadline : milliseconds(0))) {}

milliseconds Drain::left() const {
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(
                                       end_ - steady_clock::now()));
}

Result<Client> Drain::Connect(milliseconds deadline) const {
  ClientOptions options = options_;
  options.deadline = std::max(deadline, milliseconds(1));
  return Client::Connect(std::move(options));
}

Result<DrainReport> Drain::Run() {
  MOUNTD_ASSIGN(Client client, Connect(kAnswerTime));
  MOUNTD_ASSIGN(pending_, client.ListAllocations());
  milliseconds pause = kFirstPause;
  for (;;) {
    const std::size_t before = pending_.size();
    const Result<void> round = Round();
    began_ = true;
    auto owed = client.ListOwed();
    if (round && owed && pending_.empty() && owed->empty()) {
      return Report({});
    }
    if (left() == milliseconds(0)) {
      MOUNTD_TRY(round);
      MOUNTD_ASSIGN(auto still, std::move(owed));
      return Report(std::move(still));
    }
    // This round released an allocation, so the next round may release the
    // allocation of a plugin whose volume it had.
    if (pending_.size() < before) {
      pause = kFirstPause;
      continue;
    }
    RetryOwed();
    std::this_thread::sleep_for(std::min(pause, left()));
    pause = std::min(2 * pause, kLongestPause);
  }
}

// Reads the state of plugins and volumes again in each round, because mountd
// may restart between two rounds.
Result<void> Drain::Round() {
  if (pending_.empty()) {
    return Ok();
  }
  MOUNTD_ASSIGN(Client client, Connect(kAnswerTime));
  MOUNTD_ASSIGN(const auto plugins, client.ListPlugins());
  MOUNTD_ASSIGN(const auto volumes, client.ListVolumes());
  const auto ready = ReleasableOf(pending_, plugins, volumes);
  for (const AllocationEntry& entry : pending_) {
    const bool is_ready = std::any_of(
        ready.begin(), ready.end(),
        [&](const AllocationEntry& other) { return other.id == entry.id; });
    if (!is_ready) {
      errors_.insert_or_assign(
          entry.id, MakeError(Code::kFailedPrecondition, "release", entry.id,
                              "volumes of the plugin that runs in it are still "
                              "staged for others"));
    }
  }
  ReleaseAll(ready);
  return Ok();
}

void Drain::ReleaseAll(const std::vector<AllocationEntry>& ready) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(kAtOnce, ready.size()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < ready.size(); at = next++) {
        if (began_ && left() == milliseconds(0)) {
          return;  // the first round runs even if no time is left
        }
        // Does not hold the mutex, because a release may take long.
        Result<Receipt> released = Release(ready[at].id);
        const std::lock_guard lock(mutex);
        Record(ready[at], std::move(released));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Makes a connection of its own, because each release blocks until its answer.
Result<Receipt> Drain::Release(const std::string& allocation) const {
  MOUNTD_ASSIGN(Client client, Connect(left()));
  return release_one_(client, allocation);
}

void Drain::Record(const AllocationEntry& entry, Result<Receipt> released) {
  const bool gone = !released && released.error().code == Code::kNotFound;
  if (!released && !gone) {
    errors_.insert_or_assign(entry.id, released.error());
    return;
  }
  errors_.erase(entry.id);
  std::erase_if(pending_, [&](const AllocationEntry& other) {
    return other.id == entry.id;
  });
  released_.push_back({entry});
  if (released) {
    released_.back().receipt = *std::move(released);
  }
  tell_(released_.back());
}

void Drain::RetryOwed() {
  if (Result<Client> client = Connect(left())) {
    IgnoreBecauseBestEffort(client->RetryOwed());
  }
}

Result<DrainReport> Drain::Report(std::vector<OwedTeardown> owed) {
  DrainReport report;
  report.released = std::move(released_);
  report.owed = std::move(owed);
  for (const AllocationEntry& entry : pending_) {
    const auto known = errors_.find(entry.id);
    report.left.push_back(
        {entry, std::nullopt,
         known != errors_.end()
             ? known->second
             : MakeError(Code::kDeadlineExceeded, "release", entry.id,
                         "drain reached its --timeout before it could release "
                         "this; run it again")});
  }
  if (report.left.empty()) {
    return report;
  }
  MOUNTD_ASSIGN(Client client, Connect(kAnswerTime));
  for (const DrainedAllocation& one : report.left) {
    // The report lists the allocation as left even without its holders.
    IgnoreBecauseBestEffort(FindHolders(client, one.entry.id, report.held));
  }
  return report;
}

}  // namespace mountd::agent
