// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "csi-node/ipc/frame_socket.h"
#include "csi-node/ipc/message.h"
#include "csi-node/types/csi_client.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi {

// Owns one connection to mountd-csi, from its start to its death, with calls of
// several threads in flight at once. Callers send on their own threads. One
// thread of this object reads, wakes callers, and sends what callers could not.
//
// Dies once, when mountd-csi hangs up or breaks the protocol. Every call in
// flight, and every later call, then ends with kUnavailable.
class CsiSession {
 public:
  // Calls `on_death` once from the session's thread, unless Stop comes first.
  CsiSession(UniqueFd socket, std::function<void()> on_death);
  // Calls Stop.
  ~CsiSession();

  CsiSession(const CsiSession&) = delete;
  CsiSession& operator=(const CsiSession&) = delete;

  // Blocks until the reply, the session's death, or shortly after `deadline`
  // (kDeadlineExceeded, because mountd-csi itself does not answer). Sets the
  // request's id and deadline. Sends `fd` with the frame if it is valid.
  RpcResult<ipc::Reply> Call(ipc::Request request, UniqueFd fd,
                             Clock::time_point deadline);

  bool dead() const { return dead_.load(); }
  // True if the thread has ended its work, so that the destructor does not
  // wait.
  bool finished() const { return finished_.load(); }
  void Stop();

 private:
  struct Waiter {
    std::condition_variable answered;
    std::optional<RpcResult<ipc::Reply>> result;
  };

  void Send(ipc::Frame frame);  // the caller holds mutex_
  void Run();
  short AwaitedEvents();
  // Does one turn of the thread's loop. False if the connection is over.
  bool Turn(short events);
  bool SendQueued();
  bool Deliver(ipc::Reply reply);
  void FailAll();
  void Wake() const;

  std::mutex mutex_;
  std::uint64_t next_id_ = 0;                 // mutex_
  std::map<std::uint64_t, Waiter*> waiters_;  // mutex_
  bool broken_ = false;                       // mutex_; sending has failed

  UniqueFd wake_;
  // Only the thread reads; a sender holds mutex_.
  std::unique_ptr<ipc::FrameSocket> socket_;
  std::function<void()> on_death_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> dead_ = false;
  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace mountd::csi
