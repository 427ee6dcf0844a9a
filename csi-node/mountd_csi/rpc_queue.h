// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "csi-node/mountd_csi/poster.h"

namespace mountd::csi {

// gRPC's completion queue with one thread that carries each completion over to
// the loop. One queue for the process's whole life: gRPC's callback API keeps
// one of its own that it takes down and sets up again with the last and the
// next channel, and gRPC 1.51 then aborts now and then.
class RpcQueue {
 public:
  // `poster` outlives the queue.
  explicit RpcQueue(Poster* poster);
  // Waits for every RPC in flight: cancel them first.
  ~RpcQueue();

  RpcQueue(const RpcQueue&) = delete;
  RpcQueue& operator=(const RpcQueue&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }

  // For exactly one operation on the queue; `work` runs on the loop's thread
  // when it is complete. False: an answer came that is no such message, though
  // the status says OK.
  using Work = std::function<void(bool read)>;
  void* Tag(Work work);

 private:
  void Run();

  Poster* poster_;
  // gRPC hands a tag from thread to thread; TSan, which sees nothing of a
  // library that is not instrumented, sees it by this.
  std::atomic<std::uint64_t> tags_{0};
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

}  // namespace mountd::csi
