// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "agent/client.h"
#include "bench/direct_plugin.h"
#include "tests/csi/process.h"

namespace mountd::bench {

inline constexpr char kHostPath[] = "hostpath";

// csi-driver-host-path twice, behind mountd as the plugin kHostPath and by
// itself, with a volume of each. Ends both in the destructor.
struct HostPathPair {
  testing::Process behind_mountd;
  testing::Process by_itself;
  std::string volume;
  std::unique_ptr<DirectPlugin> direct;
  std::string direct_volume;
};

// Returns when mountd's plugin is healthy. `program` is HostPathProgram()'s;
// the files of both are beneath `directory`, which the function makes. Makes
// the volumes directly, because the controller's calls are not measured.
Result<HostPathPair> StartHostPathPair(agent::Client& client,
                                       const std::string& program,
                                       const std::string& directory);

}  // namespace mountd::bench
