// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "agent/driver/shim/log_pump.h"
#include "tests/agent/driver/logs/log_files.h"

namespace mountd::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kForEver{10};

// Follows a stream that a shim's pump writes: files of 10 bytes, 3 of them.
class LogFollowTest : public LogFilesTest {
 protected:
  // Owns one start of the task.
  class Start {
   public:
    explicit Start(const std::string& path)
        : stream_{shim::Sink::kFiles, path, 10, 3, UniqueFd()},
          pump_(&stream_) {
      const auto end = pump_.OpenTasksEnd();
      task_ = end ? *end : -1;
    }
    void Write(const std::string& text) {
      EXPECT_EQ(::write(task_, text.data(), text.size()),
                static_cast<ssize_t>(text.size()));
      for (std::size_t i = 0; i <= text.size(); i += 10) {
        pump_.Pump(0);
      }
      EXPECT_EQ(pump_.dropped(), 0U);
    }

   private:
    shim::StreamSetup stream_;
    shim::LogPump pump_;
    int task_ = -1;
  };

  std::string Stream() const { return directory_.File("web.stdout"); }
  static std::string Removed(int files) {
    return "[mountd: the rotation removed " + std::to_string(files) +
           " files with at most " + std::to_string(10 * files) +
           " bytes that nobody had read]\n";
  }
};

TEST_F(LogFollowTest, ReadsWhatComes) {
  Follow();
  EXPECT_EQ(Now(), "");
  EXPECT_FALSE(has_ended_);
  Start start(Stream());
  start.Write("one\n");
  EXPECT_EQ(Now(), "one\n");
  start.Write("two\n");
  EXPECT_EQ(Now(), "two\n");
  EXPECT_FALSE(has_ended_);
}

TEST_F(LogFollowTest, BeginsWithATail) {
  Write(0, "one\ntwo\nthr");
  Follow(1);
  EXPECT_EQ(Now(), "thr");
  Write(0, "ee\n");
  EXPECT_EQ(Now(), "ee\n");
}

TEST_F(LogFollowTest, BeginsAtTheEndForATailOfNothing) {
  Write(0, "one\n");
  Follow(0);
  EXPECT_EQ(Now(), "");
  Write(0, "two\n");
  EXPECT_EQ(Now(), "two\n");
}

TEST_F(LogFollowTest, GoesOnInTheNextFile) {
  Start start(Stream());
  start.Write("0123456");
  Follow();
  EXPECT_EQ(Now(), "0123456");
  start.Write("789abc");
  EXPECT_EQ(Now(), "789abc");
  start.Write("0123456789");
  EXPECT_EQ(Now(), "0123456789");
  EXPECT_EQ(reader_->removed_unread(), 0U);
}

TEST_F(LogFollowTest, LosesNothingByRotationsThatTheFilesHold) {
  Start start(Stream());
  start.Write("01234");
  Follow();
  EXPECT_EQ(Now(), "01234");
  // File 0 is gone then, and the reader still has it.
  start.Write("56789" + std::string(20, 'x') + "yyyyy");
  EXPECT_FALSE(fs::exists(Path(0)));
  EXPECT_EQ(Now(), "56789" + std::string(20, 'x') + "yyyyy");
  EXPECT_EQ(reader_->removed_unread(), 0U);
}

TEST_F(LogFollowTest, SaysWhatFasterRotationsRemoved) {
  Start start(Stream());
  start.Write("01234");
  Follow();
  EXPECT_EQ(Now(), "01234");
  // Files 1 to 5 are full, 6 has a byte, and 4 to 6 are left.
  start.Write("56789" + std::string(51, 'x'));
  EXPECT_EQ(Now(), "56789\n" + Removed(3) + std::string(21, 'x'));
  EXPECT_EQ(reader_->removed_unread(), 30U);
}

TEST_F(LogFollowTest, SaysWhatWasRemovedBeforeTheFirstLook) {
  Follow();
  Start start(Stream());
  start.Write(std::string(35, 'x'));
  EXPECT_EQ(Now(), Removed(1) + std::string(25, 'x'));
  EXPECT_EQ(reader_->removed_unread(), 10U);
}

TEST_F(LogFollowTest, GoesOnAfterARestartOfTheTask) {
  {
    Start start(Stream());
    start.Write("first");
    Follow();
    EXPECT_EQ(Now(), "first");
    start.Write("\n");
  }
  Start again(Stream());
  again.Write("second\n");
  EXPECT_EQ(Now(), "\nsecond\n");
}

TEST_F(LogFollowTest, EndsAfterTheLastByteOfTheWriter) {
  Write(0, "one\n");
  Follow();
  EXPECT_EQ(Now(), "one\n");
  Write(0, "two\n");
  Write(1, "three\n");
  reader_->WriterHasEnded();
  EXPECT_EQ(Now(), "two\nthree\n");
  EXPECT_TRUE(has_ended_);
}

TEST_F(LogFollowTest, WakesFromALongWait) {
  Follow();
  std::thread writer([this] { Write(0, "text"); });
  const auto bytes = reader_->Read(kForEver);
  writer.join();
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, "text");
}

TEST_F(LogFollowTest, WakesAtTheEndOfTheWriter) {
  Follow();
  std::thread writer([this] { reader_->WriterHasEnded(); });
  const auto bytes = reader_->Read(std::chrono::milliseconds::max());
  writer.join();
  ASSERT_TRUE(bytes);
  EXPECT_FALSE(*bytes);
}

TEST_F(LogFollowTest, EndsWithItsDirectory) {
  fs::create_directory(directory_.File("logs"));
  LogRequest request = Request();
  request.directories.logs = directory_.File("logs");
  request.follow = true;
  std::ofstream(directory_.File("logs/web.stdout.0")) << "last";
  Open(request);
  fs::remove_all(directory_.File("logs"));
  EXPECT_EQ(Now(), "last");
  EXPECT_TRUE(has_ended_);
}

// A shim does not append, so it leaves a hole in a truncated file.
TEST_F(LogFollowTest, SaysThatTheFileWasTruncatedAndSkipsTheHole) {
  LogRequest request = Request();
  shim::StreamSetup stream{shim::Sink::kFiles, Stream(),
                           std::uint64_t{1} << 40U, 3, UniqueFd()};
  shim::LogPump pump(&stream);
  const auto task = pump.OpenTasksEnd();
  ASSERT_TRUE(task);
  const std::string old(9000, 'x');
  ASSERT_EQ(::write(*task, old.data(), old.size()), 9000);
  pump.Pump(0);
  Follow();
  EXPECT_EQ(Now(), old);
  ASSERT_EQ(::truncate(Path(0).c_str(), 0), 0);
  EXPECT_EQ(Now(),
            "\n[mountd: somebody has truncated web.stdout.0, and bytes that "
            "nobody has read may be gone]\n");
  ASSERT_EQ(::write(*task, "new\n", 4), 4);
  pump.Pump(0);
  EXPECT_EQ(Now(), "new\n");
}

// A terabyte of zeros takes no time.
TEST_F(LogFollowTest, SkipsAHugeHoleOfATruncatedFile) {
  Write(0, "0123456789");
  Follow();
  EXPECT_EQ(Now(), "0123456789");
  ASSERT_EQ(::truncate(Path(0).c_str(), 0), 0);
  EXPECT_NE(Now(), "");
  ASSERT_EQ(::truncate(Path(0).c_str(), off_t{1} << 40U), 0);
  EXPECT_EQ(Now(), "");
  Write(0, "new\n");
  EXPECT_EQ(Now(), "new\n");
}

TEST_F(LogFollowTest, ReadsAFileThatReplacesTheCurrentOne) {
  Write(0, "old ");
  Follow();
  EXPECT_EQ(Now(), "old ");
  Write(0, "end\n");
  std::ofstream(directory_.File("new")) << "new\n";
  fs::rename(directory_.File("new"), Path(0));
  EXPECT_EQ(Now(), "end\nnew\n");
}

TEST_F(LogFollowTest, FollowsAShimThatBeginsAgainWithNoFiles) {
  Write(7, "old\n");
  Follow();
  EXPECT_EQ(Now(), "old\n");
  Remove(7);
  EXPECT_EQ(Now(), "");
  Start start(Stream());
  start.Write("new\n");
  EXPECT_EQ(Now(), "new\n");
}

TEST_F(LogFollowTest, RefusesALinkThatReplacesTheCurrentFile) {
  Write(0, "old\n");
  Follow();
  EXPECT_EQ(Now(), "old\n");
  Remove(0);
  fs::create_symlink("/etc/passwd", Path(0));
  const auto bytes = reader_->Read(kNow);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kFailedPrecondition);
}

TEST_F(LogFollowTest, RefusesAFifoInPlaceOfTheNextFile) {
  Write(0, "old\n");
  Follow();
  EXPECT_EQ(Now(), "old\n");
  ASSERT_EQ(::mkfifo(Path(1).c_str(), 0600), 0);
  const auto bytes = reader_->Read(kNow);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kFailedPrecondition);
}

// A shim that rotates all the time, and a reader that is as fast as it can be.
// Each byte is read, or is in a file that the reader says is gone.
TEST_F(LogFollowTest, ReadsOrCountsEachByteOfAFlood) {
  constexpr int kBytes = 20'000;
  Follow();
  std::thread writer([this] {
    Start start(Stream());
    for (int i = 0; i < kBytes; i += 10) {
      start.Write(std::string(10, 'x'));
    }
    reader_->WriterHasEnded();
  });
  std::uint64_t read = 0;
  for (;;) {
    const auto bytes = reader_->Read(kForEver);
    if (!bytes && bytes.error().code == Code::kUnavailable) {
      continue;
    }
    EXPECT_TRUE(bytes) << bytes.error().Message();
    if (!bytes || !*bytes) {
      break;
    }
    read +=
        (*bytes)->find("[mountd: ") != std::string::npos ? 0 : (*bytes)->size();
  }
  writer.join();
  EXPECT_EQ(read + reader_->removed_unread(), std::uint64_t{kBytes});
}

}  // namespace
}  // namespace mountd::driver
