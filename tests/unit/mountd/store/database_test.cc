// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Files that are no store, or not this release's.
#include "mountd/store/database.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "mountd/store/boot_store.h"
#include "mountd/store/columns.h"
#include "mountd/store/damaged_store.h"
#include "mountd/store/state_store.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::store {
namespace {

class DatabaseTest : public ::testing::Test {
 protected:
  std::string OpenBoth() {
    const auto state = StateStore::Open(path_, "boot 1");
    const auto boot = BootStore::Open(path_);
    return Outcome(state) + " " + Outcome(boot);
  }
  // Opens a schema of so many steps; only the first one does anything.
  Result<std::unique_ptr<Database>> OpenVersion(std::size_t version) {
    std::vector<std::string_view> steps(version);
    steps[0] = "CREATE TABLE t(n INTEGER PRIMARY KEY)";
    return Open(steps);
  }
  Result<std::unique_ptr<Database>> Open(
      const std::vector<std::string_view>& steps) {
    return Database::Open(path_, Database::Durability::kProcess, steps);
  }
  std::vector<std::int64_t> Numbers(Database& database) {
    std::vector<std::int64_t> all;
    EXPECT_EQ(Outcome(database.Query(
                  "SELECT n FROM t ORDER BY n",
                  [&](const Row& row) { all.push_back(row.Int(0)); })),
              "Ok");
    return all;
  }

  TempDirectory directory_;
  const std::string path_ = directory_.File("store.db");
};

// A store that must survive a power cut is synced before the answer. A store of
// this boot is not, which takes a tenth of the time. A naive store leaves both
// at SQLite's default.
TEST_F(DatabaseTest, OnlyWhatOutlivesPowerIsSynced) {
  using Durability = Database::Durability;
  const auto setting = [&](const std::string& name, Durability durability) {
    std::string value;
    auto store = Database::Open(directory_.File("durable.db"), durability, {});
    EXPECT_EQ(MessageOf(store), "Ok");
    EXPECT_EQ(
        Outcome((*store)->Query("PRAGMA " + name,
                                [&](const Row& row) { value = row.Text(0); })),
        "Ok");
    return value;
  };
  EXPECT_EQ(setting("journal_mode", Durability::kPower), "wal");
  EXPECT_EQ(setting("journal_mode", Durability::kProcess), "wal");
  EXPECT_EQ(setting("synchronous", Durability::kPower), "2");    // FULL
  EXPECT_EQ(setting("synchronous", Durability::kProcess), "0");  // OFF
  // A log that is never copied back grows as long as mountd runs.
  EXPECT_NE(setting("wal_autocheckpoint", Durability::kPower), "0");
  EXPECT_EQ(setting("wal_autocheckpoint", Durability::kProcess), "256");
}

TEST_F(DatabaseTest, AnOpenOneIsItsProcessesAlone) {
  auto first = OpenVersion(1);
  ASSERT_EQ(MessageOf(first), "Ok");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(other, "SELECT * FROM t", nullptr, nullptr, nullptr),
            SQLITE_BUSY);
  *first = nullptr;
  EXPECT_EQ(sqlite3_exec(other, "SELECT * FROM t", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(other);
}

TEST_F(DatabaseTest, AnotherSchemaIsRefusedAndLeftAlone) {
  {
    auto newer = OpenVersion(1000);
    ASSERT_EQ(MessageOf(newer), "Ok");
    ASSERT_EQ(Outcome((*newer)->Run("INSERT INTO t(n) VALUES(?1)", 5)), "Ok");
  }
  EXPECT_EQ(OpenBoth(), "FailedPrecondition FailedPrecondition");
  EXPECT_NE(MessageOf(BootStore::Open(path_)).find("has schema 1000"),
            std::string::npos);
  auto again = OpenVersion(1000);
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(Numbers(**again), std::vector<std::int64_t>{5});
}

TEST_F(DatabaseTest, AnOlderSchemaIsBroughtToTheNewest) {
  {
    auto older = OpenVersion(1);
    ASSERT_EQ(MessageOf(older), "Ok");
    ASSERT_EQ(Outcome((*older)->Run("INSERT INTO t(n) VALUES(?1)", 5)), "Ok");
  }
  const std::vector<std::string_view> steps = {
      "no statement: this one was done before",
      "ALTER TABLE t ADD COLUMN a INTEGER NOT NULL DEFAULT 7",
      "UPDATE t SET n=n+a"};
  ASSERT_EQ(MessageOf(Open(steps)), "Ok");
  auto again = Open(steps);
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(Numbers(**again), std::vector<std::int64_t>{12});
}

TEST_F(DatabaseTest, AnUpgradeThatFailsChangesNothing) {
  ASSERT_EQ(MessageOf(OpenVersion(1)), "Ok");
  EXPECT_EQ(Outcome(Open({"", "INSERT INTO t(n) VALUES(1)", "nonsense"})),
            "Internal");
  auto store = OpenVersion(1);
  ASSERT_EQ(MessageOf(store), "Ok");
  EXPECT_TRUE(Numbers(**store).empty());
}

TEST_F(DatabaseTest, AFileThatIsNoStoreIsSetAside) {
  const std::string text(8192, 'x');
  std::ofstream(path_) << text;
  const auto opened = OpenVersion(1);
  ASSERT_EQ(MessageOf(opened), "Ok");
  EXPECT_TRUE((*opened)->is_fresh());
  const std::string aside = (*opened)->set_aside();
  ASSERT_TRUE(aside.starts_with(path_ + ".corrupt-")) << aside;
  std::string left;
  std::getline(std::ifstream(aside), left);
  EXPECT_EQ(left, text);
}

TEST_F(DatabaseTest, AWholeStoreIsNotSetAside) {
  ASSERT_TRUE((*OpenVersion(1))->is_fresh());
  const auto again = OpenVersion(1);
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_FALSE((*again)->is_fresh());
  EXPECT_EQ((*again)->set_aside(), "");
}

TEST_F(DatabaseTest, TheLatestThatWereSetAsideAreKept) {
  std::set<std::string> aside;
  for (int i = 0; i < 6; ++i) {
    std::ofstream(path_) << std::string(8192, static_cast<char>('a' + i));
    const auto opened = OpenVersion(1);
    ASSERT_EQ(MessageOf(opened), "Ok");
    EXPECT_TRUE(aside.insert((*opened)->set_aside()).second);
  }
  const auto left = std::count_if(
      aside.begin(), aside.end(),
      [](const std::string& name) { return std::filesystem::exists(name); });
  EXPECT_EQ(left, static_cast<long>(kMostSetAside));
}

// The clock was set back since the other files were set aside.
TEST_F(DatabaseTest, TheLastThatWasSetAsideIsKept) {
  for (const char* year : {"2998", "2999", "3000"}) {
    std::ofstream(path_ + ".corrupt-" + year + "0101T000000.000000Z") << year;
  }
  std::ofstream(path_) << std::string(8192, 'x');
  const auto opened = OpenVersion(1);
  ASSERT_EQ(MessageOf(opened), "Ok");
  const auto exists = [&](const char* year) {
    return std::filesystem::exists(path_ + ".corrupt-" + year +
                                   "0101T000000.000000Z");
  };
  EXPECT_TRUE(std::filesystem::exists((*opened)->set_aside()));
  EXPECT_FALSE(exists("2998"));
  EXPECT_TRUE(exists("2999"));
  EXPECT_TRUE(exists("3000"));
}

TEST_F(DatabaseTest, OneThatCannotBeSetAsideIsLeftAlone) {
  if (geteuid() == 0) {
    // Root can rename whatever the modes say, so a directory is in the way
    // instead.
    std::filesystem::create_directories(path_ + ".damaged/x");
  } else {
    GTEST_SKIP() << "needs root";
  }
  std::ofstream(path_) << "no store";
  EXPECT_EQ(Outcome(OpenVersion(1)), "Unavailable");
}

TEST_F(DatabaseTest, APlaceThatCannotBeOpenedIsUnavailable) {
  EXPECT_EQ(
      Outcome(BootStore::Open(directory_.File("no-such-directory/boot.db"))),
      "Unavailable");
}

// Damages every page but the first, which identifies the file as a store.
void Damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(0, std::ios::end);
  const auto size = static_cast<std::size_t>(file.tellp());
  constexpr std::size_t kPage = 1024;
  ASSERT_GT(size, 2 * kPage);
  file.seekp(kPage);
  file << std::string(size - kPage, '\x5a');
}

void PutAnchors(BootStore& store) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(
        Outcome(store.anchors.PutAnchor(
            {exec::SourceKind::kHostVolume, "volume" + std::to_string(i)}, 1)),
        "Ok");
  }
}

TEST_F(DatabaseTest, ADamagedStoreIsFoundWhenItIsOpened) {
  {
    auto store = BootStore::Open(path_);
    ASSERT_EQ(MessageOf(store), "Ok");
    PutAnchors(**store);
  }
  Damage(path_);
  const auto store = BootStore::Open(path_);
  ASSERT_EQ(MessageOf(store), "Ok");
  EXPECT_NE((*store)->database().set_aside(), "");
  EXPECT_TRUE((*store)->anchors.ListAnchors()->empty());
}

// mountd may already have used wrong values of the damaged store.
TEST_F(DatabaseTest, DamageThatIsFoundLaterEndsTheUse) {
  const auto store = BootStore::Open(path_);
  ASSERT_EQ(MessageOf(store), "Ok");
  PutAnchors(**store);
  std::vector<std::string> told;
  (*store)->database().OnDamage(
      [&](const Error& error) { told.push_back(error.Message()); });
  ASSERT_EQ(Outcome((*store)->database().Query(
                "PRAGMA wal_checkpoint(TRUNCATE)", [](const Row&) {})),
            "Ok");
  // The cached pages are dropped, so that the next read sees the damage.
  ASSERT_EQ(Outcome((*store)->database().Query("PRAGMA shrink_memory",
                                               [](const Row&) {})),
            "Ok");
  Damage(path_);
  EXPECT_EQ(Outcome((*store)->anchors.ListAnchors()), "Internal");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(WasFoundDamaged(path_));
}

TEST_F(DatabaseTest, OneThatWasFoundDamagedIsNotUsedAgain) {
  ASSERT_EQ(MessageOf(OpenVersion(1)), "Ok");
  NoteDamaged(path_);
  EXPECT_NE((*OpenVersion(1))->set_aside(), "");
  EXPECT_EQ((*OpenVersion(1))->set_aside(), "");
}

TEST_F(DatabaseTest, OnlyItsOwnerReadsIt) {
  ASSERT_EQ(MessageOf(BootStore::Open(path_)), "Ok");
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(DatabaseTest, ATransactionThatFailsWritesNothing) {
  auto opened = OpenVersion(1);
  ASSERT_EQ(MessageOf(opened), "Ok");
  Database& database = **opened;
  const auto insert = [&](int number) {
    return database.Run("INSERT INTO t(n) VALUES(?1)", number);
  };
  const auto failed = database.Transaction([&]() -> Result<void> {
    MOUNTD_TRY(insert(1));
    return MakeError(Code::kBusy, "test", "");
  });
  EXPECT_EQ(Outcome(failed), "Busy");
  EXPECT_TRUE(Numbers(database).empty());
  EXPECT_EQ(Outcome(database.Transaction([&]() -> Result<void> {
              MOUNTD_TRY(insert(1));
              MOUNTD_TRY(insert(1));
              return Ok();
            })),
            "AlreadyExists");
  EXPECT_TRUE(Numbers(database).empty());
  EXPECT_EQ(Outcome(database.Transaction([&]() -> Result<void> {
              MOUNTD_TRY(insert(1));
              return Ok();
            })),
            "Ok");
  EXPECT_EQ(Numbers(database), std::vector<std::int64_t>{1});
}

TEST_F(DatabaseTest, ChangedRowsAreCountedAndBadStatementsAreErrors) {
  auto opened = OpenVersion(1);
  ASSERT_EQ(MessageOf(opened), "Ok");
  Database& database = **opened;
  EXPECT_EQ(*database.Run("INSERT INTO t(n) VALUES(1),(2)"), 2);
  EXPECT_EQ(*database.Run("DELETE FROM t WHERE n=?1", 1), 1);
  EXPECT_EQ(*database.Run("DELETE FROM t WHERE n=?1", 1), 0);
  const auto bad = database.Run("SELECT secret FROM nowhere");
  EXPECT_EQ(Outcome(bad), "Internal");
  EXPECT_TRUE(MessageOf(bad).starts_with("store SELECT: ")) << MessageOf(bad);
}

TEST(ColumnsTest, DamagedTextReadsEmpty) {
  for (const char* text : {"", "{", "3", "[1", "null", "\"a\""}) {
    EXPECT_TRUE(MapFromColumn(text).empty()) << text;
    EXPECT_TRUE(PortsFromColumn(text).empty()) << text;
    EXPECT_TRUE(ReceiptVolumesFromColumn(text).empty()) << text;
  }
  EXPECT_EQ(MapFromColumn(R"({"a":1,"b":"2"})"), (StringMap{{"b", "2"}}));
  EXPECT_EQ(PortsFromColumn("[[1,\"x\"]]"),
            std::vector<PortMapping>{PortMapping{}});
}

TEST(ColumnsTest, PortsAreReadAsTheyWereWritten) {
  EXPECT_TRUE(PortsFromColumn(ToColumn(std::vector<PortMapping>{})).empty());
  const std::vector<PortMapping> ports = {
      {"", 1, 65535, exec::kAllProtocols, 1, {}},
      {"a\"],[", 20000, 80, exec::kTcp, 100, *netns::ParseHostIp("192.0.2.1")},
      {"six", 53, 5353, exec::kUdp, 2, *netns::ParseHostIp("2001:db8::1")}};
  EXPECT_EQ(PortsFromColumn(ToColumn(ports)), ports);
}

TEST(ColumnsTest, BytesThatAreNoTextDoNotThrow) {
  const StringMap read = MapFromColumn(ToColumn(StringMap{{"a", "x\xff"}}));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_TRUE(read.at("a").starts_with("x"));
}

}  // namespace
}  // namespace mountd::store
