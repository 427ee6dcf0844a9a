// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/paths.h"

#include <gtest/gtest.h>

namespace mountd {
namespace {

TEST(PathsTest, AtOrBelowComparesComponents) {
  EXPECT_TRUE(paths::IsAtOrBelow("/a", "/a"));
  EXPECT_TRUE(paths::IsAtOrBelow("/a/b", "/a"));
  EXPECT_FALSE(paths::IsAtOrBelow("/ab", "/a"));
  EXPECT_FALSE(paths::IsAtOrBelow("/a", "/a/b"));
}

// A cgroup namespace's or a file system's own root is a path, too.
TEST(PathsTest, EachPathIsAtOrBelowTheRoot) {
  EXPECT_TRUE(paths::IsAtOrBelow("/", "/"));
  EXPECT_TRUE(paths::IsAtOrBelow("/a", "/"));
  EXPECT_TRUE(paths::IsAtOrBelow("/a/b", "/"));
  EXPECT_FALSE(paths::IsAtOrBelow("/", "/a"));
  EXPECT_FALSE(paths::IsAtOrBelow("", "/"));
}

}  // namespace
}  // namespace mountd
