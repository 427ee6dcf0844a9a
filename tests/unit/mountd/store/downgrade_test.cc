// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The way back to the last release. The stores of schemas/ are those that its
// mountd made.
#include "mountd/store/downgrade.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::store {
namespace {

struct CloseStore {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using OpenedStore = std::unique_ptr<sqlite3, CloseStore>;

std::string FixtureOf(const std::string& kind, std::size_t schema) {
  std::ifstream file(std::string(SCHEMAS_DIR) + "/" + kind + "_" +
                     std::to_string(schema) + ".sql");
  EXPECT_TRUE(file) << kind << schema;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void RunOn(const std::string& path, const std::string& sql) {
  sqlite3* raw = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  const OpenedStore store(raw);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
      << (error == nullptr ? "" : error) << ": " << sql;
}

// Returns all that the statement selects: columns apart by "|", rows by lines.
std::string SelectedFrom(sqlite3* raw, const std::string& sql) {
  std::string text;
  const auto each = [](void* to, int count, char** values, char**) {
    auto& all = *static_cast<std::string*>(to);
    for (int i = 0; i < count; ++i) {
      all.append(values[i] == nullptr ? "NULL" : values[i]).append("|");
    }
    all += "\n";
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), each, &text, nullptr), SQLITE_OK)
      << sql;
  return text;
}

// Returns the version and the statements of the schema.
std::string SchemaIn(const std::string& path) {
  sqlite3* raw = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  const OpenedStore store(raw);
  return SelectedFrom(raw, "PRAGMA user_version") +
         SelectedFrom(raw, "SELECT name, sql FROM sqlite_schema ORDER BY name");
}

// Returns the schema and all rows of all tables.
std::string DumpOf(const std::string& path) {
  std::string text = SchemaIn(path);
  sqlite3* raw = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  const OpenedStore store(raw);
  std::istringstream tables(SelectedFrom(
      raw, "SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name"));
  for (std::string table; std::getline(tables, table, '|');
       tables.ignore(1, '\n')) {
    text += table + ":\n" +
            SelectedFrom(raw, "SELECT * FROM " + table + " ORDER BY 1, 2");
  }
  return text;
}

// One of the two stores.
struct StoreKind {
  const char* name;
  const ReleasedSchema& released;
  // Opens the store as mountd does, which brings it to the newest schema.
  std::string (*open)(const std::string& path);
};
const std::map<std::string, StoreKind>& Kinds() {
  static const std::map<std::string, StoreKind> all = {
      {"boot",
       {"boot", kReleasedBoot,
        [](const std::string& path) {
          return MessageOf(BootStore::Open(path));
        }}},
      {"state",
       {"state", kReleasedState,
        [](const std::string& path) {
          return MessageOf(StateStore::Open(path, "boot 1"));
        }}},
  };
  return all;
}

class DowngradeTest : public ::testing::TestWithParam<const char*> {
 protected:
  const StoreKind& kind() const { return Kinds().at(GetParam()); }
  std::size_t schema() const { return kind().released.schema; }

  // Makes a store as the mountd of the last release left it. The start of a
  // mountd forgets that a removal of a plugin was cut off.
  void MakeReleased(const std::string& path) {
    RunOn(path, FixtureOf(kind().name, schema()));
    if (std::string(kind().name) == "state") {
      RunOn(path, "UPDATE plugins SET removing=0");
    }
  }

  Result<DowngradedStore> Downgraded() {
    MOUNTD_ASSIGN(Downgrade store, Downgrade::Take(path_, kind().released));
    return store.Run();
  }

  TempDirectory directory_;
  const std::string path_ = directory_.File("store.db");
  const std::string expected_ = directory_.File("expected.db");
};

// Fails if somebody has added a step to a schema without its step down.
TEST_P(DowngradeTest, ANewStoreGetsTheSchemaOfTheLastRelease) {
  RunOn(expected_, FixtureOf(kind().name, schema()));
  ASSERT_EQ(kind().open(path_), "Ok");
  const auto done = Downgraded();
  ASSERT_EQ(MessageOf(done), "Ok")
      << "each step of a schema needs its step down (downgrade_steps.cc)";
  EXPECT_GT(done->from, done->to);
  EXPECT_TRUE(done->lost.empty());
  EXPECT_EQ(SchemaIn(path_), SchemaIn(expected_));
}

TEST_P(DowngradeTest, UpAndDownKeepsEachRow) {
  MakeReleased(expected_);
  MakeReleased(path_);
  ASSERT_EQ(kind().open(path_), "Ok");
  EXPECT_NE(DumpOf(path_), DumpOf(expected_));
  const auto done = Downgraded();
  ASSERT_EQ(MessageOf(done), "Ok");
  EXPECT_EQ(DumpOf(path_), DumpOf(expected_));
  EXPECT_TRUE(done->lost.empty()) << done->lost.front();
  EXPECT_EQ(kind().open(path_), "Ok");
}

TEST_P(DowngradeTest, TheCopyIsTheStoreAsItWas) {
  MakeReleased(path_);
  ASSERT_EQ(kind().open(path_), "Ok");
  const std::string before = DumpOf(path_);
  const auto done = Downgraded();
  ASSERT_EQ(MessageOf(done), "Ok");
  EXPECT_EQ(done->copy, path_ + ".schema-" + std::to_string(done->from));
  EXPECT_EQ(DumpOf(done->copy), before);
  struct stat copy {};
  ASSERT_EQ(stat(done->copy.c_str(), &copy), 0);
  EXPECT_EQ(copy.st_mode & 0777U, 0600U);
  // A second time has a copy of its own.
  ASSERT_EQ(kind().open(path_), "Ok");
  const auto again = Downgraded();
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(again->copy, done->copy + "-2");
  EXPECT_EQ(DumpOf(done->copy), before);
}

TEST_P(DowngradeTest, AStoreOfTheLastReleaseStaysAsItIs) {
  MakeReleased(path_);
  const std::string before = DumpOf(path_);
  const auto done = Downgraded();
  ASSERT_EQ(MessageOf(done), "Ok");
  EXPECT_EQ(done->from, done->to);
  EXPECT_EQ(done->copy, "");
  EXPECT_EQ(DumpOf(path_), before);
}

TEST_P(DowngradeTest, AStoreThatIsOpenIsRefused) {
  ASSERT_EQ(kind().open(path_), "Ok");
  auto taken = Downgrade::Take(path_, kind().released);
  ASSERT_EQ(MessageOf(taken), "Ok");
  const auto second = Downgrade::Take(path_, kind().released);
  ASSERT_EQ(Outcome(second), "Unavailable");
  EXPECT_NE(MessageOf(second).find("stop mountd.socket"), std::string::npos);
}

// A naive downgrade leaves a store between the two schemas.
TEST_P(DowngradeTest, AStepThatFailsChangesNothing) {
  MakeReleased(path_);
  ASSERT_EQ(kind().open(path_), "Ok");
  const std::string before = DumpOf(path_);
  std::vector<StepDown> steps(kind().released.steps.begin(),
                              kind().released.steps.end());
  steps.push_back({0, "SELECT 'x'", "UPDATE meta SET value='y'; nonsense;"});
  {
    auto taken = Downgrade::Take(path_, {schema(), steps});
    ASSERT_EQ(MessageOf(taken), "Ok");
    EXPECT_EQ(Outcome(taken->Run()), "Internal");
  }
  EXPECT_EQ(DumpOf(path_), before);
}

TEST_P(DowngradeTest, ASchemaWithoutAWayBackIsRefused) {
  RunOn(path_, "CREATE TABLE t(n); PRAGMA user_version=1000");
  const auto taken = Downgrade::Take(path_, kind().released);
  ASSERT_EQ(Outcome(taken), "FailedPrecondition");
  EXPECT_NE(MessageOf(taken).find("no step down from schema 1000"),
            std::string::npos);
}

TEST_P(DowngradeTest, ADamagedStoreIsRefusedAndLeftThere) {
  std::ofstream(path_) << std::string(8192, 'x');
  EXPECT_EQ(Outcome(Downgrade::Take(path_, kind().released)),
            "FailedPrecondition");
  EXPECT_EQ(std::filesystem::file_size(path_), 8192U);
}

INSTANTIATE_TEST_SUITE_P(Stores, DowngradeTest,
                         ::testing::Values("boot", "state"));

std::vector<std::string> LostOf(const std::string& path,
                                const ReleasedSchema& released) {
  auto taken = Downgrade::Take(path, released);
  EXPECT_EQ(MessageOf(taken), "Ok");
  if (!taken) {
    return {};
  }
  const auto done = taken->Run();
  EXPECT_EQ(MessageOf(done), "Ok");
  return done ? done->lost : std::vector<std::string>();
}

TEST(DowngradeLossTest, OfTheBootStoreIsListed) {
  const TempDirectory directory;
  const std::string path = directory.File("boot.db");
  RunOn(path, FixtureOf("boot", 14));
  ASSERT_EQ(MessageOf(BootStore::Open(path)), "Ok");
  RunOn(path,
        "UPDATE networks SET taken_over=1, next_ports='[]'; UPDATE mounts SET "
        "attributes=attributes|8 WHERE name='data'; UPDATE mounts SET "
        "source_kind=5 WHERE name='tmp'; INSERT INTO quarantine VALUES("
        "'0.0.0.0','fd00::4','six','old',1); INSERT INTO mounts SELECT "
        "allocation,task,'apart',source_kind,source,propagation,1,task_path,"
        "state,0,0,0,tmpfs,tmpfs_bytes,'{}',0,uid,target_kind,directory FROM "
        "mounts WHERE name='data'");
  EXPECT_EQ(LostOf(path, kReleasedBoot),
            (std::vector<std::string>{
                "network web/eth0: that an update of its ports is under way",
                "lease beat of uid 1000: its deadline",
                "address fd00::4: that it is in quarantine",
                "network web/eth0: that an agent took it over",
                "allocation web: that mount 4712 was handed out as a "
                "descriptor",
                "mount web/app/data: that it is nosymfollow",
                "mount web/app/tmp: the record, because a directory is its "
                "source",
                "mount web/app/apart: the record, because it maps users and "
                "groups apart"}));
  const auto store = BootStore::Open(path);
  ASSERT_EQ(MessageOf(store), "Ok");
  const auto mount = (*store)->mounts.GetMount("web", "app", "data");
  ASSERT_TRUE(mount && *mount);
  EXPECT_EQ((*mount)->wish.attributes, 1U);
}

// The executors of the last release refuse each plan with a port of no
// protocol, so its mountd could not release the allocation.
TEST(DowngradeLossTest, APortOfWhichNothingIsMappedGoes) {
  const TempDirectory directory;
  const std::string path = directory.File("boot.db");
  RunOn(path, FixtureOf("boot", 14));
  const PortMapping http{"http", 8080, 80, 1};
  const PortMapping mapped{"dns", 53, 53, 2, 1, {}, 2};
  const PortMapping unmapped{"", 54, 54, 0, 1, {}, 2};
  {
    const auto store = BootStore::Open(path);
    ASSERT_EQ(MessageOf(store), "Ok");
    NetworkRecord network;
    network.allocation = "web";
    network.interface = "eth0";
    network.ports = {http, mapped, unmapped};
    ASSERT_EQ(MessageOf((*store)->networks.SetNetworkPorts(network)), "Ok");
  }
  const std::vector<std::string> lost = LostOf(path, kReleasedBoot);
  for (const char* port : {"53", "54"}) {
    EXPECT_EQ(
        std::count(lost.begin(), lost.end(),
                   "network web/eth0: that host port " + std::string(port) +
                       " is mapped only if it is free"),
        1);
  }
  const auto store = BootStore::Open(path);
  ASSERT_EQ(MessageOf(store), "Ok");
  const auto networks = (*store)->networks.NetworksOf("web");
  ASSERT_TRUE(networks && networks->size() == 1U);
  PortMapping last_release = mapped;
  last_release.if_free = 0;
  EXPECT_EQ(networks->front().ports,
            (std::vector<PortMapping>{http, last_release}));
}

TEST(DowngradeLossTest, OfTheStateStoreIsListed) {
  const TempDirectory directory;
  const std::string path = directory.File("state.db");
  RunOn(path, FixtureOf("state", 6));
  ASSERT_EQ(MessageOf(StateStore::Open(path, "boot 1")), "Ok");
  RunOn(
      path,
      "UPDATE publications SET file_system='[1,2]'; UPDATE departed SET "
      "cgroup=7; UPDATE allocations SET group_id=100000 WHERE id='web'; "
      "UPDATE volumes SET volume_id='vol' || char(10) || '1'; "
      "UPDATE plugin_instances SET former_node_ids='[\"n0\"]'; UPDATE plugins "
      "SET removed_node_ids='[\"n1\"]'; INSERT INTO "
      "unchecked VALUES(1,'old',1000,77),(2,'old',1000,78)");
  EXPECT_EQ(LostOf(path, kReleasedState),
            (std::vector<std::string>{
                "plugin csi: the node ids that its removed instances said",
                "allocation old: that processes may use mounts that were "
                "removed",
                "allocation web: that group 100000 passes through its "
                "directory",
                "plugin csi: the node ids that it said before",
                "volume web/data: which file system it is",
                "volume csi/vol?1: which file system and cgroup gone had"}));
}

TEST(DowngradeLossTest, OfLeasesIsListed) {
  const TempDirectory directory;
  const std::string path = directory.File("state.db");
  RunOn(path, FixtureOf("state", 9));
  ASSERT_EQ(MessageOf(StateStore::Open(path, "boot 1")), "Ok");
  RunOn(path, "UPDATE fences SET told=0");
  std::vector<std::string> lost = LostOf(path, kReleasedState);
  std::sort(lost.begin(), lost.end());
  EXPECT_EQ(lost,
            (std::vector<std::string>{
                "allocation web: that it needs a lease",
                "fence of allocation going", "fence of allocation kept",
                "fence of allocation kept: that its user has still to be told",
                "lease agent of uid 1000",
                "receipt of allocation old: the caller's names of the call",
                "volume csi/vol/1: which file system and cgroup gone had"}));
}

TEST(DowngradeStoresTest, ChangesNoneWhileOneOfThemIsOpen) {
  const TempDirectory directory;
  const std::string boot = directory.File("boot.db");
  const std::string state = directory.File("state.db");
  ASSERT_EQ(MessageOf(BootStore::Open(boot)), "Ok");
  const auto held = StateStore::Open(state, "boot 1");
  ASSERT_EQ(MessageOf(held), "Ok");
  const std::string before = DumpOf(boot);
  std::vector<DowngradedStore> done;
  const std::vector<StoreToDowngrade> stores = {{boot, kReleasedBoot},
                                                {state, kReleasedState}};
  EXPECT_EQ(Outcome(DowngradeStores(
                stores, [&](const auto& store) { done.push_back(store); })),
            "Unavailable");
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(DumpOf(boot), before);
}

// As after a reboot, which leaves /run empty.
TEST(DowngradeStoresTest, GoesOnIfAStoreIsNotThere) {
  const TempDirectory directory;
  const std::string state = directory.File("state.db");
  ASSERT_EQ(MessageOf(StateStore::Open(state, "boot 1")), "Ok");
  std::vector<std::size_t> from;
  const std::vector<StoreToDowngrade> stores = {
      {directory.File("boot.db"), kReleasedBoot}, {state, kReleasedState}};
  EXPECT_EQ(MessageOf(DowngradeStores(stores,
                                      [&](const DowngradedStore& store) {
                                        from.push_back(store.from);
                                      })),
            "Ok");
  ASSERT_EQ(from.size(), 2U);
  EXPECT_EQ(from[0], 0U);
  EXPECT_GT(from[1], kReleasedState.schema);
  EXPECT_FALSE(std::filesystem::exists(directory.File("boot.db")));
}

// A release has to set kLastRelease, and to drop the steps before it.
TEST(DowngradeStoresTest, TheLastReleaseIsThatOfTheChangeLog) {
  std::ifstream file(MOUNTD_CHANGELOG);
  std::stringstream text;
  text << file.rdbuf();
  const std::string log = text.str();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      log, found, std::regex("\n## ([0-9]+\\.[0-9]+\\.[0-9]+) - ")));
  EXPECT_EQ(found[1].str(), kLastRelease);
}

}  // namespace
}  // namespace mountd::store
