// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "mountd/base/unique_fd.h"
#include "tests/support/program.h"

namespace mountd::test {

// A dbus-daemon of a test's own, which is the system bus for this process while
// it lives ($DBUS_SYSTEM_BUS_ADDRESS). Everybody may do everything on it: who
// may what is mountd's to decide.
class PrivateBus {
 public:
  // Its socket and configuration are in `directory`, which exists.
  explicit PrivateBus(const std::string& directory);
  ~PrivateBus();
  PrivateBus(const PrivateBus&) = delete;
  PrivateBus& operator=(const PrivateBus&) = delete;

  const std::string& address() const { return address_; }

  // Killed, and started at the same address.
  void Stop();
  void Start();
  // In its place, something that listens and never answers, until Stop.
  void StartMute();
  // Whether somebody connects to that.
  bool AwaitConnection();

 private:
  const std::string directory_;
  const std::string address_;
  std::unique_ptr<RunningProgram> daemon_;
  UniqueFd mute_;
};

}  // namespace mountd::test
