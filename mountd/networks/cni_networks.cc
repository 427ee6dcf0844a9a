// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/cni_networks.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "mountd/base/memory_file.h"
#include "mountd/base/number.h"
#include "mountd/plan/wire.h"

namespace mountd {
namespace {

constexpr std::chrono::seconds kListingIsFresh{2};

exec::CniPlan PlanOf(exec::CniVerb verb, const NetworkRecord& record) {
  exec::CniPlan plan;
  plan.verb = verb;
  plan.allocation = exec::ToWire(record.allocation);
  plan.network = exec::ToWire(record.network);
  return plan;
}

// Returns whether CHECK works with the CNI project's portmap of this release.
// Before 1.3 portmap looks for each port's rules in the tables of both
// families. portmap does not find the rules of one family in the table of the
// other, so its CHECK always fails. Seen with 1.1.1, which Debian builds
// without a release number.
bool CanCheckPorts(std::string_view release) {
  const std::size_t dot = release.find('.');
  const auto major = ParseNumber<unsigned>(release.substr(0, dot));
  const auto minor = ParseNumber<unsigned>(
      dot == std::string_view::npos
          ? ""
          : release.substr(dot + 1, release.find('.', dot + 1) - dot - 1));
  return major && minor && (*major > 1 || (*major == 1 && *minor >= 3));
}

}  // namespace

Result<std::string> CniNetworks::Run(const exec::CniPlan& plan,
                                     const std::string& request) {
  MOUNTD_ASSIGN(const UniqueFd in, MemoryWith("cni-request", request));
  MOUNTD_ASSIGN(const UniqueFd out, executor_.RunCni(plan, in.get()));
  return ReadMemory(out.get(), exec::kMaxCniAnswerBytes);
}

Result<CniAttachment> CniNetworks::Attach(const NetworkRecord& record) {
  exec::CniPlan plan = PlanOf(exec::CniVerb::kAdd, record);
  plan.netns_inode = record.netns_inode;
  // Shared, because several ADDs may run at once, but none at the same time as
  // GC.
  const std::shared_lock lock(attaching_);
  MOUNTD_ASSIGN(const std::string answer, Run(plan, CniRequestOf(record)));
  return ReadCniAttachment(answer, record.interface);
}

Result<void> CniNetworks::Detach(const NetworkRecord& record) {
  MOUNTD_ASSIGN(
      const std::string answer,
      Run(PlanOf(exec::CniVerb::kDel, record), CniAttachmentOf(record)));
  return ReadCniOutcome(answer);
}

Result<bool> CniNetworks::CanCheck(const NetworkRecord& record) {
  if (record.ports.empty()) {
    return true;
  }
  MOUNTD_ASSIGN(const CniListing listing, List());
  const auto portmap = listing.plugins.find("portmap");
  return portmap == listing.plugins.end() || CanCheckPorts(portmap->second);
}

Result<void> CniNetworks::Check(const NetworkRecord& record) {
  MOUNTD_ASSIGN(const bool can_check, CanCheck(record));
  if (!can_check) {
    return Ok();
  }
  MOUNTD_ASSIGN(
      const std::string answer,
      Run(PlanOf(exec::CniVerb::kCheck, record), CniAttachmentOf(record)));
  return ReadCniOutcome(answer);
}

Result<void> CniNetworks::Status(const std::string& network) {
  exec::CniPlan plan;
  plan.verb = exec::CniVerb::kStatus;
  plan.network = exec::ToWire(network);
  MOUNTD_ASSIGN(const std::string answer, Run(plan, CniStatusRequest(network)));
  return ReadCniOutcome(answer);
}

Result<void> CniNetworks::CollectGarbage() {
  exec::CniPlan plan;
  plan.verb = exec::CniVerb::kGc;
  // Exclusive, because an attachment that is made meanwhile would be missing on
  // the list of valid ones, and GC would remove it.
  const std::unique_lock lock(attaching_);
  MOUNTD_ASSIGN(std::vector<NetworkRecord> valid,
                store_.networks.ListNetworks());
  // GC must spare this boot's attachments if records of attachments may be
  // lost. Records may be lost if the store is empty. Records may also be lost
  // if recovery has found a network without a record, even after a call has
  // taken that network over.
  const bool may_be_lost =
      valid.empty() ||
      std::any_of(valid.begin(), valid.end(), [](const NetworkRecord& record) {
        return record.state == NetworkRecordState::kFound || record.taken_over;
      });
  std::erase_if(valid, [](const NetworkRecord& record) {
    return record.mode != NetworkMode::kCni;
  });
  MOUNTD_ASSIGN(
      const std::string answer,
      Run(plan, may_be_lost ? CniEarlierBootsRequest() : CniGcRequest(valid)));
  return ReadCniOutcome(answer);
}

Result<CniListing> CniNetworks::List() {
  // Hold the mutex while the programs run, so that calls at the same time share
  // one listing.
  const std::lock_guard lock(listing_mutex_);
  if (!listing_ || Clock::now() - listed_ > kListingIsFresh) {
    MOUNTD_ASSIGN(const std::string answer, Run(exec::CniPlan{}, ""));
    MOUNTD_ASSIGN(listing_, ReadCniListing(answer));
    for (auto& [name, network] : listing_->networks) {
      if (network.unusable.empty() && network.has_status) {
        const Result<void> status = Status(name);
        network.unusable = status ? "" : status.error().Message();
      }
    }
    listed_ = Clock::now();
  }
  return *listing_;
}

}  // namespace mountd
