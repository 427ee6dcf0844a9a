// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/servers/private_bus.h"

#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/fakes/call_script.h"
#include "tests/support/unix_socket.h"

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

void PrivateBus::Stop() {
  daemon_.reset();
  mute_.reset();
}

void PrivateBus::StartMute() {
  mute_ = ListenAt(directory_ + "/system_bus_socket");
}

bool PrivateBus::AwaitConnection() {
  pollfd entry{mute_.get(), POLLIN, 0};
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(kTestPatience);
  return ::poll(&entry, 1, static_cast<int>(patience.count())) > 0;
}

void PrivateBus::Start() {
  std::filesystem::remove(directory_ + "/system_bus_socket");
  daemon_ = std::make_unique<RunningProgram>(std::vector<std::string>{
      "/usr/bin/dbus-daemon", "--config-file=" + directory_ + "/bus.conf",
      "--nofork", "--print-address=1"});
  if (daemon_->ReadLine().empty()) {
    std::abort();
  }
}

}  // namespace mountd::test
