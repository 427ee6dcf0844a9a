// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/mountd_node.h"

#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "agent/client.h"
#include "agent/driver/oci/oci_driver.h"

namespace mountd::nomad {
namespace {

// The scope of this plugin's allocations.
constexpr char kScope[] = "nomad";

Result<agent::Client> Connect(const Settings& settings) {
  agent::ClientOptions options;
  options.address = settings.address;
  return agent::Client::Connect(std::move(options));
}

Result<void> OkIfGone(Error error) {
  return error.code == Code::kNotFound ? Ok() : Result<void>(std::move(error));
}

class MountdAllocations final : public Allocations {
 public:
  explicit MountdAllocations(agent::Client client)
      : client_(std::move(client)) {}

  Result<void> Prepare(const std::string& allocation) override {
    const std::lock_guard lock(mutex_);
    // mountd-cni and a CSI plugin of this user may have prepared it.
    const auto before = client_.GetAllocation(allocation);
    if (before || before.error().code != Code::kNotFound) {
      return before ? Ok() : Result<void>(before.error());
    }
    agent::AllocationOptions options;
    options.scope = kScope;
    MOUNTD_TRY(client_.PrepareAllocation(allocation, options));
    return Ok();
  }

  Result<void> ReleaseIfBare(const std::string& allocation) override {
    const std::lock_guard lock(mutex_);
    const auto found = client_.GetAllocation(allocation);
    if (!found) {
      return OkIfGone(found.error());
    }
    if (!found->volumes.empty() || !found->mounts.empty()) {
      return Ok();
    }
    const auto receipt = client_.ReleaseAllocation(allocation);
    // Nomad makes a broken network once more under tasks that run.
    if (!receipt && receipt.error().code == Code::kBusy) {
      return Ok();
    }
    return receipt ? Ok() : OkIfGone(receipt.error());
  }

 private:
  std::mutex mutex_;
  agent::Client client_;
};

// The directory above the tasks' one, which the driver expects.
Result<void> MakeParent(const std::string& state) {
  std::error_code failed;
  std::filesystem::create_directories(
      std::filesystem::path(state).parent_path(), failed);
  return failed ? Result<void>(ErrnoError(failed.value(), "mkdir", state))
                : Ok();
}

}  // namespace

Result<Node> MakeMountdNode(const Settings& settings) {
  driver::OciDriverOptions options;
  MOUNTD_ASSIGN(options.state, StateOf(settings));
  MOUNTD_TRY(MakeParent(options.state));
  if (!settings.runtime.empty()) {
    options.runtime = settings.runtime;
  }
  options.shim = settings.shim;
  options.cgroup = settings.cgroup;
  options.keeps_spare_namespaces = true;
  // The driver lets nobody else use its connection.
  MOUNTD_ASSIGN(agent::Client for_driver, Connect(settings));
  MOUNTD_ASSIGN(agent::Client for_allocations, Connect(settings));
  const auto client = std::make_shared<agent::Client>(std::move(for_driver));
  options.client = client.get();
  Node node;
  node.keeps = client;
  node.allocations =
      std::make_unique<MountdAllocations>(std::move(for_allocations));
  MOUNTD_ASSIGN(node.driver, driver::MakeOciDriver(std::move(options)));
  return node;
}

}  // namespace mountd::nomad
