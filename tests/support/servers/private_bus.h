// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "mountd/base/unique_fd.h"
#include "tests/support/program.h"

namespace mountd::test {

// Owns a dbus-daemon that is the system bus for this process
// ($DBUS_SYSTEM_BUS_ADDRESS) while this object lives. Its policy permits
// everything to everybody, because mountd decides what each caller may do.
class PrivateBus {
 public:
  // Keeps its socket and configuration in `directory`, which must exist.
  explicit PrivateBus(const std::string& directory);
  ~PrivateBus();
  PrivateBus(const PrivateBus&) = delete;
  PrivateBus& operator=(const PrivateBus&) = delete;

  const std::string& address() const { return address_; }

  // Kill the daemon, and start it at the same address.
  void Stop();
  void Start();
  // Starts in the daemon's place a listener that never answers, until Stop.
  void StartMute();
  // True if a client connects to the mute listener in time.
  bool AwaitConnection();

 private:
  const std::string directory_;
  const std::string address_;
  std::unique_ptr<RunningProgram> daemon_;
  UniqueFd mute_;
};

}  // namespace mountd::test
