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

#include "dbus/receive/foreign_fds.h"
#include "dbus/receive/framing.h"
#include "dbus/receive/peer_drops.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {

// Does all reads of sd-bus from one connection whose other end is not trusted.
// recvmsg(2) (received_fds.h) calls the Inbound for that connection's socket.
//
// A read first looks whether an fd comes with the next bytes, by a MSG_PEEK
// without room for fds; MSG_CTRUNC then says that there are some. The Inbound
// reads bytes without fds as they are. mountd-closer reads bytes with fds, and
// sd-bus gets a placeholder for each fd: an empty memfd of mountd's own.
// TakePassed gives the fd itself to the code that decodes the message.
//
// Ends the connection of a peer (ECONNRESET):
// - whose unfinished message asks for more than kMostBytes;
// - whose unfinished message brings more than kMostFds fds;
// - whose user's unfinished messages have more than kMostBytesOfOwner;
// - that sent a malformed message, because sd-bus (libsystemd 252 to 257) drops
//   such a message without an answer, so its caller would wait for ever. Nor
//   does sd-bus free fds that came with the message, and their array.
//
// sd-bus closes its socket whenever it finds the connection broken, and another
// file may get that number at once. So the Inbound keeps a descriptor of its
// own for the socket, and compares inodes to tell whether a read is of this
// socket.
//
// Runs on the loop's thread. Destroyed only after sd-bus has closed its socket.
class Inbound {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kMostBytesOfOwner = std::size_t{16} << 20U;
  // No method takes more than two fds. A message keeps its fds until mountd has
  // answered its call.
  static constexpr std::size_t kMostFds = 4;

  // kBus is the system bus. The bus bounds messages itself, and one sender must
  // not be able to end the connection.
  enum class Kind { kPeer, kBus };

  // Takes over from the caller of ForeignFds the duty to close `socket`, whose
  // id is `id`: the destructor closes it. Counts in `drops` if this Inbound
  // ends the connection.
  Inbound(ForeignFds& foreign, PeerDrops& drops, std::uint64_t id,
          std::uint64_t owner, UniqueFd socket, Kind kind);
  ~Inbound();
  Inbound(const Inbound&) = delete;
  Inbound& operator=(const Inbound&) = delete;

  // Returns the Inbound's own descriptor of the socket, valid while this object
  // lives.
  int socket() const { return socket_.get(); }
  // Sets sd-bus's descriptor of the socket. Call before sd-bus's first read.
  void SetNumber(int number);
  // Installs a filter on `bus` that sees each message sd-bus has made. Returns
  // a negative errno on failure.
  int Watch(sd_bus* bus);

  // Returns how many calls of this function in a row have found the same
  // unfinished message.
  int LookAtUnfinished();
  // True if this call and the last call have found the same malformed message.
  // sd-bus normally reads on after it has dropped a message, and that read ends
  // the connection. This function is for a libsystemd that does not read on.
  bool LookAtLost();

  // Returns why this object has ended the connection, "" if it has not.
  const std::string& why_ended() const { return why_ended_; }
  // True if too many fds of this user are stuck here, so that no message with
  // fds can be taken for now.
  bool is_over_quota() const { return is_over_quota_; }

  // Receives as recvmsg(2) does when sd-bus calls it.
  ssize_t Receive(msghdr* message, int flags);

  bool IsThatOf(int number) const;
  // Notes the array that sd-bus has made for the fds it was given last.
  void SetArray(void* array) { array_ = array; }
  std::size_t fds() const { return placeholders_.size(); }

 private:
  // A placeholder for an fd, as sd-bus has it.
  struct Placeholder {
    int number = -1;
    std::uint64_t inode = 0;
    std::uint64_t message = 0;  // the index of its message on this connection
  };

  bool Refuses(std::size_t asked);
  ssize_t Read(std::byte* into, std::size_t size, msghdr* message);
  ssize_t ReadAhead(std::byte* into, std::size_t size);
  ssize_t ReadWithFds(std::byte* into, std::size_t size, msghdr* message);
  bool PutPlaceholders(std::vector<std::shared_ptr<UniqueFd>> fds,
                       msghdr* message);
  // Puts a memfd in the place of the fd. Returns -1 if there is no room.
  int PutPlaceholder(std::shared_ptr<UniqueFd> fd, std::uint64_t* inode);
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

  // Bytes without fds at the head of the socket's queue. sd-bus has got given_
  // of ahead_ bytes. The queue keeps all of them until sd-bus has got the last.
  std::array<std::byte, 4096> peeked_{};
  std::size_t ahead_ = 0;
  std::size_t given_ = 0;

  Framing framing_;  // of kPeer only
  // Placeholders of the message that is being read, and of malformed ones.
  std::vector<Placeholder> placeholders_;
  void* array_ = nullptr;    // sd-bus's array of these placeholders
  std::size_t claimed_ = 0;  // bytes of kMostBytesOfOwner
  std::uint64_t looked_at_ = 0;
  int looks_ = 0;
  std::uint64_t seen_ = 0;       // messages that sd-bus has made
  std::uint64_t lost_seen_ = 0;  // seen_ when LookAtLost last found one
  bool found_lost_ = false;
  std::string why_ended_;
  bool is_over_quota_ = false;

  // Inodes of placeholders in messages that sd-bus has made.
  std::deque<std::uint64_t> delivered_;
};

// Returns the fd that `fd`, which sd-bus gave out, stands for; a duplicate of
// `fd` if `fd` is no placeholder. Call only while the message of `fd` is
// decoded. Never null; the UniqueFd is invalid if this process has no room for
// another fd.
std::shared_ptr<UniqueFd> TakePassed(int fd);

// Returns the Inbound of this socket on this thread, or null.
Inbound* FindInbound(int socket);

// Notes that reallocarray(3) returned `array` to this thread.
void NoteArray(void* array, std::size_t count, std::size_t size);

}  // namespace mountd::dbus
