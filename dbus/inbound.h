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
// more than kMostBytes, or brings more than kMostFds fds; whose user's
// unfinished messages have more than kMostBytesOfOwner; or that sent fds with a
// malformed message, whose fds and their array sd-bus (libsystemd 252 to 257)
// never frees.
//
// sd-bus closes its socket whenever it finds the connection broken, and another
// file may have that number at once. So the Inbound has a number of its own for
// the socket, and tells by the inode whose a read is.
//
// Lives on the loop's thread, and dies after sd-bus has closed its socket.
class Inbound {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kMostBytesOfOwner = std::size_t{16} << 20U;
  // No method takes more than two. A message keeps its fds until its call is
  // answered.
  static constexpr std::size_t kMostFds = 4;

  // kBus: the system bus, which bounds messages itself, and which one sender
  // must not be able to end.
  enum class Kind { kPeer, kBus };

  // Takes the place of ForeignFds' caller for `id`: closes `socket` at the end.
  // Counts its end in `drops`, if it ends the connection.
  Inbound(ForeignFds& foreign, PeerDrops& drops, std::uint64_t id,
          std::uint64_t owner, UniqueFd socket, Kind kind);
  ~Inbound();
  Inbound(const Inbound&) = delete;
  Inbound& operator=(const Inbound&) = delete;

  // The number that is the socket's as long as this lives.
  int socket() const { return socket_.get(); }
  // sd-bus's number of the socket, before its first read.
  void SetNumber(int number);
  // To be called for each message that sd-bus has made of what it read.
  int Watch(sd_bus* bus);

  // How often in a row this was asked while the same message was unfinished.
  int LookAtUnfinished();

  // The reason for which this has ended the connection; empty if it has not.
  const std::string& why_ended() const { return why_ended_; }
  // Its user's fds stick: no message with fds can be taken for now.
  bool is_over_quota() const { return is_over_quota_; }

  // recvmsg(2) as sd-bus calls it.
  ssize_t Receive(msghdr* message, int flags);

  bool IsThatOf(int number) const;
  // sd-bus has made this array of the fds that it was given last.
  void SetArray(void* array) { array_ = array; }
  std::size_t fds() const { return placeholders_.size(); }

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
  ssize_t End(PeerDrop kind, std::string why);
  void MessageSeen();
  void Forget(std::size_t most);
  bool HasLost() const;
  void CloseLost();

  ForeignFds& foreign_;
  PeerDrops& drops_;
  const std::uint64_t id_;
  const std::uint64_t owner_;
  UniqueFd socket_;
  const std::uint64_t inode_;
  const Kind kind_;
  int number_ = -1;

  // Bytes without fds at the head of the socket's queue: given_ of ahead_ have
  // been handed out, and none is taken from the queue before all are.
  std::array<std::byte, 4096> peeked_{};
  std::size_t ahead_ = 0;
  std::size_t given_ = 0;

  Framing framing_;  // kPeer
  // Of the message that is being read, and of malformed ones.
  std::vector<Placeholder> placeholders_;
  void* array_ = nullptr;    // sd-bus's, of these
  std::size_t claimed_ = 0;  // of kMostBytesOfOwner
  std::uint64_t looked_at_ = 0;
  int looks_ = 0;
  std::string why_ended_;
  bool is_over_quota_ = false;

  // Inodes of placeholders whose messages sd-bus has made.
  std::deque<std::uint64_t> delivered_;
};

// The fd that `fd`, which sd-bus gave out, stands for; a duplicate of `fd`
// itself if it is no placeholder. Only while its message is decoded. Never
// null; its fd is invalid if this process has no room for it.
std::shared_ptr<UniqueFd> TakePassed(int fd);

// The Inbound of this socket on this thread, or null.
Inbound* FindInbound(int socket);

// reallocarray(3) has answered this thread.
void NoteArray(void* array, std::size_t count, std::size_t size);

}  // namespace mountd::dbus
