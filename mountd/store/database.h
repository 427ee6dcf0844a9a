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

// One row of a running query. Columns count from 0.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  std::string Text(int column) const;
  std::int64_t Int(int column) const;
  // Reads a 64-bit id of the kernel. SQLite stores its bits as a signed
  // integer.
  std::uint64_t Bits(int column) const {
    return static_cast<std::uint64_t>(Int(column));
  }

 private:
  sqlite3_stmt* statement_;
};

// Owns an open SQLite database in WAL mode with a versioned schema. Only this
// class calls SQLite. Prepares each statement once and keeps it. Locks the file
// as long as it is open, so another process that opens it gets Unavailable.
//
// Thread-safe: there is one connection behind one mutex, because passing a
// statement to another thread would cost more than its commit. A transaction
// holds the mutex from its beginning to its end, so it never contains a plan or
// an RPC.
class Database {
 public:
  enum class Durability {
    kProcess,  // synchronous=OFF: survives a kill of the process
    kPower,    // synchronous=FULL: survives a power cut too
  };

  // The steps from each version of a schema to the next. The first step applies
  // to an empty file. Later releases only add steps.
  using Schema = std::span<const std::string_view>;

  // Creates the file (0600) if it is missing, and brings an older store to the
  // newest version, wholly or not at all. Sets aside a damaged store or a file
  // that is no store (damaged_store.h), and then makes a new store.
  // FailedPrecondition if the store has a newer version, because an older
  // mountd does not know what that means.
  static Result<std::unique_ptr<Database>> Open(const std::string& path,
                                                Durability durability,
                                                Schema schema);

  // Opens a store with its present schema, and changes nothing. NotFound if
  // there is no file; Unavailable while another process has the file open.
  static Result<std::unique_ptr<Database>> OpenAsItIs(const std::string& path);
  Result<std::size_t> SchemaVersion();
  // Runs the statements and sets the version in one transaction.
  Result<void> Migrate(const std::string& statements, std::size_t version);
  // Writes a copy of the whole store into a new file, which has mode 0600.
  Result<void> CopyTo(const std::string& path);

  // Returns whether the file had no schema before Open.
  bool is_fresh() const { return is_fresh_; }
  // Returns the new path of the damaged store; "" if there was none.
  const std::string& set_aside() const { return set_aside_; }
  // Sets the function to call when a statement finds the file damaged. The
  // function must not return, because reads from such a store may be wrong. The
  // next Open sets the store aside. Call before several threads use the store.
  void OnDamage(std::function<void(const Error&)> end) {
    on_damage_ = std::move(end);
  }

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs one statement without rows and returns how many rows changed.
  // AlreadyExists if a uniqueness constraint fails.
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

  // Runs `body` in one transaction. Commits if `body` returns Ok, rolls back
  // otherwise.
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

  static Result<std::unique_ptr<Database>> OpenFile(const std::string& path,
                                                    int flags);
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
    // Reset the statement first, because otherwise it would keep its locks and
    // its bound texts.
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    if (status != SQLITE_DONE) {
      return Failure(status, sql);
    }
    return changes;
  }

  // Recursive, because statements in a transaction's body lock this mutex
  // again.
  std::recursive_mutex mutex_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::map<std::string, Statement, std::less<>> statements_;
  bool is_fresh_ = false;
  std::string set_aside_;
  std::function<void(const Error&)> on_damage_ = [](const Error&) {};
};

}  // namespace mountd::store
