// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "mountd/base/result.h"
#include "mountd/cni_documents.h"
#include "mountd/exec/executor.h"
#include "mountd/store/boot_store.h"

namespace mountd {

// Networks that third parties' plugins make, through the executor's
// mountd-cni-run, which keeps what DEL and CHECK need of an ADD. Methods block,
// for as long as timeouts.cni; calls for one allocation come one at a time, of
// different ones side by side.
class CniNetworks {
 public:
  CniNetworks(exec::Executor& executor, store::BootStore& store)
      : executor_(executor), store_(store) {}

  // The record must be in the store: GC spares what is. Its namespace must be
  // pinned. All or nothing, unless the answer was lost: Detach finds that.
  // The same again answers what is there.
  Result<CniAttachment> Attach(const NetworkRecord& record);
  // What was never attached, or is not any more, is success.
  Result<void> Detach(const NetworkRecord& record);
  // FailedPrecondition, or NotFound, if a plugin says that it is not as it left
  // it. What cannot tell is not asked.
  Result<void> Check(const NetworkRecord& record);
  // Whether the network's plugins could attach one now.
  Result<void> Status(const std::string& network);
  // Undoes what no record in the store is of, and has plugins do the same; if
  // it knows of nothing, what was attached in an earlier boot alone.
  // DeadlineExceeded while another operation is under way.
  Result<void> CollectGarbage();
  // As it was at most a little while ago: it takes some processes to ask.
  Result<CniListing> List();

 private:
  using Clock = std::chrono::steady_clock;

  Result<bool> CanCheck(const NetworkRecord& record);
  Result<std::string> Run(const exec::CniPlan& plan,
                          const std::string& request);

  exec::Executor& executor_;
  store::BootStore& store_;
  // Alone for GC: it undoes what it has not been told of.
  std::shared_mutex attaching_;
  std::mutex listing_mutex_;
  std::optional<CniListing> listing_;
  Clock::time_point listed_{};
};

}  // namespace mountd
