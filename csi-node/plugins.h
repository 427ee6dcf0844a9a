// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi_client.h"
#include "mountd/base/result.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

// starting --ready--> healthy --probe failed, hung up--> unhealthy --ready-->
// healthy; unregistered: gone. "Starting" is not "unhealthy": a plugin that was
// never ready has lost nothing.
enum class PluginState { kStarting, kHealthy, kUnhealthy, kGone };

std::string_view PluginStateName(PluginState state);

// Everything known of one instance of a plugin. The fingerprint (info to node)
// is the plugin's word, checked for size and UTF-8 only.
struct PluginInstance {
  PluginRecord record;
  PluginState state = PluginState::kStarting;
  std::string reason;
  std::uint64_t generation = 0;  // connections so far
  PluginInfo info;
  PluginCapabilities capabilities;
  NodeInfo node;

  bool stages() const;  // NodeServiceCapability STAGE_UNSTAGE_VOLUME
};

// A plugin: itself the instance that node calls go to, and all there are.
struct PluginStatus : PluginInstance {
  std::vector<PluginInstance> instances;  // the newest first
};

struct PluginRegistration {
  std::string host_path;  // of its directory
  std::string mount_dir;  // of the same, as the plugin's task sees it
  std::string endpoint;   // the value of CSI_ENDPOINT
};

// The plugins' paths as they see them.
std::string PluginViewPath(const PluginRecord& record,
                           const std::string& relative);
std::string PluginHostPath(const std::string& plugin);

class PluginSupervisor;

// The registry: which plugins there are, and one supervisor for each (a thread
// that connects, probes, fingerprints, and watches the connection for hang-up).
//
// Thread-safe. `on_change` is called from supervisors, on edges only.
class Plugins {
 public:
  using OnChange = std::function<void(const PluginInstance&)>;

  Plugins(const TimeoutsConfig& timeouts, exec::Executor& executor,
          CsiClient& client, store::StateStore& store, OnChange on_change);
  ~Plugins();

  // Takes up supervision of the recorded plugins, without waiting for any.
  Result<void> Recover();

  // Idempotent; AlreadyExists if it is registered otherwise.
  Result<PluginRegistration> Register(const PluginRecord& record);
  // Busy while a volume of it is recorded. Unknown is success.
  Result<void> Unregister(const std::string& id);

  std::optional<PluginStatus> Get(const std::string& id) const;
  std::vector<PluginStatus> List() const;

  // A healthy plugin's open channel, for one call; Unavailable with the reason
  // otherwise, NotFound if it is not registered.
  struct Session {
    ChannelRef channel;
    PluginInstance status;
  };
  Result<Session> Use(const std::string& id) const;

  // mountd-csi died: every channel is gone.
  void ReconnectAll();

 private:
  void Supervise(const PluginRecord& record);
  std::shared_ptr<PluginSupervisor> Find(const std::string& id) const;

  const TimeoutsConfig& timeouts_;
  exec::Executor& executor_;
  CsiClient& client_;
  store::StateStore& store_;
  const OnChange on_change_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PluginSupervisor>> supervisors_;
};

}  // namespace mountd::csi
