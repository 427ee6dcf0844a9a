// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/mountd_node.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "agent/client.h"
#include "agent/driver/oci/oci_driver.h"
#include "agent/nomad/plugin/mountd_allocations.h"

namespace mountd::nomad {
namespace {

Result<agent::Client> Connect(const Settings& settings) {
  agent::ClientOptions options;
  options.address = settings.address;
  return agent::Client::Connect(std::move(options));
}

// Connections of calls that give way to others while mountd works.
LentClients::Connect ConnectorOf(const Settings& settings) {
  return [address = settings.address](std::chrono::milliseconds patience) {
    agent::ClientOptions options;
    options.address = address;
    options.patience = patience;
    options.join = false;
    return agent::Client::Connect(std::move(options));
  };
}

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
  const auto client = std::make_shared<agent::Client>(std::move(for_driver));
  options.client = client.get();
  Node node;
  node.keeps = client;
  auto allocations = std::make_unique<MountdAllocations>(
      ConnectorOf(settings), &driver::NamesOfRunningTasks);
  driver::OciDriverOptions only_reads = options;
  only_reads.keeps_spare_namespaces = false;
  if (const auto recorded = driver::RecordedTasks(only_reads)) {
    allocations->ReleaseAbandoned(*recorded);
  }
  node.allocations = std::move(allocations);
  MOUNTD_ASSIGN(node.driver, driver::MakeOciDriver(std::move(options)));
  return node;
}

}  // namespace mountd::nomad
