// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/closer/closer_message.h"
#include "mountd/closer/closes.h"

namespace mountd::closer {

// Owns a reference to each file that a peer of mountd made, and drops the last
// reference. Dropping the last reference may wait for ever, so mountd itself
// must never do that, neither by close(2) nor by its exit. Owns the peers'
// sockets from accept(2) on, because fds may wait in their queues. Receives the
// fds that peers send, and passes on to mountd only the fds that IsPassable
// allows (passable.h).
//
//   mountd --Request, fds--> Closer --Reply, bytes, fds--> mountd
//
// Drops a file after mountd has dropped it (kDrop), or after mountd's pidfd
// says that mountd has ended. The end of the connection does not suffice,
// because mountd closes its other files later.
//
// Runs on one thread. Never closes a peer's file on that thread; `Closes` does.
class Closer {
 public:
  explicit Closer(UniqueFd connection);
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Serves until mountd has ended or has sent kRetire, and all files are
  // closed.
  void Run();

 private:
  struct Held {
    UniqueFd fd;
    std::uint64_t owner = 0;
  };

  void Wait();
  void Serve();
  void Handle(const Request& request, std::vector<UniqueFd> fds);
  void Begin(std::vector<UniqueFd> fds);
  void Accept(std::uint64_t id);
  void Receive(const Request& request);
  void Drop(std::uint64_t id);
  void HangUp();
  void DropAll();
  bool IsShortOfFds() const;
  void Answer(Reply reply, std::uint64_t owner,
              std::span<const std::byte> bytes, std::span<const int> fds);

  UniqueFd connection_;  // invalid: mountd has closed it
  UniqueFd mountd_;      // its pidfd
  UniqueFd listening_;
  std::map<std::uint64_t, Held> held_;
  bool ended_ = false;
  Closes closes_;
  std::vector<std::byte> bytes_;
};

}  // namespace mountd::closer
