// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/database.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "mountd/store/damaged_store.h"

namespace mountd::store {

std::string Row::Text(int column) const {
  // Get the bytes before their size, because a conversion may change the size
  // (sqlite.org/c3ref/column_blob.html).
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes),
                                        static_cast<std::size_t>(size));
}

std::int64_t Row::Int(int column) const {
  return sqlite3_column_int64(statement_, column);
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                 Durability durability,
                                                 Schema schema) {
  std::string set_aside;
  if (WasFoundDamaged(path)) {
    MOUNTD_ASSIGN(set_aside, SetAside(path));
  }
  Result<std::unique_ptr<Database>> opened =
      OpenWhole(path, durability, schema);
  if (!opened && IsDamage(opened.error())) {
    MOUNTD_ASSIGN(set_aside, SetAside(path));
    opened = OpenWhole(path, durability, schema);
  }
  if (opened) {
    (*opened)->set_aside_ = std::move(set_aside);
  }
  return opened;
}

Result<std::unique_ptr<Database>> Database::OpenFile(const std::string& path,
                                                     int flags) {
  // Set the umask first, because others must never be able to read the file.
  const mode_t old_umask = umask(0077);
  sqlite3* raw = nullptr;
  // NOMUTEX, because mutex_ already lets only one thread use the connection
  // (sqlite.org/threadsafe.html).
  const int status = sqlite3_open_v2(
      path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | flags,
      nullptr);
  umask(old_umask);
  // SQLite returns a handle to close even if the open fails.
  std::unique_ptr<Database> database(new Database(raw));
  if (status != SQLITE_OK) {
    return MakeError(Code::kUnavailable, "open store", path,
                     raw != nullptr ? sqlite3_errmsg(raw) : "out of memory");
  }
  return database;
}

Result<std::unique_ptr<Database>> Database::OpenWhole(const std::string& path,
                                                      Durability durability,
                                                      Schema schema) {
  MOUNTD_ASSIGN(std::unique_ptr<Database> database,
                OpenFile(path, SQLITE_OPEN_CREATE));
  MOUNTD_TRY(database->Configure(durability));
  MOUNTD_TRY(database->Check());
  MOUNTD_TRY(database->Upgrade(schema));
  return database;
}

Result<std::unique_ptr<Database>> Database::OpenAsItIs(
    const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    return MakeError(Code::kNotFound, "open store", path, "is not there");
  }
  MOUNTD_ASSIGN(std::unique_ptr<Database> database, OpenFile(path, 0));
  MOUNTD_TRY(database->Configure(Durability::kPower));
  MOUNTD_TRY(database->Check());
  return database;
}

Result<std::size_t> Database::SchemaVersion() {
  std::size_t found = 0;
  MOUNTD_TRY(Query("PRAGMA user_version", [&](const Row& row) {
    found = static_cast<std::size_t>(row.Int(0));
  }));
  return found;
}

Result<void> Database::CopyTo(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const mode_t old_umask = umask(0077);
  const Result<int> copied =
      Step("VACUUM INTO ?1", [](const Row&) {}, std::string_view(path));
  umask(old_umask);
  return copied ? Ok() : Result<void>(copied.error());
}

Result<void> Database::Configure(Durability durability) {
  // Wait, because another mountd that is ending may still have the file open.
  sqlite3_busy_timeout(database_.get(), 5000);
  // Use small pages, because SQLite sums and writes every page that a
  // transaction touches, and a record has a hundred bytes. SQLite takes the
  // page size only for a new store, and only before the store has a log.
  //
  // Set exclusive locking before WAL. Then the log's index is in this process's
  // memory, and no statement locks files (sqlite.org/wal.html, section 8).
  // SQLite checks foreign keys only if asked to (sqlite.org/foreignkeys.html,
  // section 2). trusted_schema=OFF keeps the schema of a changed file from
  // running functions (sqlite.org/pragma.html).
  std::string settings =
      "PRAGMA page_size=1024; PRAGMA locking_mode=EXCLUSIVE;"
      "PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON;"
      "PRAGMA trusted_schema=OFF;";
  settings += durability == Durability::kPower
                  ? "PRAGMA synchronous=FULL;"
                  // This store is on a tmpfs, so there is no disk to wait for.
                  // Copying the log back often lets SQLite reuse the log's
                  // pages.
                  : "PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=256;";
  const int status = sqlite3_exec(database_.get(), settings.c_str(), nullptr,
                                  nullptr, nullptr);
  if (status != SQLITE_OK) {
    return Failure(status, "PRAGMA");
  }
  return Ok();
}

// Reads the whole store once before mountd acts on it. A store of ten thousand
// mounts takes some milliseconds.
Result<void> Database::Check() {
  std::string verdict;
  // Use quick_check, because it does not compare indexes with their tables.
  // Comparing takes most of integrity_check's time (sqlite.org/pragma.html).
  MOUNTD_TRY(Query("PRAGMA quick_check(1)",
                   [&](const Row& row) { verdict = row.Text(0); }));
  return verdict == "ok" ? Ok() : Result<void>(Damage("check store", verdict));
}

Result<void> Database::Upgrade(Schema schema) {
  MOUNTD_ASSIGN(const std::size_t found, SchemaVersion());
  is_fresh_ = found == 0;
  if (found == schema.size()) {
    return Ok();
  }
  if (found > schema.size()) {
    return MakeError(Code::kFailedPrecondition, "open store",
                     sqlite3_db_filename(database_.get(), "main"),
                     "has schema " + std::to_string(found) +
                         ", but this mountd knows at most " +
                         std::to_string(schema.size()));
  }
  std::string steps;
  for (const std::string_view step : schema.subspan(found)) {
    steps.append(step).append(";");
  }
  return Migrate(steps, schema.size());
}

// Runs all statements and sets the version in one transaction, so that after a
// kill the store still has the old schema.
Result<void> Database::Migrate(const std::string& statements,
                               std::size_t version) {
  const std::string script = "BEGIN IMMEDIATE;" + statements +
                             ";PRAGMA user_version=" + std::to_string(version) +
                             ";COMMIT;";
  const std::lock_guard lock(mutex_);
  const int status =
      sqlite3_exec(database_.get(), script.c_str(), nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) {
    Error error = Failure(status, "schema");
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    return error;
  }
  return Ok();
}

Result<sqlite3_stmt*> Database::Prepare(std::string_view sql) {
  if (const auto found = statements_.find(sql); found != statements_.end()) {
    return found->second.get();
  }
  sqlite3_stmt* raw = nullptr;
  // PERSISTENT, because this object keeps the statement as long as it lives.
  const int status = sqlite3_prepare_v3(
      database_.get(), sql.data(), static_cast<int>(sql.size()),
      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (status != SQLITE_OK) {
    return Failure(status, sql);
  }
  statements_.emplace(std::string(sql), Statement(raw));
  return raw;
}

Error Database::Failure(int status, std::string_view sql) const {
  if (status == SQLITE_CORRUPT || status == SQLITE_NOTADB) {
    Error damage = Damage("store", sqlite3_errmsg(database_.get()));
    NoteDamaged(sqlite3_db_filename(database_.get(), "main"));
    // The damage has been noted already, because on_damage_ does not return.
    on_damage_(damage);
    return damage;
  }
  // The plain code SQLITE_CONSTRAINT also stands for a foreign key that fails
  // (sqlite.org/rescode.html).
  const int extended = sqlite3_extended_errcode(database_.get());
  const bool unique = extended == SQLITE_CONSTRAINT_UNIQUE ||
                      extended == SQLITE_CONSTRAINT_PRIMARYKEY;
  Code code = Code::kInternal;
  if (unique) {
    code = Code::kAlreadyExists;
  } else if (status == SQLITE_FULL || status == SQLITE_NOMEM) {
    code = Code::kResourceExhausted;
  } else if (status == SQLITE_BUSY || status == SQLITE_READONLY ||
             status == SQLITE_IOERR || status == SQLITE_CANTOPEN) {
    code = Code::kUnavailable;
  }
  // The statement's first word is enough to find the statement. The error must
  // not hold values, because errors are logged.
  return MakeError(code, "store", std::string(sql.substr(0, sql.find(' '))),
                   sqlite3_errmsg(database_.get()));
}

int Database::Bind(sqlite3_stmt* statement, int index, std::string_view text) {
  // Bind "" for a null pointer, because a null pointer would bind NULL.
  // SQLITE_STATIC makes no copy: Step clears the binding before the caller's
  // text is destroyed.
  return sqlite3_bind_text64(statement, index,
                             text.data() == nullptr ? "" : text.data(),
                             text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

int Database::Bind(sqlite3_stmt* statement, int index, std::int64_t number) {
  return sqlite3_bind_int64(statement, index, number);
}

}  // namespace mountd::store
