// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "agent/subscriber.h"

namespace mountd::agent::test {

// Records signals by its handlers, and waits for them.
class SignalLog {
 public:
  SignalHandlers Handlers() {
    SignalHandlers handlers;
    handlers.operation_done = [this](const SignalHandlers::Outcome& outcome) {
      Add("done " + outcome.operation + " " +
          std::string(CodeName(outcome.error.code)) + " " +
          outcome.error.detail);
    };
    handlers.operation_progress = [this](const std::string& operation,
                                         const std::string& method,
                                         std::uint64_t done) {
      Add("progress " + operation + " " + method + " " + std::to_string(done));
    };
    handlers.operation_step = [this](const OperationStatus& operation) {
      Add("step " + operation.id + " " + operation.step + " " +
          std::to_string(operation.attempt) + " " + operation.error);
    };
    handlers.plugin_changed = [this](const std::string& plugin,
                                     const std::string& state,
                                     const std::string& reason) {
      Add("plugin " + plugin + " " + state + " [" + reason + "]");
    };
    const auto instance = [this](const std::string& what) {
      return [this, what](const SignalHandlers::PluginInstance& one) {
        Add(what + " " + one.plugin + " " + one.type + " " + one.allocation);
      };
    };
    handlers.plugin_added = instance("added");
    handlers.plugin_removed = instance("removed");
    handlers.plugin_event = [this](const SignalHandlers::PluginEvent& one) {
      Add("event " + one.plugin + " " + one.type + " " + one.allocation + " " +
          one.event + ", " + one.message);
    };
    handlers.node_info_changed =
        [this](const SignalHandlers::NodeInfoChange& change) {
          Add("node " + change.plugin + " " + change.type + " " +
              change.allocation + " " + change.node.node_id + " " +
              std::to_string(change.node.max_volumes) + " " +
              change.node.topology.at("zone") + " " +
              change.node.changed.at(0) + ", " + change.text);
        };
    handlers.owed_changed = [this](std::uint32_t count) {
      Add("owed " + std::to_string(count));
    };
    handlers.owed_overdue = [this](const OwedSummary& owed) {
      Add("overdue " + std::to_string(owed.count) + " " +
          std::to_string(owed.since.time_since_epoch().count()));
    };
    handlers.stuck_changed = [this](std::uint32_t count) {
      Add("stuck " + std::to_string(count));
    };
    handlers.mount_lost = [this](const SignalHandlers::Mount& mount,
                                 const std::string& reason) {
      Add("lost " + mount.allocation + "/" + mount.task + "/" + mount.name +
          " " + reason);
    };
    handlers.mount_health = [this](const SignalHandlers::Mount& mount,
                                   const std::string& state,
                                   const std::string& reason) {
      Add("health " + mount.allocation + "/" + mount.task + "/" + mount.name +
          " " + state + " " + reason);
    };
    handlers.lease_lapsed = [this](const std::string& lease, std::uint32_t uid,
                                   const std::string& reason) {
      Add("lapsed " + lease + " " + std::to_string(uid) + " " + reason);
    };
    handlers.fence_done = [this](const std::string& allocation,
                                 const std::string& lease) {
      Add("fenced " + allocation + " " + lease);
    };
    handlers.lease_changed = [this](const std::string& lease, std::uint32_t uid,
                                    const LeaseChange& change) {
      Add("lease " + lease + " " + std::to_string(uid) + " " + change.change +
          " " + change.reason + " " + change.allocation + " " +
          change.traceparent + " " + change.request_id);
    };
    handlers.lost = [this](const Error& error) {
      Add("lost " + std::string(CodeName(error.code)) + " " +
          std::string(AwayName(error.away)));
    };
    return handlers;
  }

  // Waits until there are `count` signals, for half a minute at most. Returns
  // all that have come.
  std::vector<std::string> Wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::seconds(30),
                   [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    more_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> lines_;
};

}  // namespace mountd::agent::test
