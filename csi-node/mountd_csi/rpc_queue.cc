// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd_csi/rpc_queue.h"

#include <memory>
#include <utility>

namespace mountd::csi {

RpcQueue::RpcQueue(Poster* poster) : poster_(poster) {
  thread_ = std::thread([this] { Run(); });
}

RpcQueue::~RpcQueue() {
  queue_.Shutdown();
  thread_.join();
}

void* RpcQueue::Tag(std::function<void()> work) {
  return new std::function<void()>(std::move(work));
}

void RpcQueue::Run() {
  void* tag = nullptr;
  // How it went is in the RPC's status; Finish always succeeds.
  for (bool ok = false; queue_.Next(&tag, &ok);) {
    const std::unique_ptr<std::function<void()>> work(
        static_cast<std::function<void()>*>(tag));
    poster_->Post(std::move(*work));
  }
}

}  // namespace mountd::csi
