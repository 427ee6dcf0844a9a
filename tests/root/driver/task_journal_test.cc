// SPDX-License-Identifier: LGPL-2.1-or-later
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "agent/driver/logs/journal_stream.h"
#include "agent/driver/logs/log_reader.h"
#include "tests/support/eventually.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/program.h"

namespace mountd::driver {
namespace {

namespace fs = std::filesystem;

constexpr char kJournald[] = "/lib/systemd/systemd-journald";
constexpr char kId[] = "alloc/web/0123abcd";
constexpr std::chrono::minutes kLong{1};

// Runs a systemd-journald of its own on an empty /run.
class TaskJournal : public testing::PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (::access(kJournald, X_OK) != 0 || !fs::exists("/etc/machine-id")) {
      GTEST_SKIP() << "systemd-journald is not installed";
    }
    fs::create_directories("/run/systemd/journald.conf.d");
    fs::create_directories("/run/log/journal");
    std::ofstream("/run/systemd/journald.conf.d/test.conf")
        << "[Journal]\nStorage=volatile\nReadKMsg=no\nForwardToWall=no\n";
    journald_.emplace(std::vector<std::string>{kJournald});
    ASSERT_TRUE(testing::Eventually(
        [] { return fs::exists("/run/systemd/journal/stdout"); }));
  }
  void TearDown() override {
    if (journald_) {
      journald_->Signal(SIGTERM);
      journald_->Wait();
    }
    PrivateNamespaces::TearDown();
  }

  static UniqueFd Stream(const std::string& id, bool standard_error) {
    auto stream = OpenJournalStream(id, standard_error);
    EXPECT_TRUE(stream) << stream.error().Message();
    return stream ? std::move(*stream) : UniqueFd();
  }
  static void Write(const UniqueFd& stream, const std::string& text) {
    EXPECT_EQ(::write(stream.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  static LogRequest Request(bool standard_error = false) {
    LogRequest request;
    request.config.mode = LogMode::kJournal;
    request.task = "web";
    request.task_id = kId;
    request.standard_error = standard_error;
    return request;
  }
  static std::unique_ptr<LogReader> Open(const LogRequest& request) {
    auto reader = OpenLog(request);
    EXPECT_TRUE(reader) << reader.error().Message();
    return reader ? std::move(*reader) : nullptr;
  }
  static std::string All(const LogRequest& request) {
    const auto reader = Open(request);
    std::string all;
    while (reader) {
      const auto bytes = reader->Read(std::chrono::milliseconds(0));
      EXPECT_TRUE(bytes) << bytes.error().Message();
      if (!bytes || !*bytes) {
        break;
      }
      all += **bytes;
    }
    return all;
  }
  static std::string Tail(std::uint64_t lines) {
    LogRequest request = Request();
    request.tail_lines = lines;
    return All(request);
  }
  // The journal takes what is written a moment later.
  static bool Becomes(const LogRequest& request, const std::string& text) {
    std::string all;
    const bool became = testing::Eventually([&] {
      all = All(request);
      return all.size() >= text.size();
    });
    EXPECT_EQ(all, text);
    return became;
  }

 private:
  std::optional<test::RunningProgram> journald_;
};

TEST_F(TaskJournal, ReadsEachStreamOfEachStartAlone) {
  const UniqueFd out = Stream(kId, false);
  const UniqueFd err = Stream(kId, true);
  const UniqueFd other = Stream("alloc/web/ffffffff", false);
  Write(other, "other\n");
  Write(out, "one\n<3>two\n");
  Write(err, "trouble\n");
  EXPECT_TRUE(Becomes(Request(), "one\n<3>two\n"));
  EXPECT_TRUE(Becomes(Request(true), "trouble\n"));
}

TEST_F(TaskJournal, LeavesOutWhatCameByAnotherWayThanAStream) {
  const std::string identifier =
      std::string("SYSLOG_IDENTIFIER=mountd-task:") + kId;
  ASSERT_EQ(
      ::sd_journal_send("MESSAGE=forged", identifier.c_str(), "PRIORITY=%i",
                        LOG_INFO, "_TRANSPORT=stdout", nullptr),
      0);
  const UniqueFd out = Stream(kId, false);
  Write(out, "one\n");
  EXPECT_TRUE(Becomes(Request(), "one\n"));
}

TEST_F(TaskJournal, TailsLinesThatTheJournalCuts) {
  const std::string line(100'000, 'x');
  UniqueFd out = Stream(kId, false);
  Write(out, "one\n" + line + "\nthree\nno end");
  out.reset();
  ASSERT_TRUE(Becomes(Request(), "one\n" + line + "\nthree\nno end"));
  EXPECT_EQ(Tail(0), "");
  EXPECT_EQ(Tail(1), "no end");
  EXPECT_EQ(Tail(2), "three\nno end");
  EXPECT_EQ(Tail(3), line + "\nthree\nno end");
  EXPECT_EQ(Tail(9), "one\n" + line + "\nthree\nno end");
}

TEST_F(TaskJournal, FollowsFromTheFirstLineToTheEndOfTheTask) {
  LogRequest request = Request();
  request.follow = true;
  request.tail_lines = 5;
  // A journal that has just begun may have no file.
  const auto reader = Open(request);
  ASSERT_TRUE(reader);
  const UniqueFd out = Stream(kId, false);
  Write(out, "one\n");
  auto bytes = reader->Read(kLong);
  ASSERT_TRUE(bytes && *bytes);
  EXPECT_EQ(**bytes, "one\n");
  Write(out, "two\n");
  bytes = reader->Read(kLong);
  ASSERT_TRUE(bytes && *bytes);
  EXPECT_EQ(**bytes, "two\n");
  reader->WriterHasEnded();
  bytes = reader->Read(kLong);
  ASSERT_TRUE(bytes);
  EXPECT_FALSE(*bytes);
}

TEST_F(TaskJournal, SaysThatAUserMayNotReadIt) {
  const UniqueFd out = Stream(kId, false);
  Write(out, "one\n");
  ASSERT_TRUE(Becomes(Request(), "one\n"));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused = ::setgid(65534) == 0 && ::setuid(65534) == 0 && [] {
      const auto reader = OpenLog(Request());
      return !reader && reader.error().code == Code::kPermissionDenied;
    }();
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mountd::driver
