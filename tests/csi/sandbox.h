// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mountd::testing {

// Gives this process a mount namespace of its own with an empty tmpfs at
// `root`, a shared mount (as a plugin's directory is) in a peer group of its
// own. Fails a test that leaves a mount there.
class Sandbox : public ::testing::Test {
 protected:
  // Runs before the first thread starts, because each thread has its own
  // namespace.
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

  static const std::string& root();

 private:
  std::vector<std::string> mounts_before_;
};

// Returns the mount points of this namespace, in order.
std::vector<std::string> MountPoints();
// Returns how many mounts are at `path`.
int MountsAt(const std::string& path);
// Returns the optional fields ("shared:1 master:2") of the top mount at `path`.
std::string PropagationAt(const std::string& path);

}  // namespace mountd::testing
