// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "mountd/base/result.h"
#include "mountd/networks/cni_documents.h"
#include "mountd/plan/network_executor.h"
#include "mountd/store/boot_store.h"

namespace mountd {

// Attaches allocations to networks that third parties' plugins make, by the
// executor's mountd-cni-run. The runner keeps the data of ADD that DEL and
// CHECK need. Methods block for up to timeouts.cni. Calls for one allocation
// come one after the other. Calls for different allocations run at the same
// time.
class CniNetworks {
 public:
  CniNetworks(exec::NetworkExecutor& executor, store::BootStore& store)
      : executor_(executor), store_(store) {}

  // Attaches the network, all or nothing. If the answer is lost, the network
  // may be attached, and Detach removes the attachment. A repeated call returns
  // the existing attachment. The record must be in the store, because GC
  // removes attachments without a record. The namespace must be pinned.
  Result<CniAttachment> Attach(const NetworkRecord& record);
  // Detaches the network. Success if it is not attached.
  Result<void> Detach(const NetworkRecord& record);
  // Asks the plugins whether the attachment is unchanged. FailedPrecondition or
  // NotFound if a plugin says that it changed. Ok without a check if the
  // network maps ports and the CHECK of the installed portmap does not work.
  Result<void> Check(const NetworkRecord& record);
  // Ok if the network's plugins say that they could attach an allocation now.
  Result<void> Status(const std::string& network);
  // Undoes attachments without a record in the store, and makes plugins do the
  // same. If the store is empty or one of its networks was found without a
  // record, undoes only attachments of an earlier boot. DeadlineExceeded while
  // another operation runs.
  Result<void> CollectGarbage();
  // Returns the list. The list may be as old as kListingIsFresh, because a new
  // list starts several processes.
  Result<CniListing> List();

 private:
  using Clock = std::chrono::steady_clock;

  Result<bool> CanCheck(const NetworkRecord& record);
  Result<std::string> Run(const exec::CniPlan& plan,
                          const std::string& request);

  exec::NetworkExecutor& executor_;
  store::BootStore& store_;
  // GC holds this mutex exclusively, because GC undoes attachments that it does
  // not know.
  std::shared_mutex attaching_;
  std::mutex listing_mutex_;
  std::optional<CniListing> listing_;
  Clock::time_point listed_{};
};

}  // namespace mountd
