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

// Before maintenance: releases all that the caller may administer.
namespace mountd::agent {

struct DrainedAllocation {
  AllocationEntry entry;
  // Of one that was released; none if somebody else did that meanwhile.
  std::optional<Receipt> receipt{};
  std::optional<Error> error{};  // of one that is left: why
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
  std::vector<HeldMount> held;  // mounts of those that are left
  bool complete() const { return left.empty() && owed.empty(); }
};

// Those of `pending` that may go now. The allocation of a plugin's task stays
// while a volume of the plugin is staged for another one, or has to be unstaged
// yet: without the plugin that would be owed for good.
std::vector<AllocationEntry> ReleasableOf(
    const std::vector<AllocationEntry>& pending,
    const std::vector<PluginStatus>& plugins,
    const std::vector<StagedVolume>& volumes);

// In rounds: each releases what may go, a few at once, and tries what is owed;
// until nothing of what was there at the start is left, or options.deadline is
// over. What is prepared meanwhile stays.
class Drain {
 public:
  // Of each allocation as it is released, one at a time, on any thread.
  using Tell = std::function<void(const DrainedAllocation&)>;

  Drain(ClientOptions options, Tell tell);

  // An error if mountd could not be asked what there is, or is left.
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
  const std::chrono::steady_clock::time_point end_;
  std::vector<AllocationEntry> pending_;
  std::map<std::string, Error> errors_;  // of those that are pending
  std::vector<DrainedAllocation> released_;
  bool began_ = false;  // a round was made
};

}  // namespace mountd::agent
