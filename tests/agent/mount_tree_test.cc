// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/mount_tree.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/golden/golden.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ExpectGolden;
using mountd::test::ExpectGoldenFiles;

MountStatus Mount(const std::string& task, const std::string& name,
                  const std::string& type, const std::string& source,
                  const std::string& propagation, std::uint64_t group,
                  std::uint64_t master, bool read_only = false) {
  MountStatus mount;
  mount.task = task;
  mount.name = name;
  mount.source_type = type;
  mount.source = source;
  mount.state = "attached";
  mount.config.propagation = propagation;
  mount.config.peer_group = group;
  mount.config.master = master;
  mount.config.read_only = read_only;
  mount.config.task_path = "/" + name;
  return mount;
}

std::vector<AllocationStatus> Node() {
  AllocationStatus web;
  web.id = "web";
  web.mounts = {
      Mount("server", "data", "volume", "data", "private", 0, 0),
      Mount("server", "logs", "host", "logs", "host-to-task", 0, 12, true),
      Mount("side", "logs", "host", "logs", "bidirectional", 12, 0)};
  AllocationStatus db;
  db.id = "db";
  db.mounts = {Mount("db", "v", "volume", "data", "host-to-task", 0, 7)};
  AllocationStatus bare;
  bare.id = "bare";
  return {web, db, bare};
}

std::string Drawn(const std::vector<AllocationStatus>& all, Lines lines) {
  std::ostringstream out;
  PrintTree(out, all, lines);
  return out.str();
}

TEST(MountTreeGolden, AllocationsTasksMountsAndGroups) {
  ExpectGolden("mount-tree/utf8.txt", Drawn(Node(), Lines::kUtf8));
}

TEST(MountTreeGolden, InAsciiWhereThatIsAllThereIs) {
  AllocationStatus web = Node()[0];
  web.mounts.resize(2);
  web.mounts[0].name = "\x1b[2J";
  const std::string drawn = Drawn({web}, Lines::kAscii);
  EXPECT_EQ(drawn.find('\x1b'), std::string::npos);
  ExpectGolden("mount-tree/ascii.txt", drawn);
}

TEST(MountTreeGolden, NoFileIsLeftBehind) {
  ExpectGoldenFiles("mount-tree", {"ascii.txt", "utf8.txt"});
}

TEST(MountTreeTest, OfNothingIsEmpty) {
  EXPECT_EQ(Drawn({}, Lines::kUtf8), "");
  EXPECT_TRUE(GroupsOf({}).empty());
}

TEST(MountTreeTest, HasTheSameAsJson) {
  const Json json = TreeToJson(Node());
  EXPECT_EQ(json["allocations"].size(), 3U);
  const Json& task = json["allocations"][0]["tasks"][0];
  EXPECT_EQ(task["name"], "server");
  EXPECT_EQ(task["mounts"][1]["name"], "logs");
  EXPECT_EQ(task["mounts"][1]["master"], 12);
  EXPECT_EQ(json["groups"][1]["id"], 12);
  EXPECT_EQ(json["groups"][1]["peers"][0], "web/side/logs");
  EXPECT_EQ(json["groups"][1]["followers"][0], "web/server/logs");
  EXPECT_EQ(json["groups"][1]["sources"].size(), 1U);
}

}  // namespace
}  // namespace mountd::agent::test
