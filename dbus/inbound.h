// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>
#include <systemd/sd-bus.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dbus/foreign_fds.h"
#include "dbus/framing.h"
#include "dbus/peer_drops.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {

// All that sd-bus reads from one connection whose other end is not trusted.
// recvmsg(2) (received_fds.h) comes here for its socket.
//
// A read looks first whether an fd comes with the next bytes, by a MSG_PEEK
// that takes none (MSG_CTRUNC then says that there are some). Bytes without fds
// are read as they are. Those with fds are read by mountd-closer, and sd-bus
// gets a placeholder for each fd: an empty memfd of mountd's own. TakePassed
// gives the fd itself to who decodes the message.
//
// Ends the connection (ECONNRESET) of a peer whose unfinished message asks for
// more than kMostBytes, or brings more than closer::kMostFds fds; whose user's
// unfinished messages have more than kMostBytesOfOwner; or that sent fds with a
// malformed message, whose fds sd-bus (libsystemd 252 to 257) never closes.
//
// Lives on the loop's thread. The first read comes after it is made, and it
// dies after sd-bus has closed the socket.
class Inbound {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kMostBytesOfOwner = std::size_t{16} << 20U;

  // kBus: the system bus, which bounds messages itself, and which one sender
  // must not be able to end.
  enum class Kind { kPeer, kBus };

  // Takes the place of ForeignFds' caller for `id`: drops it at the end.
  // Counts its end in `drops`, if it ends the connection.
  Inbound(ForeignFds& foreign, PeerDrops& drops, std::uint64_t id,
          std::uint64_t owner, int socket, Kind kind);
  ~Inbound();
  Inbound(const Inbound&) = delete;
  Inbound& operator=(const Inbound&) = delete;

  // To be called for each message that sd-bus has made of what it read.
  int Watch(sd_bus* bus);
  // Before the socket is closed.
  void BeforeClose();

  // How often in a row this was asked while the same message was unfinished.
  int LookAtUnfinished();

  // recvmsg(2) as sd-bus calls it.
  ssize_t Receive(msghdr* message, int flags);

 private:
  // An fd as sd-bus has it.
  struct Placeholder {
    int number = -1;
    std::uint64_t inode = 0;
    std::uint64_t message = 0;  // its place among all
  };

  bool Refuses(std::size_t asked);
  ssize_t Read(std::byte* into, std::size_t size, msghdr* message);
  ssize_t ReadAhead(std::byte* into, std::size_t size);
  ssize_t ReadWithFds(std::byte* into, std::size_t size, msghdr* message);
  bool PutPlaceholders(std::vector<std::shared_ptr<UniqueFd>> fds,
                       msghdr* message);
  void Consume(std::size_t size) const;
  ssize_t End(PeerDrop why, const std::string& text);
  void MessageSeen();
  void Forget(std::size_t most);
  bool HasLost() const;
  void CloseLost();

  ForeignFds& foreign_;
  PeerDrops& drops_;
  const std::uint64_t id_;
  const std::uint64_t owner_;
  const int socket_;
  const Kind kind_;

  // Bytes without fds at the head of the socket's queue: given_ of ahead_ have
  // been handed out, and none is taken from the queue before all are.
  std::array<std::byte, 4096> peeked_{};
  std::size_t ahead_ = 0;
  std::size_t given_ = 0;

  Framing framing_;  // kPeer
  // Of the message that is being read, and of malformed ones.
  std::vector<Placeholder> placeholders_;
  std::size_t claimed_ = 0;  // of kMostBytesOfOwner
  std::uint64_t looked_at_ = 0;
  int looks_ = 0;
  bool ended_ = false;

  // Inodes of placeholders whose messages sd-bus has made.
  std::deque<std::uint64_t> delivered_;
};

// The fd that `fd`, which sd-bus gave out, stands for; a duplicate of `fd`
// itself if it is no placeholder. Only while its message is decoded. Never
// null; its fd is invalid if this process has no room for it.
std::shared_ptr<UniqueFd> TakePassed(int fd);

// The Inbound of this socket on this thread, or null.
Inbound* FindInbound(int socket);

}  // namespace mountd::dbus
