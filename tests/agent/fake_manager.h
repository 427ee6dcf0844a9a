// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/unique_fd.h"

// org.mountd1.Manager without a mountd behind it, served peer-to-peer on a
// socket as mountd serves it: it answers everything with one set of made-up
// values, writes down what it was asked, and fails where a test says so.
namespace mountd::agent::test {

// What the next call of a method meets instead of its answer.
struct Failure {
  std::string error;  // an error's full name; "" with `hang_up`
  std::string message{};
  bool hang_up = false;  // the connection is closed without an answer
};

// Shared by every connection and by the test's thread.
class Script {
 public:
  void Fail(const std::string& method, Failure failure);
  // Answers the method wrong: a result key of another type than the contract's.
  void Garble(const std::string& method);

  // The calls so far, one line each: method, arguments, options.
  std::vector<std::string> calls();
  std::string last_call();
  // How many calls there were of one method.
  std::size_t count(const std::string& method);
  // What the last PublishVolume got as "secrets"; invalid if nothing.
  UniqueFd TakeSecrets();

  // For the fake.
  void Record(const std::string& line);
  bool Next(const std::string& method, Failure& failure);
  bool garbled(const std::string& method);
  void KeepSecrets(UniqueFd fd);

 private:
  std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, std::deque<Failure>> failures_;
  std::map<std::string, bool> garbled_;
  UniqueFd secrets_;
};

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  // Listens, or ends and hangs up on everybody. Started by the constructor.
  void Start();
  void Stop();

  std::string address() const { return "unix:path=" + path_; }
  const std::string& path() const { return path_; }
  Script& script() { return script_; }

  // The signals with fixed values, to every connection that subscribed.
  // False if there is none.
  bool EmitSignals();

 private:
  class Peer;

  void Accept();

  std::string dir_;
  std::string path_;
  Script script_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_;
  bool stopping_ = false;
  UniqueFd listener_;
  std::thread acceptor_;
};

// The same manager as org.mountd1 on the system bus, whichever that is for this
// process ($DBUS_SYSTEM_BUS_ADDRESS).
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
