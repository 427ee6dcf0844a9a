// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"

namespace mountd {

// Tries again what failed, for as long as there is any: after 1 s, doubling to
// 60 s, from 1 s again once there is something new, or Hurry was called. What
// is new does not wait for the end of a pause that others have come to. A few
// at a time, each once in a round: a plugin that hangs must not take all
// threads.
//
// Lives on the loop's thread; the work runs on the jobs' strands.
class RetryRounds {
 public:
  struct Job {
    std::string what;  // the same in each list that has it
    std::string strand;
    std::function<void()> run;
  };
  // What there is to be tried, now. Called on a worker.
  using List = std::function<Result<std::vector<Job>>()>;

  RetryRounds(Loop& loop, Strands& strands, List list)
      : loop_(loop), strands_(strands), list_(std::move(list)) {}

  // Looks at what there is; called at start and after what may have added some.
  void Check();
  // The same, once what kept some of it from succeeding may be over.
  void Hurry();

 private:
  using Names = std::set<std::string>;

  // Nothing of a list that cannot be had.
  void ListThen(std::function<void(Result<std::vector<Job>>)> then);
  void Schedule(Names now);
  void BeginRound();
  void Pump();

  Loop& loop_;
  Strands& strands_;
  const List list_;
  Names last_;  // what there was when it was last looked at
  std::optional<std::chrono::milliseconds> scheduled_;  // the pause under way
  std::uint64_t timer_ = 0;                             // that ends it
  std::deque<Job> round_;                               // still to be tried
  std::size_t under_way_ = 0;
  std::chrono::milliseconds pause_{1000};
};

}  // namespace mountd
