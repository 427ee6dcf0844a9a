// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/csi_plugin.h"

#include <chrono>
#include <thread>

namespace mountd::bench {

testing::Process StartCsiLocal(const std::string& socket,
                               const std::string& data) {
  return testing::Process({CSI_LOCAL, "--endpoint", "unix://" + socket,
                           "--data-dir", data, "--node-id", "node-1",
                           "--create-on-stage"});
}

Result<void> AwaitHealthy(agent::Client& client, const std::string& plugin) {
  std::string reason;
  for (int tries = 0; tries < 200; ++tries) {
    MOUNTD_ASSIGN(const agent::PluginStatus status, client.GetPlugin(plugin));
    if (status.state == "healthy") {
      return Ok();
    }
    reason = status.state + ": " + status.reason;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return MakeError(Code::kUnavailable, "await", plugin, reason);
}

Result<testing::Process> HavePlugin(agent::Client& client) {
  MOUNTD_ASSIGN(const agent::PluginRegistration made,
                client.RegisterPlugin({.plugin = "local"}));
  testing::Process plugin =
      StartCsiLocal(made.host_path + "/csi.sock", "/run/bench/data");
  MOUNTD_TRY(AwaitHealthy(client));
  return plugin;
}

}  // namespace mountd::bench
