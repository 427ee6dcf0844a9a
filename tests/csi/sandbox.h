// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mountd::testing {

// A mount namespace of this process's own with an empty tmpfs at `root`, which
// is a shared mount (as a plugin's directory is) in a peer group of its own.
// What a test leaves mounted there fails it.
class Sandbox : public ::testing::Test {
 protected:
  // Before the first thread: a namespace is a thread's own.
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

  static const std::string& root();

 private:
  std::vector<std::string> mounts_before_;
};

// The mount points of this namespace, in order.
std::vector<std::string> MountPoints();
// How often `path` is a mount point.
int MountsAt(const std::string& path);
// The optional fields ("shared:1 master:2") of the top mount at `path`.
std::string PropagationAt(const std::string& path);

}  // namespace mountd::testing
