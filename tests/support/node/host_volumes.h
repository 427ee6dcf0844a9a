// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/types.h"

namespace mountd::testing {

// Makes the directories /run/host/a and /run/host/b of the host volumes "a" and
// "b". A file "version" in each names its volume.
inline void MakeHostVolumes() {
  for (const char* name : {"a", "b"}) {
    const std::string path = std::string("/run/host/") + name;
    std::filesystem::create_directories(path);
    std::ofstream(path + "/version") << name;
  }
}

// Returns the host volume that shows at `path`; "" if none does.
inline std::string VolumeShownAt(const std::string& path) {
  std::string text;
  std::ifstream(path + "/version") >> text;
  return text;
}

// Returns a bind mount of a host volume for the task "app".
inline agent::BindMountSpec HostVolumeSpec(const std::string& name,
                                           const std::string& source) {
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = name;
  spec.source_type = agent::SourceType::kHostVolume;
  spec.source = source;
  return spec;
}

}  // namespace mountd::testing
