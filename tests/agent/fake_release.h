// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {

// Serves org.mountd1.Manager of the release 0.1.0 on a socket, by the adaptor
// that sdbus-c++ generates from dbus/released/0.1.0. Answers with made-up
// values of the keys that the release had. Refuses an option that the release
// did not have with InvalidArgument, as that mountd did. sd-bus answers calls
// of newer methods with UnknownMethod.
class FakeRelease {
 public:
  FakeRelease();
  ~FakeRelease();
  FakeRelease(const FakeRelease&) = delete;
  FakeRelease& operator=(const FakeRelease&) = delete;

  std::string address() const { return "unix:path=" + path_; }

  // Sends each signal of the release to every connection that has subscribed.
  // False if there is none.
  bool EmitSignals();

 private:
  class Peer;

  void Accept();

  TempDirectory directory_;
  const std::string path_ = directory_.File("bus");
  UniqueFd listener_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_;  // guarded by mutex_
  std::thread acceptor_;
};

}  // namespace mountd::agent::test
