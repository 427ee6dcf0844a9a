// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "agent/client.h"
#include "mountd/base/result.h"

namespace mountd::csi_proxy {

// The time that an RPC has: until its deadline, or until its caller has gone.
class RpcTime {
 public:
  // `longest` bounds an RPC without a deadline. `context` outlives this.
  RpcTime(const grpc::ServerContext& context,
          std::chrono::milliseconds longest);

  // Not negative.
  std::chrono::milliseconds Left() const;
  bool IsOver() const;
  // True if the RPC's own deadline has passed.
  bool IsPastDeadline() const;
  // Waits for so long, or until the time is over. Returns false if it is over.
  bool Pause(std::chrono::milliseconds pause) const;

 private:
  const grpc::ServerContext& context_;
  gpr_timespec deadline_;  // on GPR_CLOCK_MONOTONIC, as `end_`
  gpr_timespec end_;
};

// Where mountd is, and how much the proxy asks of it at once.
struct CallOptions {
  std::string address{};  // ClientOptions::address
  // RPCs of all plugins that call mountd at once, each with a connection of its
  // own; and how many of them may be of one plugin.
  std::size_t at_once = 24;
  std::size_t of_one_plugin = 12;
  // RPCs that only look at a plugin, beside those.
  std::size_t looks_at_once = 4;
  // An RPC without a deadline ends after this time.
  std::chrono::milliseconds longest{600'000};
  // The time between two looks at whether an RPC's caller has gone.
  std::chrono::milliseconds patience{1000};
  // A publication looks whether its target is a mount point in the end. Tests
  // set false, whose mountd mounts nothing.
  bool reads_back = true;
};

// Makes the calls of RPCs. Each RPC has a connection of its own, because a
// client joins a call until one deadline. Thread-safe.
class Calls {
 public:
  explicit Calls(CallOptions options) : options_(std::move(options)) {}

  const CallOptions& options() const { return options_; }

  // Calls `work` with a connected client, and again while mountd restarts.
  // Errors are those of `work`, and:
  // - InProgress if the RPC's time is over, or no connection became free.
  // - Unavailable if mountd is away.
  template <typename F>
  std::invoke_result_t<const F&, agent::Client&> Work(const std::string& plugin,
                                                      const RpcTime& time,
                                                      const F& work) {
    return Run(plugin, options_.of_one_plugin, time, work);
  }
  // The same for a call that returns at once whatever a plugin does.
  template <typename F>
  std::invoke_result_t<const F&, agent::Client&> Look(const RpcTime& time,
                                                      const F& look) {
    return Run("", options_.looks_at_once, time, look);
  }

 private:
  // Counts an RPC among those of `plugin`; "": those that only look.
  class Slot {
   public:
    Slot(Calls& calls, std::string plugin, std::size_t most,
         const RpcTime& time);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    bool taken() const { return taken_; }

   private:
    Calls& calls_;
    const std::string plugin_;
    bool taken_ = false;
  };

  template <typename F>
  std::invoke_result_t<const F&, agent::Client&> Run(const std::string& plugin,
                                                     std::size_t most,
                                                     const RpcTime& time,
                                                     const F& work) {
    const Slot slot(*this, plugin, most, time);
    if (!slot.taken()) {
      return MakeError(Code::kInProgress, "call", "mountd",
                       "too many other calls are under way");
    }
    for (;;) {
      Result<agent::Client> client = Connect(time);
      if (!client) {
        return client.error();
      }
      auto done = work(*client);
      if (done || !MayPass(done.error()) || !time.Pause(kRestartPause)) {
        return done;
      }
    }
  }

  bool IsFree(const std::string& plugin, std::size_t most);
  Result<agent::Client> Connect(const RpcTime& time) const;
  // True if mountd, or a process of its, restarts.
  static bool MayPass(const Error& error) {
    return error.code == Code::kUnavailable && error.away == Away::kRestarting;
  }

  static constexpr std::chrono::milliseconds kRestartPause{100};

  const CallOptions options_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<std::string, std::size_t> taken_;  // by plugin
  std::size_t working_ = 0;                   // those of all plugins
};

}  // namespace mountd::csi_proxy
