// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "mountd/base/unique_fd.h"
#include "tests/agent/driver/logs/log_files.h"

namespace mountd::driver {
namespace {

namespace fs = std::filesystem;

using FileLogTest = LogFilesTest;

TEST_F(FileLogTest, ReadsAllFilesInTheOrderOfTheirNumbers) {
  Write(9, "nine\n");
  Write(10, "ten\nel");
  Write(11, "even");
  EXPECT_EQ(All(), "nine\nten\neleven");
  EXPECT_TRUE(has_ended_);
}

TEST_F(FileLogTest, ReadsEachStreamAlone) {
  Write(0, "out\n");
  std::ofstream(Path(0, "stderr")) << "err\n";
  EXPECT_EQ(All(), "out\n");
  LogRequest request = Request();
  request.standard_error = true;
  Open(request);
  EXPECT_EQ(Now(), "err\n");
}

TEST_F(FileLogTest, SkipsNamesThatNoShimGives) {
  Write(1, "log\n");
  for (const char* name :
       {"web.stdout.01", "web.stdout.", "web.stdout.x", "web.stdout.-1",
        "web.stdout.99999999999999999999", "web.stdout.18446744073709551615",
        "web.stdout2.7", "other.stdout.3"}) {
    std::ofstream(directory_.File(name)) << "no log\n";
  }
  EXPECT_EQ(All(), "log\n");
  EXPECT_EQ(Tail(9), "log\n");
}

TEST_F(FileLogTest, EndsWithoutAnyFile) {
  EXPECT_EQ(All(), "");
  EXPECT_TRUE(has_ended_);
  EXPECT_EQ(Tail(3), "");
  EXPECT_TRUE(has_ended_);
}

// A task that writes faster than the reader reads must not hold the reader.
TEST_F(FileLogTest, EndsAtTheLastByteOfItsBegin) {
  Write(0, "old\n");
  Open(Request());
  Write(0, "later\n");
  Write(1, "later\n");
  EXPECT_EQ(Now(), "old\n");
  EXPECT_TRUE(has_ended_);
}

TEST_F(FileLogTest, EndsThoughTheLastFileIsGone) {
  Write(0, "a");
  Write(1, "b");
  Open(Request());
  Write(2, "c");
  Remove(1);
  EXPECT_EQ(Now(),
            "a\n[mountd: the rotation removed 1 files with at most 10 bytes "
            "that nobody had read]\n");
  EXPECT_TRUE(has_ended_);
}

TEST_F(FileLogTest, TailsLinesOfOneFile) {
  Write(0, "one\ntwo\n\nfour\n");
  EXPECT_EQ(Tail(0), "");
  EXPECT_TRUE(has_ended_);
  EXPECT_EQ(Tail(1), "four\n");
  EXPECT_EQ(Tail(2), "\nfour\n");
  EXPECT_EQ(Tail(3), "two\n\nfour\n");
  EXPECT_EQ(Tail(4), "one\ntwo\n\nfour\n");
  EXPECT_EQ(Tail(5), "one\ntwo\n\nfour\n");
}

TEST_F(FileLogTest, TailsALastLineWithoutALineEnd) {
  Write(0, "one\ntwo\nthr");
  EXPECT_EQ(Tail(1), "thr");
  EXPECT_EQ(Tail(2), "two\nthr");
}

TEST_F(FileLogTest, TailsLinesThatARotationCuts) {
  Write(3, "one\ntw");
  Write(4, "o");
  Write(5, "");
  Write(6, "\nthree\n");
  EXPECT_EQ(Tail(1), "three\n");
  EXPECT_EQ(Tail(2), "two\nthree\n");
  EXPECT_EQ(Tail(3), "one\ntwo\nthree\n");
}

// The line end at the very end is alone in the last file.
TEST_F(FileLogTest, TailsALineWhoseLineEndIsInTheNextFile) {
  Write(0, "one\ntwo");
  Write(1, "\n");
  EXPECT_EQ(Tail(1), "two\n");
  EXPECT_EQ(Tail(2), "one\ntwo\n");
}

TEST_F(FileLogTest, TailsLinesLongerThanTheBuffer) {
  const std::string line(3 * LogReader::kMostBytes + 7, 'x');
  Write(0, "first\n" + line);
  Write(1, line + "\nlast\n");
  EXPECT_EQ(Tail(1), "last\n");
  EXPECT_EQ(Tail(2), line + line + "\nlast\n");
  EXPECT_EQ(Tail(3), "first\n" + line + line + "\nlast\n");
}

// Each place of a line end relative to the pieces that the tail reads.
TEST_F(FileLogTest, TailsLinesAtTheBoundsOfTheBuffer) {
  for (const int more : {-2, -1, 0, 1, 2}) {
    const std::string line(
        LogReader::kMostBytes + static_cast<std::size_t>(more), 'x');
    Remove(0);
    Write(0, "first\n" + line + "\n");
    EXPECT_EQ(Tail(1).size(), line.size() + 1);
    EXPECT_EQ(Tail(2).size(), line.size() + 7);
  }
}

TEST_F(FileLogTest, RefusesALinkWithoutReadingItsTarget) {
  std::ofstream(directory_.File("secret")) << "secret";
  fs::create_symlink(directory_.File("secret"), Path(0));
  EXPECT_EQ(Refusal(Request()), Code::kFailedPrecondition);
}

TEST_F(FileLogTest, RefusesAFifoWithoutWaitingForItsWriter) {
  ASSERT_EQ(::mkfifo(Path(0).c_str(), 0600), 0);
  EXPECT_EQ(Refusal(Request()), Code::kFailedPrecondition);
}

TEST_F(FileLogTest, RefusesADirectoryAndASocket) {
  fs::create_directory(Path(0));
  EXPECT_EQ(Refusal(Request()), Code::kFailedPrecondition);
  fs::remove(Path(0));
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  ASSERT_LT(Path(0).copy(name.sun_path, sizeof(name.sun_path) - 1),
            sizeof(name.sun_path) - 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name),
                   sizeof(name)),
            0);
  EXPECT_EQ(Refusal(Request()), Code::kFailedPrecondition);
}

// A user could link a file of root's into the directory, and root reads it.
TEST_F(FileLogTest, RefusesAFileOfAnotherUser) {
  Write(0, "text");
  if (::chown(Path(0).c_str(), 1, 1) != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  EXPECT_EQ(Refusal(Request()), Code::kPermissionDenied);
}

TEST_F(FileLogTest, RefusesALinkInPlaceOfTheDirectory) {
  fs::create_directory(directory_.File("real"));
  fs::create_symlink(directory_.File("real"), directory_.File("link"));
  LogRequest request = Request();
  request.directories.logs = directory_.File("link");
  EXPECT_FALSE(OpenLog(request));
}

TEST_F(FileLogTest, SaysThatTheDirectoryIsNotThere) {
  LogRequest request = Request();
  request.directories.logs = directory_.File("none");
  EXPECT_EQ(Refusal(request), Code::kNotFound);
}

TEST_F(FileLogTest, RefusesNamesThatLeaveTheDirectory) {
  for (const std::string& name :
       {std::string(), std::string("../web"), std::string("a/b"),
        std::string("a\0b", 3), std::string(250, 'x')}) {
    LogRequest request = Request();
    request.task = name;
    EXPECT_EQ(Refusal(request), Code::kInvalidArgument) << name;
  }
  LogRequest request = Request();
  request.directories.logs = "";
  EXPECT_EQ(Refusal(request), Code::kInvalidArgument);
}

TEST_F(FileLogTest, SaysWhoHasTheOutputOtherwise) {
  LogRequest request = Request();
  request.config.mode = LogMode::kOff;
  auto reader = OpenLog(request);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Code::kFailedPrecondition);
  EXPECT_NE(reader.error().detail.find("nobody keeps"), std::string::npos);

  request.config.mode = LogMode::kFifos;
  request.config.stdout_path = "/run/out";
  request.config.stderr_path = "/run/err";
  request.standard_error = true;
  reader = OpenLog(request);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Code::kFailedPrecondition);
  EXPECT_NE(reader.error().detail.find("FIFO /run/err has"), std::string::npos);
}

}  // namespace
}  // namespace mountd::driver
