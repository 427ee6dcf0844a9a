// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/csi/host_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace mountd::testing {

std::string HostPathProgram() {
  if (const char* told = std::getenv("HOSTPATHPLUGIN")) {
    return told;
  }
  const char* const directories = std::getenv("PATH");
  std::istringstream path(directories == nullptr ? "" : directories);
  for (std::string directory; std::getline(path, directory, ':');) {
    std::string file = directory + "/hostpathplugin";
    if (::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

Process StartHostPath(const std::string& program, const std::string& socket,
                      const std::string& data,
                      const std::vector<std::string>& options) {
  std::filesystem::create_directories(data);
  std::vector<std::string> command = {
      program, "--endpoint", "unix://" + socket, "--statedir",
      data,    "--nodeid",   "node-1",           "--v=0"};
  command.insert(command.end(), options.begin(), options.end());
  return Process(command);
}

}  // namespace mountd::testing
