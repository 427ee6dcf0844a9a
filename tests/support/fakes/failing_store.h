// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mountd/store/database.h"
#include "tests/support/outcome.h"

namespace mountd {

// Makes a table unreadable and unwritable while this object lives.
class LockedTable {
 public:
  LockedTable(store::Database& database, const std::string& table)
      : database_(database), table_(table) {
    Rename(table_, table_ + "_away");
  }
  ~LockedTable() { Rename(table_ + "_away", table_); }

  LockedTable(const LockedTable&) = delete;
  LockedTable& operator=(const LockedTable&) = delete;

 private:
  void Rename(const std::string& from, const std::string& to) {
    EXPECT_EQ(
        Outcome(database_.Run("ALTER TABLE " + from + " RENAME TO " + to)),
        "Ok");
  }

  store::Database& database_;
  const std::string table_;
};

// Makes each INSERT, UPDATE or DELETE of a table fail while this object lives.
// Reading the table still works.
class FailingWrites {
 public:
  FailingWrites(store::Database& database, const std::string& verb,
                const std::string& table)
      : database_(database), name_("fail_" + verb + "_" + table) {
    EXPECT_EQ(Outcome(database_.Run(
                  "CREATE TEMP TRIGGER " + name_ + " BEFORE " + verb + " ON " +
                  table + " BEGIN SELECT RAISE(ABORT, 'as the test wants'); " +
                  "END")),
              "Ok");
  }
  ~FailingWrites() {
    EXPECT_EQ(Outcome(database_.Run("DROP TRIGGER " + name_)), "Ok");
  }

  FailingWrites(const FailingWrites&) = delete;
  FailingWrites& operator=(const FailingWrites&) = delete;

 private:
  store::Database& database_;
  const std::string name_;
};

}  // namespace mountd
