// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dbus/receive/event_loop.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/closer/closer_message.h"

namespace mountd::dbus {

// Owns mountd's end of mountd-closer (mountd/closer/closer.h). Peers'
// connections and the fds that peers send come into mountd only through
// mountd-closer. mountd's close(2) of such an fd is never the last one, because
// mountd-closer has had the fd before mountd, and closes it after mountd.
//
// Uses one mountd-closer at a time. Replaces a mountd-closer that has ended,
// does not answer within `patience`, or has no thread left. The next
// mountd-closer first gets a reference to every fd that this object holds.
// Without a mountd-closer this object accepts, receives and closes nothing.
//
// Runs on the loop's thread. Any thread may release an fd that Receive
// returned.
class ForeignFds {
 public:
  using Connector = std::function<Result<UniqueFd>()>;

  // Bounds on the fds made by others that mountd holds. A peer that sends more
  // is dropped.
  struct Bounds {
    std::size_t fds_of_owner = 1024;
    std::size_t fds = 16'384;
    std::chrono::milliseconds patience{2000};
  };

  // Stands for all senders on the system bus, because the bus does not say at
  // this point which user sent an fd.
  static constexpr std::uint64_t kBusOwner = std::uint64_t{1} << 32U;

  // Connects to mountd-closer when it is first needed.
  ForeignFds(EventLoop& loop, Connector connect, Bounds bounds);
  ForeignFds(EventLoop& loop, Connector connect)
      : ForeignFds(loop, std::move(connect), Bounds()) {}
  // Tells mountd-closer to retire.
  ~ForeignFds();
  ForeignFds(const ForeignFds&) = delete;
  ForeignFds& operator=(const ForeignFds&) = delete;

  // Returns a Connector to kCloserSocket.
  static Connector ConnectToCloser();

  // Sets the listening socket, which stays the caller's. With SO_PASSRIGHTS
  // (Linux 6.16) nobody can send an fd to an accepted connection before Admit.
  void Listen(int listening);

  struct Accepted {
    std::uint64_t id = 0;
    UniqueFd socket;
    // How many fds of this user wait to be closed.
    std::size_t pending = 0;
  };
  // Accepts a connection as accept4(2) does, non-blocking and O_CLOEXEC.
  // Returns accept4's errno, or ENOTCONN if there is no mountd-closer.
  Result<Accepted, int> Accept();
  // Lets the peer send fds from now on.
  static void Admit(int socket);

  // Gives mountd-closer a reference to this socket. Returns the socket's id.
  std::uint64_t Hold(int socket, std::uint64_t owner);

  // Closes the socket that has this id. Without a mountd-closer the socket is
  // closed later, and keeps its number until then.
  void Close(std::uint64_t id, UniqueFd socket);

  struct Received {
    std::size_t size = 0;  // 0: the peer has closed
    // A null pointer stands for an fd that mountd-closer does not pass on, or
    // for which this process has no room.
    std::vector<std::shared_ptr<UniqueFd>> fds;
  };
  // Receives from the socket `id` of `owner` as recvmsg(2) does, without
  // waiting for the socket. Returns an errno: recvmsg's, ECONNRESET if
  // mountd-closer failed, EDQUOT if the owner has too many fds here.
  Result<Received, int> Receive(std::uint64_t id, std::uint64_t owner,
                                std::span<std::byte> into);

  EventLoop& loop() { return loop_; }
  // How many mountd-closers this object started after the first.
  std::size_t replaced() const { return replaced_; }

 private:
  struct Held {
    int fd = -1;
    std::uint64_t owner = 0;
    // True if mountd closed the fd while there was no mountd-closer. This Held
    // then owns `fd` until the next mountd-closer comes.
    bool is_left = false;
  };

  // The caller of each of these holds mutex_.
  bool IsConnected() const;
  bool Connect();
  bool Begin(int connection);
  bool HoldAll(int connection);
  void CloseLeft();
  void TryAgainLater();
  void Disconnect();
  void Replace();
  void Watch();
  void SendDrop(std::uint64_t id);
  // Returns whether the owner has fewer fds here than it may have.
  bool HasRoom(std::uint64_t owner) const;
  // Holds the fd until the returned pointer is destroyed.
  std::shared_ptr<UniqueFd> Hold(std::uint64_t id, std::uint64_t owner,
                                 UniqueFd fd);
  Result<closer::Incoming, int> Ask(const closer::Request& request,
                                    closer::Reply* reply,
                                    std::span<std::byte> bytes);

  void LookAtCloser();
  void AwaitLate(std::uint64_t serial);
  bool TakeLate(int connection);
  void LetGo(std::uint64_t id, UniqueFd fd);
  void CloseHeld(std::uint64_t id, UniqueFd fd);  // with mutex_

  EventLoop& loop_;
  const Connector connect_;
  const Bounds bounds_;
  UniqueFd self_;  // this process's pidfd
  int listening_ = -1;
  std::unique_ptr<EventLoop::Source> watch_;
  std::size_t replaced_ = 0;
  bool tries_again_ = false;

  // A mountd-closer that did not answer in time. Its late answer may bring fds,
  // so this object takes the answer when it comes, and retires that
  // mountd-closer then.
  struct Late {
    UniqueFd connection;
    std::unique_ptr<EventLoop::Source> watch;
  };
  std::map<std::uint64_t, Late> late_;

  mutable std::mutex mutex_;
  UniqueFd connection_;                          // mutex_
  std::uint64_t last_id_ = 0;                    // mutex_
  std::map<std::uint64_t, Held> held_;           // mutex_
  std::map<std::uint64_t, std::size_t> fds_of_;  // mutex_; by owner
  std::size_t fds_ = 0;                          // mutex_
  std::vector<std::byte> bytes_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mountd::dbus
