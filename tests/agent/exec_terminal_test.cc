// SPDX-License-Identifier: LGPL-2.1-or-later
// The terminal of an exec is raw meanwhile, and restored whatever happens.
#include "agent/mountctl/tasks/exec_terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <vector>

#include "agent/mountctl/tasks/end_signals.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent::test {
namespace {

class ExecTerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    int controller = -1;
    int terminal = -1;
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    ASSERT_EQ(::openpty(&controller, &terminal, nullptr, nullptr, &size), 0);
    controller_.reset(controller);
    terminal_.reset(terminal);
  }

  // Line editing and echo are on.
  bool IsSane() const {
    termios mode{};
    return ::tcgetattr(terminal_.get(), &mode) == 0 &&
           (mode.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
  }

  UniqueFd controller_;
  UniqueFd terminal_;
};

TEST_F(ExecTerminalTest, IsRawUntilItEnds) {
  ASSERT_TRUE(IsSane());
  {
    const auto raw = ExecTerminal::Begin(terminal_.get());
    ASSERT_TRUE(raw) << raw.error().Message();
    EXPECT_FALSE(IsSane());
  }
  EXPECT_TRUE(IsSane());
}

TEST_F(ExecTerminalTest, IsNotRawForSizesAlone) {
  const auto terminal =
      ExecTerminal::Begin(terminal_.get(), ExecTerminal::Mode::kSizes);
  ASSERT_TRUE(terminal) << terminal.error().Message();
  EXPECT_TRUE(IsSane());
  EXPECT_EQ((*terminal)->sizes().Next().value(),
            (driver::TerminalSize{24, 80}));
}

TEST_F(ExecTerminalTest, NoTerminalIsRefused) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(ExecTerminal::Begin(null.get()).error().code,
            Code::kInvalidArgument);
}

TEST_F(ExecTerminalTest, TellsEachSizeUntilItIsCancelled) {
  const auto raw = ExecTerminal::Begin(terminal_.get());
  ASSERT_TRUE(raw);
  auto& sizes = (*raw)->sizes();
  EXPECT_EQ(sizes.Next().value(), (driver::TerminalSize{24, 80}));
  winsize size{};
  size.ws_row = 30;
  size.ws_col = 100;
  ASSERT_EQ(::ioctl(terminal_.get(), TIOCSWINSZ, &size), 0);
  ::raise(SIGWINCH);
  EXPECT_EQ(sizes.Next().value(), (driver::TerminalSize{30, 100}));
  sizes.Cancel();
  EXPECT_EQ(sizes.Next().value(), std::nullopt);
  EXPECT_EQ(sizes.Next().value(), std::nullopt);
}

TEST_F(ExecTerminalTest, LeavesSignalsThatTheProgramHandles) {
  EndSignals signals;
  const auto raw = ExecTerminal::Begin(terminal_.get());
  ASSERT_TRUE(raw);
  ::raise(SIGTERM);
  EXPECT_EQ(signals.first(), SIGTERM);
}

TEST(EndSignalsTest, CallsOnceForEachSignal) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> counts;
  EndSignals signals;
  ::raise(SIGHUP);
  ::raise(SIGPIPE);
  signals.Then([&](int count) {
    const std::lock_guard lock(mutex);
    counts.push_back(count);
    changed.notify_all();
  });
  const auto await = [&](std::size_t size) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return counts.size() >= size; });
  };
  await(1);
  ::raise(SIGINT);
  await(2);
  EXPECT_EQ(counts.back(), 2);
  EXPECT_EQ(signals.first(), SIGHUP);
}

class EndingSignalTest : public ExecTerminalTest,
                         public testing::WithParamInterface<int> {};

TEST_P(EndingSignalTest, RestoresTheTerminalAndEndsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto raw = ExecTerminal::Begin(terminal_.get());
    // A core file would be in the way.
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    ::raise(raw && !IsSane() ? GetParam() : SIGKILL);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_TRUE(IsSane());
}

INSTANTIATE_TEST_SUITE_P(Of, EndingSignalTest,
                         testing::Values(SIGTERM, SIGINT, SIGHUP, SIGQUIT,
                                         SIGPIPE, SIGABRT, SIGALRM, SIGUSR1,
                                         SIGUSR2, SIGXCPU));

}  // namespace
}  // namespace mountd::agent::test
