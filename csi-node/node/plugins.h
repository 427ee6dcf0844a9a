// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "csi-node/node/plugin_status.h"
#include "csi-node/types/csi_client.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/plan/plugin_executor.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

struct PluginRegistration {
  std::string host_path;  // of its directory
  std::string mount_dir;  // the same directory as the plugin's task sees it
  std::string endpoint;   // the value of CSI_ENDPOINT
  struct Mount {
    std::string host_path;
    std::string task_path;
    bool read_only = false;
    std::string propagation;
  };
  std::vector<Mount> mounts;  // the mounts that its task needs
};

// Selects the instances of a plugin to unregister.
struct PluginSelection {
  std::optional<std::string> type{};
  std::optional<std::string> allocation{};
  // Unregisters even if volumes of the plugin are left. These volumes then wait
  // until the plugin is registered again.
  bool force = false;
};

class PluginSupervisor;

// The registry of plugins. Owns a supervisor for each instance of a plugin,
// which is a thread that connects, probes, reads the fingerprint, and watches
// the connection for a hang-up. All instances of a plugin belong to one user,
// and share one directory, with a socket for each.
//
// Thread-safe. Calls that register or unregister instances of one plugin wait
// for each other, because they come from the plugin's strand and from the
// strands of allocations that are released. Supervisors and callers call
// `on_change` for each change, in the order of the changes. `on_change` must
// not call back.
class Plugins {
 public:
  Plugins(const TimeoutsConfig& timeouts, exec::PluginExecutor& executor,
          CsiClient& client, store::StateStore& store,
          OnPluginChange on_change);
  ~Plugins();
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  // Starts to supervise the recorded plugins, without waiting for any.
  Result<void> Recover();

  // Idempotent. AlreadyExists if the instance is registered differently.
  // Supervises a plugin in the state "gone" again.
  Result<PluginRegistration> Register(PluginRecord record);
  // Removes the instances that `which` selects, and the plugin with its last
  // instance. Busy if a volume of the plugin is recorded and no remaining
  // instance would serve the volume. Ok, without a change, if nothing matches.
  Result<void> Unregister(const std::string& id,
                          const PluginSelection& which = {});
  // Checks that the instances that were registered for an allocation may end
  // with it. Busy if no other instance serves the node, and another allocation
  // uses a volume of the plugin or waits for the plugin to unstage one. Changes
  // nothing.
  Result<void> CheckUnused(const std::string& allocation) const;
  // Unregisters the instances of the allocation. Busy while any volume needs
  // one of them.
  Result<void> UnregisterOf(const std::string& allocation);

  std::optional<PluginStatus> Get(const std::string& id) const;
  std::vector<PluginStatus> List() const;

  // The open channel of the newest healthy instance, for one call. Use fails
  // with Unavailable and the reason if no instance is healthy, with NotFound if
  // the plugin is not registered.
  struct Session {
    ChannelRef channel;
    PluginInstance status;
  };
  Result<Session> Use(const std::string& id) const;  // for the node
  // Waits until mountd has asked each of the plugin's instances once, with any
  // outcome, at most as long as one probe may take. Right after its start
  // mountd knows nothing about a plugin before that.
  void AwaitFirstAttempt(const std::string& id) const;
  Result<Session> UseController(const std::string& id) const;

  // Sets why the plugin does not run, as far as mountd knows; the reason
  // replaces the one seen at its socket. "": mountd knows nothing.
  void SetObstacle(const std::string& id, const std::string& why);

  // Asks the plugin's instances for their NodeInfo soon, because the plugin has
  // refused a volume, as its limit is reached.
  void DoubtNodeInfo(const std::string& id) const;

  // Reconnects all instances, because mountd-csi died and every channel is
  // lost.
  void ReconnectAll();

 private:
  using Supervisors = std::vector<std::shared_ptr<PluginSupervisor>>;

  // The instances that a selection names, and all instances of the plugin.
  struct Selected {
    Supervisors all;
    Supervisors victims;
    bool node_goes = false;
    bool node_stays = false;
    bool all_go() const { return victims.size() == all.size(); }
    // True if no remaining instance serves the node.
    bool ends_service() const { return !node_stays && (all_go() || node_goes); }
  };

  struct Plugin {
    PluginRecord record;    // the part that all instances share
    Supervisors instances;  // the newest first; none: the plugin is gone
    PluginState told = PluginState::kStarting;
    std::string why_gone = "unregistered while volumes of it are left";
    std::vector<std::string> removed_node_ids;  // PluginStatus
    // The number of connections so far. All instances use it, so that two
    // channels of one plugin never share a generation.
    std::shared_ptr<std::atomic<std::uint64_t>> connections =
        std::make_shared<std::atomic<std::uint64_t>>(0);
  };

  Result<void> CheckRegistration(const PluginRecord& record,
                                 const PluginRegistration& made) const;
  // Returns the instance that `record` describes, if it is registered with the
  // same values.
  Result<std::shared_ptr<PluginSupervisor>> FindSame(
      const PluginRecord& record) const;
  Result<void> Add(PluginRecord record);
  void Supervise(const PluginRecord& record, const Fingerprint& known = {},
                 const std::vector<std::string>& former_node_ids = {});
  Result<void> RemoveAll(const std::string& id, const Supervisors& victims);
  Result<void> RemoveSome(const std::string& id, const Supervisors& victims);
  void Forget(const std::string& id, const Supervisors& victims);
  // Remembers the node ids that the instance has said, because they are needed
  // after the instance is removed.
  Result<void> KeepNodeIds(const std::string& id,
                           const PluginInstance& instance);
  Supervisors InstancesOf(const std::string& id) const;
  Selected Select(const std::string& id, const PluginSelection& which) const;
  // Returns the ids of the plugins that have an instance of the allocation.
  Result<std::set<std::string>> IdsOf(const std::string& allocation) const;
  // Returns the mutex that is held while a plugin's instances are added or
  // removed.
  std::shared_ptr<std::mutex> ChangingOf(const std::string& id);
  Result<std::uint64_t> CgroupOf(const std::string& allocation) const;
  Result<Session> UseOf(const std::string& id, const char* service,
                        bool (PluginInstance::*serves)() const) const;
  static PluginStatus StatusOfPlugin(const Plugin& plugin);
  // Reports a change. The caller has made the change already.
  void Tell(const PluginChange& change);
  void TellLocked(const PluginChange& change);

  const TimeoutsConfig& timeouts_;
  exec::PluginExecutor& executor_;
  CsiClient& client_;
  store::StateStore& store_;
  const OnPluginChange on_change_;
  // Locked before mutex_; held during on_change, for the order.
  std::mutex telling_;
  mutable std::mutex mutex_;
  std::map<std::string, Plugin> plugins_;
  // By plugin id. The mutex lives while anybody holds it.
  std::map<std::string, std::weak_ptr<std::mutex>> changing_;
};

}  // namespace mountd::csi
