// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/rpc_queue.h"

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

void* RpcQueue::Tag(Work work) {
  auto tag = std::make_unique<Work>(std::move(work));
  tags_.fetch_add(1, std::memory_order_release);
  return tag.release();
}

void RpcQueue::Run() {
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) {
    tags_.load(std::memory_order_acquire);
    const std::unique_ptr<Work> work(static_cast<Work*>(tag));
    poster_->Post([work = std::move(*work), ok] { work(ok); });
  }
}

}  // namespace mountd::csi
