// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/csi/sandbox.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mountd::testing {
namespace {

bool entered = false;

}  // namespace

const std::string& Sandbox::root() {
  static const std::string kRoot =
      "/run/csi-test-" + std::to_string(::getpid());
  return kRoot;
}

void Sandbox::SetUpTestSuite() {
  if (!entered && ::unshare(CLONE_NEWNS) == 0 &&
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
    // The tmpfs hides everything from outside, even the directory.
    entered = ::mount("tmpfs", "/run", "tmpfs", 0, nullptr) == 0;
  }
}

void Sandbox::SetUp() {
  if (!entered) {
    GTEST_SKIP() << "no right to make a mount namespace";
  }
  mounts_before_ = MountPoints();
  ASSERT_EQ(0, ::mkdir(root().c_str(), 0755));
  // csi-local gives no more than is free. Images are sparse, so the tmpfs may be
  // larger than a small machine's memory.
  ASSERT_EQ(0, ::mount("tmpfs", root().c_str(), "tmpfs", 0, "size=8g"));
  ASSERT_EQ(0, ::mount(nullptr, root().c_str(), nullptr, MS_SHARED, nullptr));
}

void Sandbox::TearDown() {
  if (!entered) {
    return;
  }
  std::vector<std::string> expected = mounts_before_;
  expected.push_back(root());
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> mounts = MountPoints();
  EXPECT_EQ(expected, mounts) << "the test left mounts";
  std::reverse(mounts.begin(), mounts.end());
  for (const std::string& mount : mounts) {
    if (mount.compare(0, root().size(), root()) == 0) {
      ::umount2(mount.c_str(), MNT_DETACH);
    }
  }
  EXPECT_EQ(0, ::rmdir(root().c_str()));
}

std::vector<std::string> MountPoints() {
  std::vector<std::string> points;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped;
    std::string point;
    fields >> skipped >> skipped >> skipped >> skipped >> point;
    points.push_back(point);
  }
  std::sort(points.begin(), points.end());
  return points;
}

int MountsAt(const std::string& path) {
  const std::vector<std::string> points = MountPoints();
  return static_cast<int>(std::count(points.begin(), points.end(), path));
}

std::string PropagationAt(const std::string& path) {
  std::string result = "not mounted";
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string field;
    std::string point;
    fields >> field >> field >> field >> field >> point >> field;
    if (point != path) {
      continue;
    }
    result.clear();
    while (fields >> field && field != "-") {
      result += (result.empty() ? "" : " ") + field;
    }
  }
  return result;
}

}  // namespace mountd::testing
