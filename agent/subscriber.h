// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/client.h"
#include "mountd/base/error.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// The handlers that a Subscriber calls on its own thread. The Subscriber skips
// empty handlers. A handler must not destroy the Subscriber.
struct SignalHandlers {
  // `error` is meaningful only if `failed`.
  struct Outcome {
    std::string operation;
    bool failed = false;
    Error error;
  };
  std::function<void(const Outcome&)> operation_done;
  // Called when a running operation's step changes, a few times a second at
  // most, and once when the operation ends.
  std::function<void(const OperationStatus& operation)> operation_step;
  // Called a few times a second for RemoveTree and ChownTree, with the number
  // of files done.
  std::function<void(const std::string& operation, const std::string& method,
                     std::uint64_t done)>
      operation_progress;
  std::function<void(const std::string& plugin, const std::string& state,
                     const std::string& reason)>
      plugin_changed;
  struct PluginInstance {
    std::string plugin;
    std::string type;
    std::string allocation;
    std::string object;  // the path of the instance's org.mountd1.Plugin
  };
  std::function<void(const PluginInstance& instance)> plugin_added;
  std::function<void(const PluginInstance& instance)> plugin_removed;
  // An event of the task that runs a plugin, as text to show.
  struct PluginEvent {
    std::string plugin;
    std::string type;
    std::string allocation;
    std::string event;
    std::string message;
  };
  std::function<void(const PluginEvent& event)> plugin_event;
  // A plugin describes this node otherwise than before. `text` is one line.
  struct NodeInfoChange {
    std::string plugin;
    std::string type;
    std::string allocation;
    NodeInfo node;
    std::string text;
  };
  std::function<void(const NodeInfoChange& change)> node_info_changed;
  std::function<void(std::uint32_t count)> owed_changed;
  std::function<void(const OwedSummary& owed)> owed_overdue;
  // Executors that hang in the kernel and that mountd has abandoned.
  std::function<void(std::uint32_t count)> stuck_changed;
  struct Mount {
    std::string allocation;
    std::string task;
    std::string name;
  };
  std::function<void(const Mount& mount, const std::string& reason)> mount_lost;
  // `state`: "healthy", "dead", "hung".
  std::function<void(const Mount& mount, const std::string& state,
                     const std::string& reason)>
      mount_health;
  struct Volume {
    std::string plugin;
    std::string volume;
  };
  // `state`: "dead", "healthy", "abnormal", "normal".
  std::function<void(const Volume& volume, const std::string& state,
                     const std::string& reason)>
      volume_health;
  // mountd needs another PublishVolume, with its secrets and mount flags.
  std::function<void(const std::string& allocation, const std::string& alias,
                     const Volume& volume)>
      secrets_needed;

  std::function<void(const std::string& network, const AddressUsage& usage)>
      addresses_scarce;
  // `what`: "link", "host-end", "inside", "elements", or several with "+".
  std::function<void(const std::string& allocation,
                     const std::string& interface, const std::string& what)>
      network_repaired;
  std::function<void(const std::string& allocation,
                     const std::string& interface, const std::string& reason)>
      network_lost;
  std::function<void()> ruleset_restored;
  // mountd fences the lease's allocations from now on.
  std::function<void(const std::string& lease, std::uint32_t uid,
                     const std::string& reason)>
      lease_lapsed;
  // The fence is done, perhaps before this Subscriber started. mountd reports
  // each fence to the lease's user at least once, and sometimes again.
  std::function<void(const std::string& allocation, const std::string& lease)>
      fence_done;
  // Called after each lease_lapsed and fence_done, with the names (CallNames)
  // of the lease's AcquireLease.
  std::function<void(const std::string& lease, std::uint32_t uid,
                     const LeaseChange& change)>
      lease_changed;

  // If true, operation_step gets the spans of each operation that has a
  // traceparent and that the caller sees. If false, only those of the caller's
  // own operations in sampled traces. NotSupported on the system bus.
  bool spans = false;

  // The connection is lost and no handler is called any more. Signals sent
  // meanwhile are lost, except fence_done: start another Subscriber, then read
  // the state (Get…, List…). Error::away is kRestarting if mountd has ended the
  // connection.
  std::function<void(const Error&)> lost;
};

// Owns a connection and a thread for mountd's signals. Its destructor, called
// on any other thread, ends both; no handler runs after that.
class Subscriber {
 public:
  // Uses only the address, system_bus and connect_timeout of `options`.
  // Delivers all signals that mountd sends after Start has returned.
  static Result<Subscriber> Start(const ClientOptions& options,
                                  SignalHandlers handlers);

  Subscriber(Subscriber&&) noexcept;
  Subscriber& operator=(Subscriber&&) noexcept;
  ~Subscriber();

 private:
  class Impl;
  explicit Subscriber(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace mountd::agent
