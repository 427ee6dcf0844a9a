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
#include "tests/support/cni_world.h"
#include "tests/support/daemon_fds.h"
#include "tests/support/node.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {

// A node of stepped daemons on the real kernel, in private namespaces, with all
// that an operation of the API may need: host volumes "a" and "b", a file
// system "box", the network "default", CNI's "net", a directory of the agent's
// own, and a real CSI plugin, which is registered.
class World : private cni::CniWorld {
 public:
  static constexpr char kPlugin[] = "fault";
  static constexpr char kAllocRoot[] = "/run/host/alloc";

  // `timeouts`: more lines of that part of mountd.toml.
  static Result<std::unique_ptr<World>> Make(const std::string& timeouts = "");
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  StepsControl& steps() { return steps_; }
  // Tells of each lost connection, and does not call again by itself.
  Result<agent::Client> Connect() const {
    return node_->Connect({.reconnect = false});
  }
  // The same as root, an administrator.
  Result<agent::Client> ConnectAsRoot() const {
    return node_->ConnectAs(0, {.reconnect = false});
  }
  std::string Log() const { return node_->Log(); }

  // What the plugin answers each call of that RPC with; "" as it should:
  // csi-fault-plugin's `faults`.
  static void Tell(const std::string& rpc, const std::string& action);
  // Whether the plugin has made that volume, and attached it to that node.
  static bool HasMade(const std::string& volume);
  static bool HasAttached(const std::string& volume, const std::string& node);

  // Everything that could leak: of the kernel, files, the daemons' fds, and
  // rows of the stores.
  struct State {
    Inventory inventory;
    DaemonFds fds;
    std::map<std::string, int> rows;  // "boot.db mounts"
  };
  static State Take();
  // Once nothing goes on its own time any more.
  static State TakeSettled();
  // Waits for what goes on its own time.
  static std::string DifferenceTo(const State& before);

 private:
  World() = default;
  Result<void> Start(const std::string& timeouts);
  Result<void> StartPlugin();

  StepsControl steps_;
  std::unique_ptr<Node> node_;
  Process plugin_;
};

// An agent's client, and the allocation that it works on.
class Agent {
 public:
  // `volume`: of CSI's, which others use too; "" is one of its own.
  Agent(World& world, std::string allocation, std::string volume = "")
      : world_(world),
        allocation_(std::move(allocation)),
        volume_(std::move(volume)) {}

  const std::string& allocation() const { return allocation_; }
  bool shares_volume() const { return !volume_.empty(); }
  std::string volume() const {
    return shares_volume() ? volume_ : "volume-of-" + allocation_;
  }
  // Of one task of the allocation.
  std::string Inbox() const {
    return "/run/mountd/base/a/" + allocation_ + "/app";
  }
  // A new connection, if the last one broke.
  agent::Client& client();
  // The same of root's.
  agent::Client& root();
  // The next call has a new one.
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
    // It may be the connection's end: the next call has a new one.
    if (result.error().code == Code::kUnavailable) {
      Disconnect();
    }
    return std::string(CodeName(result.error().code));
  }
  // The last error's text.
  const std::string& told() const { return told_; }

  // Of the allocation: NotFound, or Ok. Asks again as long as it has to.
  Result<agent::AllocationStatus> Status();
  // What is recorded of the allocation and not there, or there and not
  // recorded, or "".
  std::string Contradiction();
  // What is recorded of the allocation as neither made nor gone, or "".
  std::string HalfDone();
  // Whatever was made of it: then there is neither it, nor a volume of its, nor
  // anything owed. What is wrong, or "".
  std::string Release();

 private:
  World& world_;
  std::string allocation_;
  std::string volume_;
  std::optional<agent::Client> client_;
  std::optional<agent::Client> root_;
  std::string told_;
};

}  // namespace mountd::testing
