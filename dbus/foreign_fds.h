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

#include "dbus/event_loop.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/closer/closer_message.h"

namespace mountd::dbus {

// mountd's end of mountd-closer (mountd/closer/closer.h), and the way in of all
// that others made: connections of peers, and fds that peers send. mountd's
// close(2) of one of these is never the last one, because mountd-closer has had
// it before mountd, and closes it after mountd.
//
// One mountd-closer at a time. One that has ended, does not answer in
// `patience`, or has no thread left is replaced by the next, which gets a
// reference of all there is first. Without any, nothing is accepted, received
// or closed.
//
// Lives on the loop's thread; fds that Receive gave may be let go on any.
class ForeignFds {
 public:
  using Connector = std::function<Result<UniqueFd>()>;

  // How much of what others made mountd holds. A peer that sends more is
  // dropped.
  struct Bounds {
    std::size_t fds_of_owner = 1024;
    std::size_t fds = 16'384;
    std::chrono::milliseconds patience{2000};
  };

  // Of all who send by the system bus, which tells nobody's uid at this point.
  static constexpr std::uint64_t kBusOwner = std::uint64_t{1} << 32U;

  // Connects to mountd-closer when it is needed first.
  ForeignFds(EventLoop& loop, Connector connect, Bounds bounds);
  ForeignFds(EventLoop& loop, Connector connect)
      : ForeignFds(loop, std::move(connect), Bounds()) {}
  // Retires mountd-closer.
  ~ForeignFds();
  ForeignFds(const ForeignFds&) = delete;
  ForeignFds& operator=(const ForeignFds&) = delete;

  // Connects to kCloserSocket.
  static Connector ConnectToCloser();

  // The listening socket, which stays the caller's. Where the kernel has
  // SO_PASSRIGHTS (Linux 6.16), nobody can send an fd to a connection of it
  // that has not been admitted.
  void Listen(int listening);

  struct Accepted {
    std::uint64_t id = 0;
    UniqueFd socket;
    // Fds of this user that wait to be closed.
    std::size_t pending = 0;
  };
  // accept4(2), non-blocking and O_CLOEXEC. An errno: accept4's, or ENOTCONN if
  // there is no mountd-closer.
  Result<Accepted, int> Accept();
  // From now on the peer may send fds.
  static void Admit(int socket);

  // Has mountd-closer hold this socket: its id.
  std::uint64_t Hold(int socket, std::uint64_t owner);

  // Closes the socket that has this id; later, without a mountd-closer. Until
  // then its number is this socket's.
  void Close(std::uint64_t id, UniqueFd socket);

  struct Received {
    std::size_t size = 0;  // 0: the peer has closed
    // Empty pointers for those that nobody here may have.
    std::vector<std::shared_ptr<UniqueFd>> fds;
  };
  // recvmsg(2) of the socket `id` of `owner`, without waiting for it. An errno:
  // recvmsg's, ECONNRESET if mountd-closer failed, EDQUOT if the owner has too
  // many fds here.
  Result<Received, int> Receive(std::uint64_t id, std::uint64_t owner,
                                std::span<std::byte> into);

  EventLoop& loop() { return loop_; }
  // How many mountd-closers were started after the first.
  std::size_t replaced() const { return replaced_; }

 private:
  struct Held {
    int fd = -1;
    std::uint64_t owner = 0;
    // Closed by everybody but for want of a mountd-closer: it owns `fd`.
    bool is_left = false;
  };

  // All with mutex_.
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

  // One that did not answer in time. Its answer, which may bring fds, is taken
  // when it comes: then it is retired.
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
