// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

// crun alone, with the bundle and the namespaces of a running task of the
// driver's. Runs as the driver's user. This is the floor under a start and an
// exec: someone has to run crun.
class RuntimeFloor {
 public:
  // Copies the bundle of the driver's one running task.
  static Result<RuntimeFloor> OfRunningTask();

  // Copies what the driver has prepared in the root of its task.
  Result<void> Prepare(const std::string& container) const;
  // `crun create` and `crun start`, with the overlay of Prepare.
  Result<void> Start(const std::string& container) const;
  Result<void> Delete(const std::string& container) const;
  // `crun exec` of the command in the driver's task. The command's output goes
  // to `out`. Returns when crun has ended.
  Result<void> Exec(const std::vector<std::string>& command, int out) const;

 private:
  enum class Root { kOfHost, kOfContainer };
  Result<void> Run(Root root, const std::vector<std::string>& words,
                   const std::string& container, int out) const;

  std::string key_;
  std::string lower_;  // the overlay's lower directories
  UniqueFd user_;      // namespaces
  UniqueFd network_;
};

}  // namespace mountd::bench
