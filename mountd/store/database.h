// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::store {

// One row of a running query. Columns are counted from 0.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  std::string Text(int column) const;
  std::int64_t Int(int column) const;
  // 64-bit ids of the kernel are kept as SQLite's signed integers, bit by bit.
  std::uint64_t Bits(int column) const {
    return static_cast<std::uint64_t>(Int(column));
  }

 private:
  sqlite3_stmt* statement_;
};

// An open SQLite database in WAL mode with a versioned schema, and the only
// place that calls SQLite. Statements are prepared once and kept. The file is
// its process's alone for as long as it is open: who opens it meanwhile is
// Unavailable.
//
// Thread-safe: one connection behind one mutex, since with the synchronous
// modes used here a writer's thread hop costs more than the commit.
// Transactions take the mutex for their whole length: they hold no kernel or
// RPC call.
class Database {
 public:
  enum class Durability {
    kProcess,  // synchronous=OFF: survives a kill of the process
    kPower,    // synchronous=FULL: survives a power cut too
  };

  // What each version of a schema does to the one before: the first to an empty
  // file. Steps are only ever added.
  using Schema = std::span<const std::string_view>;

  // Creates the file (0600) if missing, and brings an older store to the
  // newest version, wholly or not at all. One of a newer version is
  // FailedPrecondition: an older mountd must not guess at it. One that is
  // damaged, or no store, is set aside (damaged_store.h), and a fresh one made.
  static Result<std::unique_ptr<Database>> Open(const std::string& path,
                                                Durability durability,
                                                Schema schema);

  // Whether Open made it.
  bool is_fresh() const { return is_fresh_; }
  // Where Open has put the damaged one; "" if there was none.
  const std::string& set_aside() const { return set_aside_; }
  // Called, with what was found, when a statement finds the file damaged. It
  // does not come back: what can be read of such a store may be wrong. The next
  // Open sets it aside. Before the store is used by several threads.
  void OnDamage(std::function<void(const Error&)> end) {
    on_damage_ = std::move(end);
  }

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs one statement without rows. AlreadyExists when a uniqueness constraint
  // fails. Answers how many rows changed.
  template <typename... Args>
  Result<int> Run(std::string_view sql, const Args&... args) {
    const std::lock_guard lock(mutex_);
    return Step(
        sql, [](const Row&) {}, args...);
  }

  // Calls `each(row)` for every row.
  template <typename F, typename... Args>
  Result<void> Query(std::string_view sql, F each, const Args&... args) {
    const std::lock_guard lock(mutex_);
    MOUNTD_TRY(Step(sql, each, args...));
    return Ok();
  }

  // `body` runs in one transaction: it commits if `body` answers Ok and is
  // rolled back otherwise.
  template <typename F>
  Result<void> Transaction(F body) {
    const std::lock_guard lock(mutex_);
    MOUNTD_TRY(Step("BEGIN IMMEDIATE", [](const Row&) {}));
    Result<void> done = body();
    if (done) {
      if (auto commit = Step("COMMIT", [](const Row&) {}); commit) {
        return Ok();
      } else {
        done = std::move(commit).error();
      }
    }
    IgnoreBecauseBestEffort(Step("ROLLBACK", [](const Row&) {}));
    return done;
  }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const {
      sqlite3_finalize(statement);
    }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

  explicit Database(sqlite3* database) : database_(database) {}

  static Result<std::unique_ptr<Database>> OpenWhole(const std::string& path,
                                                     Durability durability,
                                                     Schema schema);
  Result<sqlite3_stmt*> Prepare(std::string_view sql);
  Error Failure(int status, std::string_view sql) const;
  Result<void> Configure(Durability durability);
  Result<void> Check();
  Result<void> Upgrade(Schema schema);

  static int Bind(sqlite3_stmt* statement, int index, std::string_view text);
  static int Bind(sqlite3_stmt* statement, int index, std::int64_t number);
  template <std::integral T>
  static int Bind(sqlite3_stmt* statement, int index, T number) {
    return Bind(statement, index, static_cast<std::int64_t>(number));
  }

  template <typename F, typename... Args>
  Result<int> Step(std::string_view sql, F each, const Args&... args) {
    MOUNTD_ASSIGN(sqlite3_stmt * statement, Prepare(sql));
    int index = 0;
    int status = SQLITE_OK;
    ((status = status == SQLITE_OK ? Bind(statement, ++index, args) : status),
     ...);
    while (status == SQLITE_OK || status == SQLITE_ROW) {
      status = sqlite3_step(statement);
      if (status == SQLITE_ROW) {
        each(Row(statement));
      }
    }
    const int changes = sqlite3_changes(database_.get());
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    if (status != SQLITE_DONE) {
      return Failure(status, sql);
    }
    return changes;
  }

  // Taken again by statements inside a transaction's body.
  std::recursive_mutex mutex_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::map<std::string, Statement, std::less<>> statements_;
  bool is_fresh_ = false;
  std::string set_aside_;
  std::function<void(const Error&)> on_damage_ = [](const Error&) {};
};

}  // namespace mountd::store
