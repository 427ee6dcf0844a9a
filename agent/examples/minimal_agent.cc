// SPDX-License-Identifier: LGPL-2.1-or-later
// An agent's prerun and postrun for one allocation, without any privilege:
//   minimal-agent run | stop
#include <iostream>
#include <string_view>

#include "agent/client.h"

using mountd::Result;
namespace agent = mountd::agent;

Result<void> Prerun(agent::Client& client) {
  agent::NetworkSpec network;
  network.ports.push_back({.label = "http", .host = 8080, .container = 80});
  agent::VolumeSpec volume{
      .alias = "data", .volume = "web-data", .plugin = "csi-local"};
  agent::BindMountSpec mount{
      .task = "server", .name = "data", .source = "data", .task_path = "/data"};

  MOUNTD_TRY(client.PrepareAllocation("web"));
  MOUNTD_ASSIGN(auto net, client.SetupNetwork("web", network));
  MOUNTD_TRY(client.PublishVolume("web", volume));
  MOUNTD_ASSIGN(auto config, client.BindMount("web", mount));
  std::cout << "start the task in " << net.netns_path << ", with "
            << config.host_path << " at " << config.task_path << "\n";
  return mountd::Ok();
}

int main(int argc, char** argv) {
  const bool stop = argc > 1 && std::string_view(argv[1]) == "stop";
  auto client = agent::Client::Connect();
  Result<void> done = mountd::Ok();
  if (!client) {
    done = client.error();
  } else if (!stop) {
    done = Prerun(*client);
  } else if (auto receipt = client->ReleaseAllocation("web"); !receipt) {
    done = receipt.error();
  }
  if (!done) {
    std::cerr << done.error().Message() << "\n";
  }
  return done ? 0 : 1;
}
