// SPDX-License-Identifier: LGPL-2.1-or-later
// A node agent's prerun and postrun, in C++, by libmountd-client-dev:
//
//   cpp-agent prerun ALLOCATION | cpp-agent postrun ALLOCATION
#include <iostream>
#include <string_view>

#include "agent/client.h"

using mountd::Result;
namespace agent = mountd::agent;

Result<void> Prerun(agent::Client& client, std::string_view allocation) {
  agent::NetworkSpec spec;
  spec.ports.push_back({.label = "http", .host = 8080, .container = 80});
  const agent::BindMountSpec shared{
      .task = "server",
      .name = "shared",
      .source_type = agent::SourceType::kHostVolume,
      .source = "shared",
      .task_path = "/shared"};

  MOUNTD_TRY(client.PrepareAllocation(allocation, {.scope = "example"}));
  MOUNTD_ASSIGN(auto network, client.SetupNetwork(allocation, spec));
  MOUNTD_ASSIGN(auto mount, client.BindMount(allocation, shared));
  std::cout << "namespace " << network.netns_path << "\nmount "
            << mount.host_path << " " << mount.task_path << "\n";
  return mountd::Ok();
}

Result<void> Postrun(agent::Client& client, std::string_view allocation) {
  MOUNTD_ASSIGN(auto receipt, client.ReleaseAllocation(allocation));
  std::cout << "released, node detached: " << std::boolalpha
            << receipt.node_detached << "\n";
  return mountd::Ok();
}

// The client repeats calls by itself if they take longer than mountd's
// patience, or if the connection is lost.
Result<void> Run(std::string_view verb, std::string_view allocation) {
  MOUNTD_ASSIGN(auto client, agent::Client::Connect());
  return verb == "postrun" ? Postrun(client, allocation)
                           : Prerun(client, allocation);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  const Result<void> done = Run(argv[1], argv[2]);
  if (!done) {
    std::cerr << done.error().Message() << "\n";
  }
  return done ? 0 : 1;
}
