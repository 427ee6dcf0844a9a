// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/private_bus.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace mountd::test {
namespace {

constexpr char kBegin[] = R"(<busconfig>
  <type>system</type><auth>EXTERNAL</auth><listen>)";
constexpr char kEnd[] = R"(</listen>
  <policy context="default">
    <allow user="*"/><allow own="*"/>
    <allow send_destination="*" eavesdrop="false"/><allow receive_sender="*"/>
  </policy>
</busconfig>)";

}  // namespace

PrivateBus::PrivateBus(const std::string& directory)
    : directory_(directory),
      address_("unix:path=" + directory + "/system_bus_socket") {
  std::ofstream(directory_ + "/bus.conf") << kBegin << address_ << kEnd;
  Start();
  ::setenv("DBUS_SYSTEM_BUS_ADDRESS", address_.c_str(), 1);
}

PrivateBus::~PrivateBus() { ::unsetenv("DBUS_SYSTEM_BUS_ADDRESS"); }

void PrivateBus::Stop() { daemon_.reset(); }

void PrivateBus::Start() {
  std::filesystem::remove(directory_ + "/system_bus_socket");
  daemon_ =
      std::make_unique<agent::test::RunningProgram>(std::vector<std::string>{
          "/usr/bin/dbus-daemon", "--config-file=" + directory_ + "/bus.conf",
          "--nofork", "--print-address=1"});
  if (daemon_->ReadLine().empty()) {
    std::abort();
  }
}

}  // namespace mountd::test
