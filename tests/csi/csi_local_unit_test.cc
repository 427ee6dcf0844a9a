// SPDX-License-Identifier: LGPL-2.1-or-later
//
// csi-local's decisions before it touches anything.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <set>

#include "csi-node/csi-local/loop_numbers.h"
#include "csi-node/csi-local/mount_table.h"
#include "csi-node/csi-local/topology.h"
#include "csi-node/csi-local/volume_request.h"
#include "tests/support/temp_directory.h"

namespace mountd::csi_local {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST(MountTable, ReadsALineAsTheKernelWritesIt) {
  const auto entry = ParseMountEntry(
      "36 35 7:12 /sub /mnt/a\\040b\\134 rw,noatime master:1 shared:2 - ext4 "
      "/dev/loop12 rw,errors=remount-ro,emergency_ro");
  ASSERT_TRUE(entry);
  EXPECT_EQ(36U, entry->id);
  EXPECT_EQ(makedev(7, 12), entry->device);
  EXPECT_EQ("/sub", entry->root);
  EXPECT_EQ("/mnt/a b\\", entry->point);
  EXPECT_EQ("ext4", entry->fs_type);
  EXPECT_EQ("/dev/loop12", entry->source);
  EXPECT_TRUE(entry->HasSuperOption("emergency_ro"));
  EXPECT_FALSE(entry->HasSuperOption("ro"));
}

TEST(MountTable, RefusesWhatIsNoLine) {
  for (const char* line : {"", "x", "36 35 7 /", "36 35 7:1 / /mnt rw",
                           "36 35 7:1 / /mnt rw shared:1 -"}) {
    EXPECT_FALSE(ParseMountEntry(line)) << line;
  }
}

TEST(MountTable, ReadsItsOwn) {
  const auto table = ReadMountTable();
  ASSERT_TRUE(table);
  EXPECT_FALSE(table->empty());
}

TEST(Sizes, AreWithinTheRange) {
  EXPECT_EQ(10 * kMiB, *ChooseSize({10 * kMiB, 0}, kMiB, 64 * kMiB));
  EXPECT_EQ(64 * kMiB, *ChooseSize({}, kMiB, 64 * kMiB));
  EXPECT_EQ(8 * kMiB, *ChooseSize({0, 8 * kMiB + 5}, kMiB, 64 * kMiB));
  EXPECT_EQ(16 * kMiB, *ChooseSize({kMiB, 32 * kMiB}, 16 * kMiB, 64 * kMiB));
  EXPECT_EQ(kMiB + 4096, *ChooseSize({kMiB + 1, 0}, 0, 0));
  EXPECT_EQ(0, *ChooseSize({}, 0, 0));
}

TEST(Sizes, OutsideOfItAreRefused) {
  for (const CapacityRange& range :
       {CapacityRange{1LL << 50, 0}, CapacityRange{INT64_MAX, 0},
        CapacityRange{0, 4 * kMiB}, CapacityRange{kMiB + 1, kMiB + 2}}) {
    const auto size =
        ChooseSize(range, range.required > kMiB ? 0 : 8 * kMiB, 0);
    ASSERT_FALSE(size) << range.required;
    EXPECT_EQ(ERANGE, size.error().sys_errno) << range.required;
  }
  for (const CapacityRange& range :
       {CapacityRange{-1, 0}, CapacityRange{0, -1}, CapacityRange{2, 1}}) {
    const auto size = ChooseSize(range, 0, 0);
    ASSERT_FALSE(size);
    EXPECT_EQ(Code::kInvalidArgument, size.error().code);
  }
}

TEST(Contents, FollowFromTheAccess) {
  VolumeRequest spec;
  spec.mount = true;
  EXPECT_EQ(DIRECTORY, ResolveContent(spec, nullptr)->kind());
  spec.fs_type = "xfs";
  EXPECT_EQ("xfs", ResolveContent(spec, nullptr)->fs_type());
  spec = VolumeRequest();
  spec.block = true;
  EXPECT_EQ(IMAGE, ResolveContent(spec, nullptr)->kind());
  EXPECT_EQ("", ResolveContent(spec, nullptr)->fs_type());
  EXPECT_EQ(ACCESS_BLOCK, ResolveContent(spec, nullptr)->access());
  spec = VolumeRequest();
  spec.mount = true;
  spec.kind = IMAGE;
  EXPECT_EQ("ext4", ResolveContent(spec, nullptr)->fs_type());
  EXPECT_EQ(ACCESS_MOUNT, ResolveContent(spec, nullptr)->access());
  // A volume cannot be for both kinds of access.
  spec.block = true;
  EXPECT_FALSE(ResolveContent(spec, nullptr));
  spec.mount = false;
  spec.kind = TMPFS;
  EXPECT_FALSE(ResolveContent(spec, nullptr));
}

TEST(Contents, OfACopyAreItsSources) {
  Content source;
  source.set_kind(IMAGE);
  source.set_fs_type("xfs");
  source.set_access(ACCESS_MOUNT);
  source.set_capacity_bytes(512 * kMiB);
  VolumeRequest spec;
  spec.mount = true;
  const auto same = ResolveContent(spec, &source);
  ASSERT_TRUE(same);
  EXPECT_EQ("xfs", same->fs_type());
  EXPECT_LE(512 * kMiB, same->capacity_bytes());
  spec.range.limit = 256 * kMiB;
  EXPECT_EQ(ERANGE, ResolveContent(spec, &source).error().sys_errno);
  spec.range = {};
  spec.fs_type = "ext4";
  EXPECT_FALSE(ResolveContent(spec, &source));
  spec.fs_type = "";
  spec.kind = DIRECTORY;
  EXPECT_FALSE(ResolveContent(spec, &source));
}

TEST(Contents, OfACopyNeverChangeTheirAccess) {
  Content source;
  source.set_kind(IMAGE);
  source.set_access(ACCESS_BLOCK);
  source.set_capacity_bytes(8 * kMiB);
  VolumeRequest spec;
  spec.mount = true;
  EXPECT_FALSE(ResolveContent(spec, &source));
  spec.mount = false;
  spec.block = true;
  EXPECT_EQ(ACCESS_BLOCK, ResolveContent(spec, &source)->access());
  source.set_fs_type("ext4");
  source.set_access(ACCESS_MOUNT);
  EXPECT_FALSE(ResolveContent(spec, &source));
}

TEST(LoopNumbers, AreNotGivenOutTwice) {
  const TempDirectory directory;
  std::set<int> taken;
  for (int restart = 0; restart < 3; ++restart) {
    LoopNumbers numbers(
        UniqueFd(::open(directory.File("").c_str(), O_RDONLY | O_DIRECTORY)));
    for (int i = 0; i < 100; ++i) {
      const auto number = numbers.Take();
      ASSERT_TRUE(number);
      EXPECT_LE(kFirstLoopNumber, *number);
      EXPECT_GT(kEndLoopNumber, *number);
      EXPECT_TRUE(taken.insert(*number).second) << *number;
    }
  }
}

TEST(LoopNumbers, BeginAgainAtTheEnd) {
  const TempDirectory directory;
  for (const int next : {kEndLoopNumber - 1, kEndLoopNumber - 64, 3, -1}) {
    std::ofstream(directory.File("loop-numbers")) << next;
    LoopNumbers numbers(
        UniqueFd(::open(directory.File("").c_str(), O_RDONLY | O_DIRECTORY)));
    for (int i = 0; i < 130; ++i) {
      const auto number = numbers.Take();
      ASSERT_TRUE(number) << next;
      EXPECT_LE(kFirstLoopNumber, *number) << next;
      EXPECT_GT(kEndLoopNumber, *number) << next;
    }
  }
}

TEST(Topology, IsTheNodesOwn) {
  const auto here = TopologyOf("node-1");
  EXPECT_EQ("node-1", here.segments().at(kTopologyKey));
  ::csi::v1::TopologyRequirement requirement;
  EXPECT_TRUE(IsHere(requirement, here));
  *requirement.add_requisite() = TopologyOf("node-2");
  EXPECT_FALSE(IsHere(requirement, here));
  *requirement.add_requisite() = here;
  EXPECT_TRUE(IsHere(requirement, here));
  // An id that is no valid value is hashed to a valid one.
  const std::string hashed =
      TopologyOf("node/" + std::string(100, 'x')).segments().at(kTopologyKey);
  EXPECT_LE(hashed.size(), 63U);
  EXPECT_EQ(std::string::npos, hashed.find('/'));
}

}  // namespace
}  // namespace mountd::csi_local
