// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "csi-node/mountd-csi/poster.h"

namespace mountd::csi {

// Owns gRPC's completion queue, and one thread that passes each completion to
// the loop. The process has one queue for its whole life. gRPC's callback API
// has a queue of its own and makes it again after the last channel closed, and
// gRPC 1.51 then aborts now and then.
class RpcQueue {
 public:
  // `poster` outlives the queue.
  explicit RpcQueue(Poster* poster);
  // Waits for every RPC in flight, so cancel them first.
  ~RpcQueue();

  RpcQueue(const RpcQueue&) = delete;
  RpcQueue& operator=(const RpcQueue&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }

  // Returns a tag for exactly one operation on the queue. `work` runs on the
  // loop's thread when the operation is complete. `read` is false if an answer
  // came that is no such message, although the status says OK.
  using Work = std::function<void(bool read)>;
  void* Tag(Work work);

 private:
  void Run();

  Poster* poster_;
  // gRPC passes a tag from thread to thread. TSan cannot see that, because gRPC
  // is not instrumented; this atomic shows it to TSan.
  std::atomic<std::uint64_t> tags_{0};
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

}  // namespace mountd::csi
