// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "tests/agent/script.h"
#include "tests/support/temp_directory.h"

// org.mountd1.Manager without a mountd, served peer-to-peer on a socket as
// mountd serves it. The fake answers every call with one set of made-up values,
// records the calls, and fails where a test says so.
namespace mountd::agent::test {

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  // Start listens; Stop ends that, and hangs up on all clients. The constructor
  // calls Start.
  void Start();
  void Stop();

  std::string address() const { return "unix:path=" + path_; }
  const std::string& path() const { return path_; }
  Script& script() { return script_; }

  // Sends the signals with fixed values to every connection that has
  // subscribed. False if there is none.
  bool EmitSignals();
  // Sends the end of a traced operation to the same connections.
  bool EmitSpans();

 private:
  class Peer;

  void Accept();

  TempDirectory directory_;
  std::string path_ = directory_.File("bus");
  Script script_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_;
  bool stopping_ = false;
  UniqueFd listener_;
  std::thread acceptor_;
};

// Serves the same manager as org.mountd1 on this process's system bus
// ($DBUS_SYSTEM_BUS_ADDRESS).
class FakeBusService {
 public:
  FakeBusService();
  ~FakeBusService();
  FakeBusService(const FakeBusService&) = delete;
  FakeBusService& operator=(const FakeBusService&) = delete;

  Script& script() { return script_; }
  void EmitSignals();

 private:
  class Impl;

  Script script_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mountd::agent::test
