// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "agent/client.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// Owns a few connections to mountd, and lends one to each call. A call that
// mountd answers InProgress gives its connection back, and joins its work with
// the next connection, so that calls that hang keep no other call waiting for
// longer than their patience. The calls take turns. Thread-safe.
class LentClients {
 public:
  // Connects with this patience (ClientOptions::patience), and does not join.
  using Connect =
      std::function<Result<agent::Client>(std::chrono::milliseconds patience)>;
  using Clock = std::chrono::steady_clock;

  // The user's other programs need connections, too (limits.peers_per_uid).
  static constexpr std::size_t kMost = 3;

  struct Times {
    std::chrono::milliseconds patience{500};
    // Calls that take longer end with InProgress.
    std::chrono::milliseconds longest{300'000};
  };

  explicit LentClients(Connect connect) : LentClients(std::move(connect), {}) {}
  LentClients(Connect connect, Times times)
      : connect_(std::move(connect)), times_(times) {}

  // Returns the result of `call`, which makes one call to mountd and may be
  // called several times. Errors are those of `call` and of Connect.
  template <typename F>
  std::invoke_result_t<const F&, agent::Client&> Call(const F& call) {
    const Clock::time_point end = Clock::now() + times_.longest;
    for (;;) {
      auto done = CallOnce(call);
      if (done || done.error().code != Code::kInProgress ||
          Clock::now() >= end) {
        return done;
      }
    }
  }

  // The same, but InProgress after the patience. mountd goes on with its work.
  template <typename F>
  std::invoke_result_t<const F&, agent::Client&> CallOnce(const F& call) {
    const Turn turn(*this);
    std::optional<agent::Client> client = TakeIdle();
    if (!client) {
      MOUNTD_ASSIGN(client, connect_(times_.patience));
    }
    auto done = call(*client);
    Keep(*std::move(client));
    return done;
  }

 private:
  // Waits until it is the first that waits, and fewer than kMost calls are
  // under way.
  class Turn {
   public:
    explicit Turn(LentClients& clients);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    LentClients& clients_;
  };

  std::optional<agent::Client> TakeIdle();
  void Keep(agent::Client client);

  const Connect connect_;
  const Times times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_turn_ = 0;
  std::set<std::size_t> waiting_;
  std::size_t working_ = 0;
  std::optional<agent::Client> idle_;  // one, because calls are seldom
};

}  // namespace mountd::nomad
