// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "mountd/base/result.h"

// Before maintenance: releases every allocation that the caller may release.
namespace mountd::agent {

struct DrainedAllocation {
  AllocationEntry entry;
  // Set for a released allocation; absent if somebody else released it
  // meanwhile.
  std::optional<Receipt> receipt{};
  std::optional<Error> error{};  // why the allocation is left
};

struct HeldMount {
  std::string allocation;
  std::string task;
  std::string name;
  Holders holders;
};

struct DrainReport {
  std::vector<DrainedAllocation> released;
  std::vector<DrainedAllocation> left;
  std::vector<OwedTeardown> owed;
  std::vector<HeldMount> held;  // of the allocations that are left
  bool complete() const { return left.empty() && owed.empty(); }
};

// Returns the allocations of `pending` that Drain may release now. The
// allocation of a plugin's task stays while a volume of that plugin is staged
// for another allocation or still has to be unstaged, because mountd cannot
// unstage a volume without its plugin.
std::vector<AllocationEntry> ReleasableOf(
    const std::vector<AllocationEntry>& pending,
    const std::vector<PluginStatus>& plugins,
    const std::vector<StagedVolume>& volumes);

// Releases in rounds. Each round releases all that ReleasableOf returns, a few
// at once, and retries pending tear-downs. Ends when all of the initial
// allocations are released and no tear-down is pending, or at options.deadline.
// Allocations that somebody prepares meanwhile stay.
class Drain {
 public:
  // Called for each allocation when it is released, one call at a time, on any
  // thread.
  using Tell = std::function<void(const DrainedAllocation&)>;

  // Releases one allocation by the client, on any thread.
  using ReleaseOne =
      std::function<Result<Receipt>(Client&, const std::string& allocation)>;

  Drain(ClientOptions options, Tell tell, ReleaseOne release_one);

  // Returns an error if mountd could not list the allocations or the
  // tear-downs.
  Result<DrainReport> Run();

 private:
  Result<void> Round();
  void ReleaseAll(const std::vector<AllocationEntry>& ready);
  Result<Receipt> Release(const std::string& allocation) const;
  void Record(const AllocationEntry& entry, Result<Receipt> released);
  void RetryOwed();
  Result<DrainReport> Report(std::vector<OwedTeardown> owed);
  Result<Client> Connect(std::chrono::milliseconds deadline) const;
  std::chrono::milliseconds left() const;

  const ClientOptions options_;
  const Tell tell_;
  const ReleaseOne release_one_;
  const std::chrono::steady_clock::time_point end_;
  std::vector<AllocationEntry> pending_;
  std::map<std::string, Error> errors_;  // of allocations in pending_
  std::vector<DrainedAllocation> released_;
  bool began_ = false;  // true after the first round
};

}  // namespace mountd::agent
