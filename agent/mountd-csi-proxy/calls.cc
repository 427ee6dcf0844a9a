// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/calls.h"

#include <algorithm>
#include <thread>

namespace mountd::csi_proxy {
namespace {

using std::chrono::milliseconds;

// How long a waiting RPC does not look at whether its caller has gone.
constexpr milliseconds kLook{200};

gpr_timespec Now() { return ::gpr_now(GPR_CLOCK_MONOTONIC); }

}  // namespace

RpcTime::RpcTime(const grpc::ServerContext& context, milliseconds longest)
    : context_(context),
      deadline_(::gpr_convert_clock_type(context.raw_deadline(),
                                         GPR_CLOCK_MONOTONIC)),
      end_(::gpr_time_min(
          deadline_,
          ::gpr_time_add(
              Now(), ::gpr_time_from_millis(longest.count(), GPR_TIMESPAN)))) {}

bool RpcTime::IsPastDeadline() const {
  return ::gpr_time_cmp(Now(), deadline_) >= 0;
}

milliseconds RpcTime::Left() const {
  return std::max(
      milliseconds(0),
      milliseconds(::gpr_time_to_millis(::gpr_time_sub(end_, Now()))));
}

bool RpcTime::IsOver() const {
  return context_.IsCancelled() || Left() == milliseconds(0);
}

bool RpcTime::Pause(milliseconds pause) const {
  std::this_thread::sleep_for(std::min(pause, Left()));
  return !IsOver();
}

bool Calls::IsFree(const std::string& plugin, std::size_t most) {
  return taken_[plugin] < most &&
         (plugin.empty() || working_ < options_.at_once);
}

Calls::Slot::Slot(Calls& calls, std::string plugin, std::size_t most,
                  const RpcTime& time)
    : calls_(calls), plugin_(std::move(plugin)) {
  std::unique_lock lock(calls_.mutex_);
  while (!calls_.IsFree(plugin_, most)) {
    if (time.IsOver()) {
      return;
    }
    calls_.freed_.wait_for(lock, std::min(kLook, time.Left()));
  }
  ++calls_.taken_[plugin_];
  calls_.working_ += plugin_.empty() ? 0U : 1U;
  taken_ = true;
}

Calls::Slot::~Slot() {
  if (!taken_) {
    return;
  }
  {
    const std::lock_guard lock(calls_.mutex_);
    --calls_.taken_[plugin_];
    calls_.working_ -= plugin_.empty() ? 0U : 1U;
  }
  calls_.freed_.notify_all();
}

Result<agent::Client> Calls::Connect(const RpcTime& time) const {
  if (time.IsOver()) {
    return MakeError(Code::kInProgress, "call", "mountd",
                     "the call's time is over");
  }
  agent::ClientOptions client;
  client.address = options_.address;
  client.patience = options_.patience;
  client.deadline = time.Left();
  client.connect_timeout = std::min(client.connect_timeout, time.Left());
  client.give_up = [&time] { return time.IsOver(); };
  return agent::Client::Connect(std::move(client));
}

}  // namespace mountd::csi_proxy
