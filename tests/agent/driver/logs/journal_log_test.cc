// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>
#include <syslog.h>
#include <unistd.h>

#include <string>

#include "agent/driver/logs/journal_stream.h"
#include "agent/driver/logs/log_reader.h"

namespace mountd::driver {
namespace {

bool HasJournal() { return ::access("/run/systemd/journal/stdout", F_OK) == 0; }

TEST(JournalLogTest, NamesTheTaskInItsIdentifier) {
  const auto identifier = JournalIdentifier("alloc/web/0123abcd");
  ASSERT_TRUE(identifier);
  EXPECT_EQ(*identifier, "mountd-task:alloc/web/0123abcd");
  EXPECT_EQ(JournalPriority(false), LOG_INFO);
  EXPECT_EQ(JournalPriority(true), LOG_ERR);
}

// The protocol of systemd-journald has a line for each field, and the unit is
// the line after the identifier.
TEST(JournalLogTest, RefusesIdsThatSetOtherFields) {
  for (const std::string& id :
       {std::string(), std::string("web\nsshd.service"), std::string("web "),
        std::string("web\0x", 5), std::string("web\x7f"),
        std::string(1001, 'x')}) {
    const auto identifier = JournalIdentifier(id);
    ASSERT_FALSE(identifier) << id;
    EXPECT_EQ(identifier.error().code, Code::kInvalidArgument);
    EXPECT_FALSE(OpenJournalStream(id, false));
  }
}

TEST(JournalLogTest, SaysWhetherTheMachineHasAJournal) {
  const auto stream = OpenJournalStream("alloc/web/0123abcd", false);
  LogRequest request;
  request.config.mode = LogMode::kJournal;
  request.task = "web";
  request.task_id = "alloc/web/0123abcd";
  const auto reader = OpenLog(request);
  if (HasJournal()) {
    EXPECT_TRUE(stream) << stream.error().Message();
    EXPECT_TRUE(reader || reader.error().code == Code::kPermissionDenied);
    return;
  }
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, Code::kFailedPrecondition);
  if (!reader) {
    EXPECT_EQ(reader.error().code, Code::kFailedPrecondition);
    EXPECT_NE(reader.error().detail.find("no journal"), std::string::npos);
  }
}

}  // namespace
}  // namespace mountd::driver
