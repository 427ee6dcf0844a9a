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

#include "csi-node/csi_client.h"
#include "csi-node/plugin_status.h"
#include "mountd/base/result.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

struct PluginRegistration {
  std::string host_path;  // of its directory
  std::string mount_dir;  // of the same, as the plugin's task sees it
  std::string endpoint;   // the value of CSI_ENDPOINT
  struct Mount {
    std::string host_path;
    std::string task_path;
    bool read_only = false;
    std::string propagation;
  };
  std::vector<Mount> mounts;  // what its task has to have
};

// Which instances of a plugin are to go.
struct PluginSelection {
  std::optional<std::string> type{};
  std::optional<std::string> allocation{};
  // Although volumes of the plugin are left, which then wait for it.
  bool force = false;
};

class PluginSupervisor;

// The registry: which plugins there are, and for each instance of one a
// supervisor (a thread that connects, probes, fingerprints, and watches the
// connection for hang-up). All instances of a plugin belong to one user, and
// have one directory, with a socket for each.
//
// Thread-safe; calls that register and unregister wait for each other if they
// are of one plugin: they come by the plugin's strand, and by the strands of
// the allocations that are released. `on_change` is called from supervisors and
// from callers, edges only, in their order, and must not call back.
class Plugins {
 public:
  Plugins(const TimeoutsConfig& timeouts, exec::Executor& executor,
          CsiClient& client, store::StateStore& store,
          OnPluginChange on_change);
  ~Plugins();
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  // Takes up supervision of the recorded plugins, without waiting for any.
  Result<void> Recover();

  // Idempotent; AlreadyExists if it is registered otherwise. One that is gone
  // is taken up again.
  Result<PluginRegistration> Register(PluginRecord record);
  // Busy while a volume of it is recorded, if none would be left that serves
  // it. With the last instance the plugin goes. What is unknown is success, and
  // changes nothing.
  Result<void> Unregister(const std::string& id,
                          const PluginSelection& which = {});
  // The instances that were registered for an allocation end with it. Busy if
  // the other instances do not serve the node and an allocation other than this
  // one uses a volume of the plugin, or waits for the plugin to unstage it.
  // Changes nothing.
  Result<void> CheckUnused(const std::string& allocation) const;
  // Unregisters them. Busy while any volume needs one of them.
  Result<void> UnregisterOf(const std::string& allocation);

  std::optional<PluginStatus> Get(const std::string& id) const;
  std::vector<PluginStatus> List() const;

  // The open channel of the newest healthy instance, for one call; Unavailable
  // with the reason if none is, NotFound if the plugin is not registered.
  struct Session {
    ChannelRef channel;
    PluginInstance status;
  };
  Result<Session> Use(const std::string& id) const;  // for the node
  // Until each of its instances has been asked once, well or not: whether it is
  // there is not known before, as right after mountd's start. At most as long
  // as one probe may take.
  void AwaitFirstAttempt(const std::string& id) const;
  Result<Session> UseController(const std::string& id) const;

  // Why it does not run, as far as mountd knows, in place of what is seen at
  // its socket; "": nothing is known.
  void SetObstacle(const std::string& id, const std::string& why);

  // mountd-csi died: every channel is gone.
  void ReconnectAll();

 private:
  using Supervisors = std::vector<std::shared_ptr<PluginSupervisor>>;

  // The instances that a selection names, among those there are.
  struct Selected {
    Supervisors all;
    Supervisors victims;
    bool node_goes = false;
    bool node_stays = false;
    bool all_go() const { return victims.size() == all.size(); }
    // Without the victims no instance serves the node any more.
    bool ends_service() const { return !node_stays && (all_go() || node_goes); }
  };

  struct Plugin {
    PluginRecord record;    // what all instances have
    Supervisors instances;  // the newest first; none: it is gone
    PluginState told = PluginState::kStarting;
    std::string why_gone = "unregistered while volumes of it are left";
    // Connections so far: channels of one plugin never share a number.
    std::shared_ptr<std::atomic<std::uint64_t>> connections =
        std::make_shared<std::atomic<std::uint64_t>>(0);
  };

  Result<void> CheckRegistration(const PluginRecord& record,
                                 const PluginRegistration& made) const;
  // The instance that `record` is of, if it is registered just so.
  Result<std::shared_ptr<PluginSupervisor>> FindSame(
      const PluginRecord& record) const;
  Result<void> Add(PluginRecord record);
  void Supervise(const PluginRecord& record, const Fingerprint& known);
  Result<void> RemoveAll(const std::string& id, const Supervisors& victims);
  Result<void> RemoveSome(const std::string& id, const Supervisors& victims);
  void Forget(const std::string& id, const Supervisors& victims);
  Supervisors InstancesOf(const std::string& id) const;
  Selected Select(const std::string& id, const PluginSelection& which) const;
  // The ids of the plugins that have an instance of the allocation.
  Result<std::set<std::string>> IdsOf(const std::string& allocation) const;
  // Held while a plugin's instances are added or removed.
  std::shared_ptr<std::mutex> ChangingOf(const std::string& id);
  Result<std::uint64_t> CgroupOf(const std::string& allocation) const;
  Result<Session> UseOf(const std::string& id, const char* service,
                        bool (PluginInstance::*serves)() const) const;
  static PluginStatus StatusOfPlugin(const Plugin& plugin);
  // From whoever changed it, after it did.
  void Tell(PluginChange::Kind kind, const PluginInstance& now);
  void TellLocked(PluginChange::Kind kind, const PluginInstance& now);

  const TimeoutsConfig& timeouts_;
  exec::Executor& executor_;
  CsiClient& client_;
  store::StateStore& store_;
  const OnPluginChange on_change_;
  std::mutex telling_;  // before mutex_; held while telling, for the order
  mutable std::mutex mutex_;
  std::map<std::string, Plugin> plugins_;
  // By the plugin's id, while anybody holds it.
  std::map<std::string, std::weak_ptr<std::mutex>> changing_;
};

}  // namespace mountd::csi
