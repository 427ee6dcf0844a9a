// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "mountd/base/result.h"
#include "mountd/exec/executor_pool.h"
#include "tests/support/node.h"

namespace mountd::bench {

inline constexpr char kVolume[] = "/run/bench/volume";  // a mount of its own
inline constexpr char kPlain[] = "/run/bench/plain";    // a plain directory
inline constexpr char kPoints[] = "/run/bench/points";  // contenders' targets
inline constexpr char kNaive[] = "/run/bench/naive";  // a shared mount for all

// A host in namespaces of this process's own, with everything shared as systemd
// leaves it, and mountd on it.
class World {
 public:
  // `programs`: the directory with the daemons; "" is that of what is
  // installed.
  static Result<std::unique_ptr<World>> Make(const std::string& programs = "");

  Result<agent::Client> Connect(agent::ClientOptions options = {}) const {
    return node_->Connect(std::move(options));
  }
  // One empty plan, there and back. It has executors of its own.
  Result<void> EmptyPlan();
  // The same by an executor that is started for it.
  static Result<void> FirstPlan();
  std::string Log() const { return node_->Log(); }

  // As many other mounts, in the peer group that / and most of a host are in.
  Result<void> HaveMounts(int count);
  // As many binds of kNaive/volume below kNaive itself.
  Result<void> HaveNaiveMounts(int count);
  // As many other mount namespaces that follow the host's, as systemd makes
  // them for services.
  Result<void> HaveNamespaces(int count);

 private:
  World() = default;
  std::unique_ptr<testing::Node> node_;
  std::unique_ptr<exec::ExecutorPool> executors_;
  int mounts_ = 0;
  int naive_mounts_ = 0;
  std::vector<pid_t> namespaces_;
};

// The unit of what is told in empty calls: Version, a property, which the loop
// answers by itself. Neither a worker nor a store has a part in it.
Result<void> EmptyCall(agent::Client& client);

}  // namespace mountd::bench
