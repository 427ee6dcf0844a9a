// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "mountd/base/unique_fd.h"

namespace mountd::closer {

// Closes fds whose close(2) may wait for ever, unkillably, such as those of a
// file whose FUSE server does not answer. Gives each owner (a user) threads of
// its own, so an fd that hangs delays the fds of the same owner alone.
//
// Thread-safe. The threads are detached, because they may never end.
class Closes {
 public:
  // The most threads of one owner. When that many fds of an owner hang, the
  // owner's other fds wait.
  static constexpr std::size_t kThreadsOfOwner = 4;
  static constexpr std::size_t kMostThreads = 64;

  Closes();

  // Takes `fd` and closes it on a thread of `owner`.
  void Add(std::uint64_t owner, UniqueFd fd);

  // Returns the number of fds of `owner` that are not closed yet.
  std::size_t PendingOf(std::uint64_t owner) const;
  std::size_t Pending() const;  // of all owners
  bool IsEmpty() const { return Pending() == 0; }
  // Returns whether fds of some owner wait and no thread can be made for them.
  bool IsFull() const;

  // Returns an eventfd(2) that becomes readable once all added fds are closed.
  int fd() const;

 private:
  struct Owner {
    std::deque<int> waiting;
    std::size_t closing = 0;
    std::size_t threads = 0;
  };
  // The threads share this, because threads that hang outlive the Closes
  // object.
  struct Shared {
    mutable std::mutex mutex;
    std::map<std::uint64_t, Owner> owners;  // mutex; those with fds left
    std::size_t threads = 0;                // mutex
    std::size_t pending = 0;                // mutex
    UniqueFd emptied;
  };

  static void StartThreads(const std::shared_ptr<Shared>& shared,
                           std::uint64_t id, Owner& owner);
  static void Run(const std::shared_ptr<Shared>& shared, std::uint64_t id);

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace mountd::closer
