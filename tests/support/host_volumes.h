// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/types.h"

namespace mountd::testing {

// The directories /run/host/a and /run/host/b, for the host volumes "a" and
// "b". In each is a file "version" that says which one it is.
inline void MakeHostVolumes() {
  for (const char* name : {"a", "b"}) {
    const std::string path = std::string("/run/host/") + name;
    std::filesystem::create_directories(path);
    std::ofstream(path + "/version") << name;
  }
}

// Which of them shows at `path`; "" if none does.
inline std::string VolumeShownAt(const std::string& path) {
  std::string text;
  std::ifstream(path + "/version") >> text;
  return text;
}

// A bind mount of one of them, for the task "app".
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
