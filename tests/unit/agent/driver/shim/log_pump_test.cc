// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/log_pump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tests/support/temp_directory.h"

namespace mountd::shim {
namespace {

namespace fs = std::filesystem;

constexpr Milliseconds kPatience = LogPump::kPatience;
constexpr std::size_t kPipeBytes = 65536;
constexpr std::size_t kFewBytes = 10;

// Owns a pump whose task is the test. The test decides the time.
class LogPumpTest : public ::testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  void Open(Sink sink, std::uint64_t file_bytes = 0, std::uint64_t files = 0) {
    stream_ = StreamSetup{sink, Path(), file_bytes, files, UniqueFd()};
    pump_.emplace(&stream_);
    const auto end = pump_->OpenTasksEnd();
    ASSERT_TRUE(end) << end.error().Message();
    task_.reset(::fcntl(*end, F_DUPFD_CLOEXEC, 3));
    pump_->CloseTasksEnd();
    ASSERT_EQ(::fcntl(task_.get(), F_SETFL, O_NONBLOCK), 0);
  }

  std::string Path() const { return directory_.File("out"); }
  bool Write(const std::string& text) {
    return ::write(task_.get(), text.data(), text.size()) ==
           static_cast<ssize_t>(text.size());
  }
  std::string File(int number) const {
    std::ifstream file(Path() + "." + std::to_string(number));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool HasFile(int number) const {
    return fs::exists(Path() + "." + std::to_string(number));
  }

  const TempDirectory directory_;
  StreamSetup stream_;
  std::optional<LogPump> pump_;
  UniqueFd task_;
};

TEST_F(LogPumpTest, WritesIntoTheFirstFile) {
  Open(Sink::kFiles, 100, 3);
  ASSERT_TRUE(Write("hello\n"));
  pump_->Pump(0);
  EXPECT_EQ(File(0), "hello\n");
  struct stat file = {};
  ASSERT_EQ(::stat((Path() + ".0").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0600U);
}

TEST_F(LogPumpTest, RotatesBySizeAndKeepsTheNewestFiles) {
  Open(Sink::kFiles, 4, 2);
  ASSERT_TRUE(Write("aaaabbbbccccd"));
  pump_->Pump(0);
  EXPECT_FALSE(HasFile(0));
  EXPECT_FALSE(HasFile(1));
  EXPECT_EQ(File(2), "cccc");
  EXPECT_EQ(File(3), "d");
  EXPECT_EQ(pump_->dropped(), 0U);
}

TEST_F(LogPumpTest, BeginsAFileAfterThoseOfAnEarlierTask) {
  std::ofstream(Path() + ".0") << "old";
  std::ofstream(Path() + ".9") << "ab";
  std::ofstream(Path() + ".10") << "cd";
  std::ofstream(Path() + ".x") << "no log";
  Open(Sink::kFiles, 4, 2);
  ASSERT_TRUE(Write("efghi"));
  pump_->Pump(0);
  EXPECT_FALSE(HasFile(9));
  EXPECT_FALSE(HasFile(10));
  EXPECT_EQ(File(11), "efgh");
  EXPECT_EQ(File(12), "i");
}

TEST_F(LogPumpTest, OverwritesNothingOfAShimThatStillWrites) {
  Open(Sink::kFiles, 6, 9);
  ASSERT_TRUE(Write("one"));
  pump_->Pump(0);
  StreamSetup again{Sink::kFiles, Path(), 6, 9, UniqueFd()};
  LogPump second(&again);
  const auto end = second.OpenTasksEnd();
  ASSERT_TRUE(end) << end.error().Message();
  ASSERT_EQ(::write(*end, "TWO", 3), 3);
  second.Pump(0);
  ASSERT_TRUE(Write("three"));
  pump_->Pump(0);
  EXPECT_EQ(File(0), "onethr");
  EXPECT_EQ(File(1), "TWO");
  EXPECT_EQ(File(2), "ee");
}

TEST_F(LogPumpTest, EndsAfterTheLastByte) {
  Open(Sink::kFiles, 100, 3);
  ASSERT_TRUE(Write("last"));
  task_.reset();
  pump_->Pump(0);
  EXPECT_EQ(File(0), "last");
  EXPECT_EQ(pump_->WaitFd(), -1);
  EXPECT_FALSE(pump_->WakeAt());
}

TEST_F(LogPumpTest, FollowsNoLinkThatATaskCouldHavePlaced) {
  fs::create_symlink(directory_.File("victim"), Path() + ".0");
  Open(Sink::kFiles, 100, 3);
  ASSERT_TRUE(Write("text"));
  pump_->Pump(0);
  EXPECT_FALSE(fs::exists(directory_.File("victim")));
}

TEST_F(LogPumpTest, GivesAFifoToItsReader) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  const UniqueFd reader(
      ::open(Path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Open(Sink::kFifo);
  ASSERT_TRUE(Write("hello"));
  pump_->Pump(0);
  std::array<char, 16> text{};
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 5);
}

// The task of a Nomad client may replace a directory above its FIFO by a link.
TEST_F(LogPumpTest, FollowsNoLinkOnTheWayToAFifo) {
  fs::create_directory(directory_.File("host"));
  fs::create_directory_symlink(directory_.File("host"),
                               directory_.File("logs"));
  ASSERT_EQ(::mkfifo(directory_.File("host/out").c_str(), 0600), 0);
  const UniqueFd reader(::open(directory_.File("host/out").c_str(),
                               O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  for (const char* way : {"logs/out", "out"}) {
    if (way == std::string("out")) {
      fs::create_symlink(directory_.File("host/out"), Path());
    }
    Open(Sink::kFifo);
    stream_.path = directory_.File(way);
    ASSERT_TRUE(Write("secret"));
    pump_->Pump(0);
    std::array<char, 16> text{};
    EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 0) << way;
  }
}

TEST_F(LogPumpTest, KeepsWhatFitsIntoThePipeForALateReader) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  Open(Sink::kFifo);
  ASSERT_TRUE(Write("early"));
  pump_->Pump(0);
  pump_->Pump(100 * kPatience);
  EXPECT_EQ(pump_->dropped(), 0U);
  EXPECT_EQ(::fcntl(task_.get(), F_GETPIPE_SZ), int{kPipeBytes});
  const UniqueFd reader(
      ::open(Path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  pump_->Pump(102 * kPatience);
  std::array<char, 16> text{};
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 5);
}

// A naive pump waits for its sink for ever, or keeps all bytes.
TEST_F(LogPumpTest, DropsAFloodThatNobodyReads) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  Open(Sink::kFifo);
  ASSERT_TRUE(Write(std::string(kPipeBytes, 'x')));
  EXPECT_FALSE(Write("x"));
  pump_->Pump(0);
  EXPECT_FALSE(Write("x")) << "the pump has dropped bytes too early";
  pump_->Pump(kPatience);
  EXPECT_EQ(pump_->dropped(), kPipeBytes);
  // The pump now drops at once.
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Write(std::string(kPipeBytes, 'x')));
    pump_->Pump(kPatience + i);
  }
  EXPECT_EQ(pump_->dropped(), 4 * kPipeBytes);
  // A reader gets what comes from now on.
  const UniqueFd reader(
      ::open(Path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(Write("new"));
  pump_->Pump(10 * kPatience);
  std::array<char, 16> text{};
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 3);
}

// A naive pump counts bytes, of which 16 pages may have a few only.
TEST_F(LogPumpTest, DropsPagesThatNobodyReads) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  std::ofstream(directory_.File("page"))
      << std::string(kFewBytes, 'x') << std::flush;
  const UniqueFd page(
      ::open(directory_.File("page").c_str(), O_RDONLY | O_CLOEXEC));
  Open(Sink::kFifo);
  const auto send = [&] {
    off_t begin = 0;
    return ::sendfile(task_.get(), page.get(), &begin, kFewBytes) ==
           static_cast<ssize_t>(kFewBytes);
  };
  std::uint64_t sent = 0;
  while (send()) {
    sent += kFewBytes;
  }
  ASSERT_LT(sent, kPipeBytes / 2);
  pump_->Pump(0);
  EXPECT_FALSE(send()) << "the pump has dropped bytes too early";
  pump_->Pump(kPatience);
  EXPECT_EQ(pump_->dropped(), sent);
  EXPECT_TRUE(send());
  EXPECT_EQ(::fcntl(task_.get(), F_GETPIPE_SZ), int{kPipeBytes});
}

TEST_F(LogPumpTest, OpensTheFifoAgainForTheNextReader) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  UniqueFd reader(::open(Path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Open(Sink::kFifo);
  ASSERT_TRUE(Write("one"));
  pump_->Pump(0);
  reader.reset();
  ASSERT_TRUE(Write("two"));
  pump_->Pump(1);
  reader.reset(::open(Path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  pump_->Pump(1 + 2 * kPatience);
  std::array<char, 16> text{};
  const ssize_t size = ::read(reader.get(), text.data(), text.size());
  EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(size)), "two");
}

TEST_F(LogPumpTest, WaitsForAFullFifoWithoutTurningInCircles) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  const UniqueFd reader(
      ::open(Path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Open(Sink::kFifo);
  ASSERT_TRUE(Write(std::string(kPipeBytes, 'x')));
  pump_->Pump(0);
  ASSERT_TRUE(Write("more"));
  pump_->Pump(1);
  pollfd waiting = {pump_->WaitFd(), pump_->WaitEvents(), 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  ASSERT_TRUE(pump_->WakeAt());
  EXPECT_GT(*pump_->WakeAt(), 1);
}

// A naive pump waits for the time at which it would have tried again, and that
// time never comes while nothing is in the pipe.
TEST_F(LogPumpTest, ATaskThatTakesItsBytesBackCausesNoCircles) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  Open(Sink::kFifo);
  ASSERT_TRUE(Write("x"));
  pump_->Pump(0);
  ASSERT_TRUE(pump_->WakeAt());
  char byte = 0;
  ASSERT_EQ(::read(task_.get(), &byte, 1), 1);
  pump_->Pump(2 * kPatience);
  EXPECT_FALSE(pump_->WakeAt());
  pollfd waiting = {pump_->WaitFd(), pump_->WaitEvents(), 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  // The pump waits for bytes as at its start, and drops none too early.
  ASSERT_TRUE(Write(std::string(kPipeBytes, 'x')));
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
  pump_->Pump(3 * kPatience);
  EXPECT_EQ(pump_->dropped(), 0U);
}

// An empty pipe between two drops ends no flood.
TEST_F(LogPumpTest, DropsAFloodAtOnceAfterALookAtAnEmptyPipe) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  Open(Sink::kFifo);
  ASSERT_TRUE(Write(std::string(kPipeBytes, 'x')));
  pump_->Pump(0);
  pump_->Pump(kPatience);
  ASSERT_EQ(pump_->dropped(), kPipeBytes);
  pump_->Pump(kPatience + 1);
  EXPECT_FALSE(pump_->WakeAt());
  ASSERT_TRUE(Write(std::string(kPipeBytes, 'x')));
  pump_->Pump(kPatience + 2);
  EXPECT_EQ(pump_->dropped(), 2 * kPipeBytes);
}

TEST_F(LogPumpTest, WaitsForADiskWithoutTurningInCircles) {
  Open(Sink::kFiles, 100, 3);
  fs::remove_all(directory_.File(""));
  ASSERT_TRUE(Write("text"));
  pump_->Pump(0);
  EXPECT_EQ(pump_->WaitFd(), -1);
  ASSERT_TRUE(pump_->WakeAt());
  fs::create_directory(directory_.File(""));
  pump_->Pump(*pump_->WakeAt());
  EXPECT_EQ(File(0), "text");
}

TEST_F(LogPumpTest, CausesNoSigpipeAfterItsOwnEnd) {
  Open(Sink::kFiles, 100, 3);
  pump_.reset();
  EXPECT_TRUE(Write("still there"));
}

TEST_F(LogPumpTest, OpensNothingWithoutASink) {
  Open(Sink::kNone);
  EXPECT_TRUE(Write(std::string(4 * kPipeBytes, 'x')));
  EXPECT_EQ(pump_->WaitFd(), -1);
  EXPECT_TRUE(fs::is_empty(directory_.File("")));
}

}  // namespace
}  // namespace mountd::shim
