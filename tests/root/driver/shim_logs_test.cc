// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The output of tasks of mountd-task-shim, and the shims' memory.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "tests/root/driver/shim_fixture.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using shim::Kind;
using shim::Message;
using shim::Sink;
using shim::Tag;

constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20U;

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TaskShimLogs : public ShimFixture {
 protected:
  // Starts a task with that sink for both streams.
  Task RunWith(Sink sink, const std::string& script) {
    Task task = MakeTask("web");
    auto launch = MakeLaunch(task, script);
    const auto number = static_cast<std::uint64_t>(sink);
    launch.create.Add(Tag::kStdoutSink, number)
        .Add(Tag::kStderrSink, number)
        .Add(Tag::kStdoutPath, task.directory + "/logs/out")
        .Add(Tag::kStderrPath, task.directory + "/logs/err")
        .Add(Tag::kLogFileBytes, kMegabyte)
        .Add(Tag::kLogFiles, std::uint64_t{3});
    launch.stdout_fd = passed_.get();
    launch.stderr_fd = passed_.get();
    Launch(&task, std::move(launch));
    return task;
  }

  void Launch(Task* task, shim::Launch launch) {
    auto shim = shim::LaunchShim(std::move(launch));
    ASSERT_TRUE(shim) << shim.error().Message();
    task->shim.emplace(*std::move(shim));
    const auto created =
        task->shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
    ASSERT_TRUE(created) << created.error().Message();
    Start(*task);
  }

  // Returns a number of the shim's or another process's smaps_rollup, in bytes.
  static std::uint64_t MemoryOf(pid_t pid, const std::string& key) {
    std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string word; rollup >> word;) {
      if (word == key) {
        std::uint64_t kilobytes = 0;
        rollup >> kilobytes;
        return kilobytes * 1024;
      }
    }
    return 0;
  }

  UniqueFd passed_;
};

TEST_F(TaskShimLogs, HasTheWholeOutputInFilesAtTheExit) {
  const Task task =
      RunWith(Sink::kFiles, "echo hello; echo trouble >&2; seq 1 1000");
  EXPECT_EQ(WaitFor(task), "code 0");
  const std::string text = FileText(task.directory + "/logs/out.0");
  EXPECT_TRUE(text.starts_with("hello\n1\n2\n"));
  EXPECT_TRUE(text.ends_with("\n999\n1000\n"));
  EXPECT_EQ(FileText(task.directory + "/logs/err.0"), "trouble\n");
}

TEST_F(TaskShimLogs, RotatesFiles) {
  const Task task =
      RunWith(Sink::kFiles, "head -c 5500000 /dev/zero; echo; echo last");
  EXPECT_EQ(WaitFor(task), "code 0");
  std::uint64_t bytes = 0;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(task.directory + "/logs")) {
    EXPECT_LE(entry.file_size(), kMegabyte);
    bytes += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, 3);
  EXPECT_GT(bytes, 2 * kMegabyte);
  EXPECT_TRUE(FileText(task.directory + "/logs/out.5").ends_with("\nlast\n"));
}

// A naive pump blocks the task, or keeps what nobody reads.
TEST_F(TaskShimLogs, LetsATaskGoOnWhoseFifoNobodyReads) {
  Task task = MakeTask("web");
  const std::string fifo = task.directory + "/logs/out";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(::chown(fifo.c_str(), kTaskUser, kTaskUser), 0);
  auto launch =
      MakeLaunch(task, "head -c 200000000 /dev/zero; echo done; sleep 1000");
  launch.create.Add(Tag::kStdoutSink, static_cast<std::uint64_t>(Sink::kFifo))
      .Add(Tag::kStdoutPath, fifo);
  ASSERT_NO_FATAL_FAILURE(Launch(&task, std::move(launch)));
  const pid_t shim = ShimOf(task);
  std::uint64_t dropped = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto status = Ask(task, Kind::kGetStatus);
    dropped = status ? status->message.Number(Tag::kStdoutDropped) : 0;
    return dropped >= 200'000'000;
  })) << dropped;
  // A sanitizer has memory of its own.
#ifdef MOUNTD_SANITIZED
  constexpr std::uint64_t kMost = 100 * kMegabyte;
#else
  constexpr std::uint64_t kMost = 4 * kMegabyte;
#endif
  EXPECT_LT(MemoryOf(shim, "Rss:"), kMost);
  // The shim still serves, and a reader gets what comes from now on.
  EXPECT_EQ(ExitOf(Stop(task, SIGKILL, 0)), "signal 9");
}

TEST_F(TaskShimLogs, GivesAFifoToItsReader) {
  Task task = MakeTask("web");
  const std::string fifo = task.directory + "/logs/out";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(::chown(fifo.c_str(), kTaskUser, kTaskUser), 0);
  const UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK));
  auto launch = MakeLaunch(task, "echo hello");
  launch.create.Add(Tag::kStdoutSink, static_cast<std::uint64_t>(Sink::kFifo))
      .Add(Tag::kStdoutPath, fifo);
  ASSERT_NO_FATAL_FAILURE(Launch(&task, std::move(launch)));
  EXPECT_EQ(WaitFor(task), "code 0");
  std::array<char, 16> text{};
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 6);
  // The runtime has given the task's output to the task's user, and the FIFO
  // is still the driver's.
  struct stat file = {};
  ASSERT_EQ(::stat(fifo.c_str(), &file), 0);
  EXPECT_EQ(file.st_uid, kTaskUser);
}

TEST_F(TaskShimLogs, OpensNothingWithoutCollection) {
  const Task task = RunWith(Sink::kNone, "ls -l /proc/1/fd; sleep 1000");
  const std::string init = "/proc/" + std::to_string(InitOf(task));
  EXPECT_EQ(fs::read_symlink(init + "/fd/1"), "/dev/null");
  for (const auto& fd : fs::directory_iterator(
           "/proc/" + std::to_string(ShimOf(task)) + "/fd")) {
    std::error_code gone;
    EXPECT_FALSE(fs::read_symlink(fd, gone).string().starts_with("pipe:"));
  }
  EXPECT_TRUE(fs::is_empty(task.directory + "/logs"));
}

TEST_F(TaskShimLogs, GivesTheTaskTheStreamOfTheDriver) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  passed_.reset(ends[1]);
  const Task task = RunWith(Sink::kPassed, "echo to the journal");
  passed_.reset();
  EXPECT_EQ(WaitFor(task), "code 0");
  std::array<char, 32> text{};
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 15);
  // The shim keeps no end of it, so the reader sees the task's end.
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 0);
}

TEST_F(TaskShimLogs, LetsATaskWriteOnWhoseShimWasKilled) {
  const Task task =
      RunWith(Sink::kFiles, "while :; do echo line; sleep 0.01; done");
  ASSERT_TRUE(Eventually(
      [&] { return !FileText(task.directory + "/logs/out.0").empty(); }));
  const pid_t init = InitOf(task);
  ASSERT_EQ(::kill(ShimOf(task), SIGKILL), 0);
  ::usleep(200'000);  // several writes of the task
  EXPECT_EQ(::kill(init, 0), 0);
  EXPECT_TRUE(IsPopulated("web"));
}

#ifndef MOUNTD_SANITIZED
TEST_F(TaskShimLogs, AHundredShimsNeedLittleMemory) {
  constexpr std::size_t kShims = 100;
  constexpr std::uint64_t kMostEach = 600'000;
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < kShims; ++i) {
    tasks.push_back(Run("task-" + std::to_string(i), "exec sleep 1000"));
  }
  const std::uint64_t all = std::accumulate(
      tasks.begin(), tasks.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Task& task) {
        const std::uint64_t pss = MemoryOf(ShimOf(task), "Pss:");
        EXPECT_GT(pss, 0U);
        return sum + pss;
      });
  std::printf("PSS of a shim: %zu kB\n", std::size_t{all / kShims / 1000});
  EXPECT_LE(all / kShims, kMostEach);
}
#endif

}  // namespace
}  // namespace mountd::testing
