// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "tests/csi/process.h"
#include "tests/fault/shared_steps.h"
#include "tests/support/fakes/cni_world.h"
#include "tests/support/node/daemon_fds.h"
#include "tests/support/node/node.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {

// Owns a node of stepped daemons on the real kernel, in private namespaces,
// with all objects that an operation of the API may need: host volumes "a" and
// "b", a file system "box", the network "default", CNI's "net", a directory of
// the agent's own, and a real CSI plugin, which is registered.
class World : private cni::CniWorld {
 public:
  static constexpr char kPlugin[] = "fault";
  static constexpr char kAllocRoot[] = "/run/host/alloc";

  // Makes the world; `timeouts` is more lines for that section of mountd.toml.
  // mountd probes a healthy plugin every `probe_ready_ms`.
  static Result<std::unique_ptr<World>> Make(const std::string& timeouts = "",
                                             int probe_ready_ms = 50);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  StepsControl& steps() { return steps_; }
  // Connects without automatic calls, so that each lost connection shows.
  Result<agent::Client> Connect() const {
    return node_->Connect({.reconnect = false});
  }
  // Connects in the same way as root, an administrator.
  Result<agent::Client> ConnectAsRoot() const {
    return node_->ConnectAs(0, {.reconnect = false});
  }
  std::string Log() const { return node_->Log(); }

  // Sets what the plugin does in each call of that RPC ("" for its usual
  // answer), by csi-fault-plugin's file `faults`.
  static void Tell(const std::string& rpc, const std::string& action);
  // Returns the plugin's directory with the content of that volume.
  static std::string DataOf(const std::string& volume);
  // True if the plugin has made that volume, or attached it to that node.
  static bool HasMade(const std::string& volume);
  static bool HasAttached(const std::string& volume, const std::string& node);

  // Everything that could leak: kernel objects, files, the daemons' fds, and
  // rows of the stores.
  struct State {
    Inventory inventory;
    DaemonFds fds;
    std::map<std::string, int> rows;  // "boot.db mounts"
  };
  static State Take();
  // Takes the state once it has stopped changing by itself.
  static State TakeSettled();
  // Returns the difference, after waiting for changes that come by themselves.
  static std::string DifferenceTo(const State& before);

 private:
  World() = default;
  Result<void> Start(const std::string& timeouts, int probe_ready_ms);
  Result<void> StartPlugin();

  StepsControl steps_;
  std::unique_ptr<Node> node_;
  Process plugin_;
};

// Owns an agent's clients, and works on one allocation.
class Agent {
 public:
  // `volume` is a CSI volume that others use, too; "" gives the agent its own.
  Agent(World& world, std::string allocation, std::string volume = "")
      : world_(world),
        allocation_(std::move(allocation)),
        volume_(std::move(volume)) {}

  const std::string& allocation() const { return allocation_; }
  bool shares_volume() const { return !volume_.empty(); }
  std::string volume() const {
    return shares_volume() ? volume_ : "volume-of-" + allocation_;
  }
  // Returns the path of the inbox of the allocation's only task.
  std::string Inbox() const {
    return "/run/mountd/base/a/" + allocation_ + "/app";
  }
  // Returns a client, on a new connection if the last one broke.
  agent::Client& client();
  // Returns such a client of root's.
  agent::Client& root();
  // Makes the next call use a new connection.
  void Disconnect() {
    client_.reset();
    root_.reset();
  }
  template <typename T>
  std::string Told(const Result<T>& result) {
    if (result) {
      return "Ok";
    }
    told_ = result.error().Message();
    // The connection may have ended, so the next call gets a new one.
    if (result.error().code == Code::kUnavailable) {
      Disconnect();
    }
    return std::string(CodeName(result.error().code));
  }
  // Returns the text of the last error.
  const std::string& told() const { return told_; }

  // Returns the allocation's status, Ok or NotFound. Repeats the call as long
  // as necessary.
  Result<agent::AllocationStatus> Status();
  // The directory that the agent hands over, because a directory that is opened
  // again after the mount keeps that mount busy.
  UniqueFd& directory() { return directory_; }

  // Returns what is recorded of the allocation and not there, or there and not
  // recorded; or "".
  std::string Contradiction();
  // Returns what is recorded of the allocation as neither made nor gone; or "".
  std::string HalfDone();
  // Releases the allocation in any state. Returns what is left of it or of its
  // volumes, or is pending; or "".
  std::string Release();

 private:
  World& world_;
  std::string allocation_;
  std::string volume_;
  std::optional<agent::Client> client_;
  std::optional<agent::Client> root_;
  std::string told_;
  UniqueFd directory_;
};

}  // namespace mountd::testing
