// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "mountd/base/result.h"
#include "mountd/executors/executor_pool.h"
#include "tests/support/node/node.h"

namespace mountd::bench {

inline constexpr char kVolume[] = "/run/bench/volume";  // a mount of its own
inline constexpr char kPlain[] = "/run/bench/plain";    // a plain directory
inline constexpr char kPoints[] = "/run/bench/points";  // contenders' targets
// The cgroup that a rule grants to the agent, beneath the root of version 2.
inline constexpr char kTaskCgroup[] = "/mountd-bench";
inline constexpr char kNaive[] = "/run/bench/naive";  // a shared mount for all

// Owns a host in namespaces of this process, with all mounts shared as systemd
// leaves them, and a mountd on that host.
class World {
 public:
  // `programs` is the directory with the daemons; "" is the directory of the
  // installed ones.
  static Result<std::unique_ptr<World>> Make(const std::string& programs = "");

  Result<agent::Client> Connect(agent::ClientOptions options = {}) const {
    return node_->Connect(std::move(options));
  }
  // Sends one empty plan and receives its answer, by executors of this object.
  Result<void> EmptyPlan();
  // Does the same with an executor that is started for the plan.
  static Result<void> FirstPlan();
  std::string Log() const { return node_->Log(); }

  // Makes or removes other mounts until there are `count`. They are private, on
  // a shared mount as most mounts of a host are.
  Result<void> HaveMounts(int count);
  // Makes or removes binds of kNaive/volume below kNaive until there are
  // `count`.
  Result<void> HaveNaiveMounts(int count);
  // Replaces the other mount namespaces that follow the host's by `count` new
  // ones, such as systemd makes for services.
  Result<void> HaveNamespaces(int count);

 private:
  World() = default;
  std::unique_ptr<testing::Node> node_;
  std::unique_ptr<exec::ExecutorPool> executors_;
  int mounts_ = 0;
  int naive_mounts_ = 0;
  std::vector<pid_t> namespaces_;
};

// Gets Version, a property that the loop answers by itself, without a worker or
// a store. Other figures are given as multiples of this call.
Result<void> EmptyCall(agent::Client& client);

}  // namespace mountd::bench
