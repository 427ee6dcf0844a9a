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

#include "csi-node/csi_client.h"
#include "csi-node/ipc/frame_socket.h"
#include "csi-node/ipc/message.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi {

// One connection to mountd-csi, from its start to its death; calls of several
// threads are in flight on it at once. Callers send by themselves; one thread
// of its own reads, wakes them, and sends what they could not.
//
// Dies once, when mountd-csi hangs up or breaks the protocol: every call in
// flight, and every later one, then ends with kUnavailable.
class CsiSession {
 public:
  // `on_death` is called once, from the session's thread, unless Stop came
  // first.
  CsiSession(UniqueFd socket, std::function<void()> on_death);
  // Stops.
  ~CsiSession();

  CsiSession(const CsiSession&) = delete;
  CsiSession& operator=(const CsiSession&) = delete;

  // Blocks until the reply, the session's death, or shortly after `deadline`
  // (kDeadlineExceeded: mountd-csi itself does not answer). Sets the request's
  // id and deadline. `fd` goes with the frame if valid.
  RpcResult<ipc::Reply> Call(ipc::Request request, UniqueFd fd,
                             Clock::time_point deadline);

  bool dead() const { return dead_.load(); }
  // The thread has done all it will do: destroying does not wait.
  bool finished() const { return finished_.load(); }
  void Stop();

 private:
  struct Waiter {
    std::condition_variable answered;
    std::optional<RpcResult<ipc::Reply>> result;
  };

  void Send(ipc::Frame frame);  // with the mutex
  void Run();
  short AwaitedEvents();
  // One turn of the thread's loop; false: the connection is over.
  bool Turn(short events);
  bool SendQueued();
  bool Deliver(ipc::Reply reply);
  void FailAll();
  void Wake() const;

  std::mutex mutex_;
  std::uint64_t next_id_ = 0;                 // mutex_
  std::map<std::uint64_t, Waiter*> waiters_;  // mutex_
  bool broken_ = false;                       // mutex_: could not be sent to

  UniqueFd wake_;
  // Reading is the thread's, sending needs mutex_.
  std::unique_ptr<ipc::FrameSocket> socket_;
  std::function<void()> on_death_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> dead_ = false;
  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace mountd::csi
