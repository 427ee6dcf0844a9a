// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/host_path.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "bench/programs.h"

namespace mountd::bench {

std::string HostPathProgram() {
  if (const char* told = std::getenv("HOSTPATHPLUGIN")) {
    return told;
  }
  const char* const directories = std::getenv("PATH");
  std::istringstream path(directories == nullptr ? "" : directories);
  for (std::string directory; std::getline(path, directory, ':');) {
    std::string file = directory + "/hostpathplugin";
    if (IsProgram(file)) {
      return file;
    }
  }
  return "";
}

testing::Process StartHostPath(const std::string& program,
                               const std::string& socket,
                               const std::string& data) {
  std::filesystem::create_directories(data);
  return testing::Process({program, "--endpoint", "unix://" + socket,
                           "--statedir", data, "--nodeid", "node-1", "--v=0"});
}

}  // namespace mountd::bench
