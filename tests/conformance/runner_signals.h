// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/mountctl/output/json.h"
#include "agent/subscriber.h"

namespace mountd::agent {

// Owns the signals that no step has taken, as JSON with the contract's names.
// The handlers run on another thread.
class Signals {
 public:
  // Subscribes on a connection of its own, and ends an earlier one.
  Result<void> Subscribe(const std::string& address);
  // Returns the arguments of the first signal of that name, and removes it.
  // Nothing if none comes.
  std::optional<Json> Take(const std::string& name);

 private:
  SignalHandlers Handlers();
  void AddOperations(SignalHandlers& handlers);
  void AddPlugins(SignalHandlers& handlers);
  void AddMountsAndVolumes(SignalHandlers& handlers);
  void AddNode(SignalHandlers& handlers);
  void Keep(const char* name, Json arguments);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::string, Json>> kept_;  // guarded by mutex_
  std::optional<Subscriber> subscriber_;  // the last, because it ends first
};

}  // namespace mountd::agent
