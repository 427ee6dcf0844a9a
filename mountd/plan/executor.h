// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/result.h"
#include "mountd/plan/message.h"
#include "mountd/plan/mount_executor.h"
#include "mountd/plan/network_executor.h"
#include "mountd/plan/plugin_executor.h"
#include "mountd/plan/task_executor.h"
#include "mountd/plan/tree_executor.h"

namespace mountd::exec {

// Everything that the unprivileged core can ask of the privileged side, one
// interface for each subject. One method is one plan. Each plan is idempotent,
// all or nothing, and answered by its deadline.
//
// DeadlineExceeded if there is no answer by the deadline; the outcome is then
// unknown, and mountd must ask again. Unavailable if no executor could be
// reached or the executor died during the plan; the outcome is then unknown,
// too.
//
// Implementations: ExecutorPool (over sockets, executors/executor_pool.h) and,
// in tests, FakeExecutor. Methods block. Workers call them, several at once;
// the event loop never does.
//
// MountExecutor comes first, because the calls of the first base cost no
// adjustment of `this`.
class Executor : public MountExecutor,
                 public NetworkExecutor,
                 public PluginExecutor,
                 public TaskExecutor,
                 public TreeExecutor {
 public:
  virtual Result<HelloReply> Hello() = 0;
  // Returns how many abandoned executors hang in the kernel.
  virtual std::uint32_t stuck() const { return 0; }
};

}  // namespace mountd::exec
