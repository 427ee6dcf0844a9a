// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/dbus/peers_test.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mountd::test {

std::size_t OpenFds() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

std::size_t ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) >> 20U;
}

}  // namespace mountd::test
