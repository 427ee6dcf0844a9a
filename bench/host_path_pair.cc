// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/host_path_pair.h"

#include <filesystem>

#include "bench/csi_plugin.h"
#include "tests/csi/host_path.h"

namespace mountd::bench {

Result<HostPathPair> StartHostPathPair(agent::Client& client,
                                       const std::string& program,
                                       const std::string& directory) {
  std::filesystem::create_directories(directory);
  MOUNTD_ASSIGN(const agent::PluginRegistration made,
                client.RegisterPlugin({.plugin = kHostPath}));
  const std::string ours = made.host_path + "/csi.sock";
  const std::string others = directory + "/csi.sock";
  HostPathPair pair;
  pair.behind_mountd =
      testing::StartHostPath(program, ours, directory + "/data-of-mountd");
  pair.by_itself = testing::StartHostPath(program, others, directory + "/data");
  MOUNTD_TRY(AwaitHealthy(client, kHostPath));
  MOUNTD_ASSIGN(pair.volume,
                DirectPlugin(ours, directory + "/unused").CreateVolume("v"));
  pair.direct = std::make_unique<DirectPlugin>(others, directory);
  MOUNTD_ASSIGN(pair.direct_volume, pair.direct->CreateVolume("v"));
  return pair;
}

}  // namespace mountd::bench
