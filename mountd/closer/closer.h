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

// Owns a reference of each file that a peer of mountd made, and drops the last
// one, which may wait for ever: mountd's own close(2), and its exit, then never
// do. It has the peers' sockets, whose queues may hold fds, from accept(2) on,
// and receives the fds that peers send. mountd gets those that it may have
// (passable.h).
//
//   mountd --Request, fds--> Closer --Reply, bytes, fds--> mountd
//
// A file is dropped after mountd has dropped it (kDrop), or after mountd has
// ended, which its pidfd tells: the end of the connection comes earlier than
// the end of mountd's other files.
//
// Runs on one thread, which closes nothing of a peer's; `Closes` does.
class Closer {
 public:
  explicit Closer(UniqueFd connection);
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Until mountd has ended, or has sent kRetire, and all is closed.
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
