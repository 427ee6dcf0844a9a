// SPDX-License-Identifier: LGPL-2.1-or-later
// The raw form of streaming exec over a driver that has the high-level one.
#include "agent/driver/raw_over_exec.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <thread>

#include "agent/driver/exec_over_raw.h"
#include "tests/agent/driver/raw_stream.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

// A driver whose command is a function of the test's.
class Commands final : public StreamingExec {
 public:
  using Body = std::function<Result<ExitResult>(const ExecOptions&)>;
  explicit Commands(Body body) : body_(std::move(body)) {}
  Result<ExitResult> ExecTaskStreaming(const std::string&,
                                       const ExecOptions& options) override {
    return body_(options);
  }

 private:
  Body body_;
};

std::string ReadToEnd(int fd) {
  std::string all;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = ::read(fd, piece.data(), piece.size())) > 0;) {
    all.append(piece.data(), static_cast<std::size_t>(got));
  }
  return all;
}

void AwaitReadable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 60'000), 1);
}

TEST(RawOverExec, MovesMessagesAndSendsTheResultLast) {
  Commands driver([](const ExecOptions& options) -> Result<ExitResult> {
    EXPECT_EQ(options.command, std::vector<std::string>{"cat"});
    EXPECT_TRUE(options.terminal);
    const auto size = options.sizes->Next();
    EXPECT_TRUE(size && *size == (TerminalSize{3, 4}));
    const std::string text = ReadToEnd(options.stdin_fd);
    EXPECT_EQ(::write(options.stdout_fd, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    EXPECT_EQ(::write(options.stderr_fd, "no", 2), 2);
    return ExitResult{.exit_code = 9};
  });
  RawStream stream;
  stream.Put({});
  stream.PutSize({3, 4});
  stream.PutInput("one ");
  stream.PutInput("two", true);
  EXPECT_THAT(RawOverExec(driver, "t", {"cat"}, true, stream), IsOk());
  EXPECT_EQ(stream.output(), "one two");
  EXPECT_EQ(stream.error(), "no");
  ASSERT_TRUE(stream.result());
  EXPECT_EQ(stream.result()->exit_code, 9);
}

TEST(RawOverExec, TheEndOfTheMessagesIsTheEndOfTheInputAlone) {
  Commands driver([](const ExecOptions& options) -> Result<ExitResult> {
    EXPECT_EQ(ReadToEnd(options.stdin_fd), "");
    pollfd gone{options.caller_fd, POLLIN, 0};
    EXPECT_EQ(::poll(&gone, 1, 0), 0);
    return ExitResult();
  });
  RawStream stream;
  stream.End();
  EXPECT_THAT(RawOverExec(driver, "t", {"cat"}, false, stream), IsOk());
  EXPECT_TRUE(stream.result());
}

TEST(RawOverExec, ABrokenStreamIsACallerThatHasGone) {
  // The second one's input has no room in a pipe, so nobody receives.
  for (const std::size_t input : {std::size_t{0}, std::size_t{1} << 20U}) {
    RawStream stream;
    Commands driver([&](const ExecOptions& options) -> Result<ExitResult> {
      stream.Break();
      AwaitReadable(options.caller_fd);
      return CallerGone("t");
    });
    stream.PutInput(std::string(input, 'x'));
    EXPECT_THAT(RawOverExec(driver, "t", {"cat"}, false, stream),
                IsErr(Code::kUnavailable));
    EXPECT_FALSE(stream.result());
  }
}

TEST(RawOverExec, ACommandThatReadsNothingEndsWhileItsInputWaits) {
  Commands driver([](const ExecOptions&) -> Result<ExitResult> {
    return MakeError(Code::kFailedPrecondition, "exec", "t", "has ended");
  });
  RawStream stream;
  stream.PutInput(std::string(std::size_t{1} << 20U, 'x'));
  EXPECT_THAT(RawOverExec(driver, "t", {"true"}, false, stream),
              IsErr(Code::kFailedPrecondition));
}

// The other adapter tells a raw driver so, too.
class WaitsForMessages final : public RawStreamingExec {
 public:
  Result<void> ExecTaskStreamingRaw(const std::string&,
                                    const std::vector<std::string>&, bool,
                                    RawExecStream& stream) override {
    for (;;) {
      MOUNTD_ASSIGN(const auto request, stream.Receive());
      if (request && !request->stdin_data) {
        return Ok();
      }
    }
  }
};

TEST(ExecOverRaw, ACallerThatHasGoneEndsTheCommand) {
  WaitsForMessages driver;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd caller(ends[0]);
  UniqueFd callers_end(ends[1]);
  ExecOptions options;
  options.command = {"cat"};
  options.caller_fd = caller.get();
  std::thread goes([&] { callers_end.reset(); });
  EXPECT_THAT(ExecOverRaw(driver, "t", options), IsErr(Code::kAborted));
  goes.join();
}

// A sanitizer has threads of its own.
#ifndef MOUNTD_SANITIZED

// Calls `body` as a user who may have `threads` more threads. Returns the code
// of its error, or -1 for a process that a signal has ended.
int CodeWithThreads(rlim_t threads, const std::function<Result<void>()>& body) {
  constexpr uid_t kUnused = 65533;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1 + threads, 1 + threads};
    const bool is_ready = ::setrlimit(RLIMIT_NPROC, &limit) == 0 &&
                          ::setresuid(kUnused, kUnused, kUnused) == 0;
    const Result<void> done = is_ready ? body() : Ok();
    ::_exit(done ? 0 : static_cast<int>(done.error().code));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class WithoutThreads : public ::testing::TestWithParam<rlim_t> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "only root becomes another user";
    }
  }
  static constexpr int kNoRoom = static_cast<int>(Code::kResourceExhausted);
};

TEST_P(WithoutThreads, RawOverExecIsAnError) {
  EXPECT_EQ(CodeWithThreads(
                GetParam(),
                [] {
                  Commands driver([](const ExecOptions&) -> Result<ExitResult> {
                    return ExitResult();
                  });
                  RawStream stream;
                  return RawOverExec(driver, "t", {"cat"}, false, stream);
                }),
            GetParam() < 2 ? kNoRoom : 0);
}

TEST_P(WithoutThreads, ExecOverRawIsAnError) {
  EXPECT_EQ(CodeWithThreads(GetParam(),
                            []() -> Result<void> {
                              WaitsForMessages driver;
                              const auto done =
                                  ExecOverRaw(driver, "t", ExecOptions());
                              return done ? Ok() : Result<void>(done.error());
                            }),
            kNoRoom);
}

INSTANTIATE_TEST_SUITE_P(ForOneTwoAndThree, WithoutThreads,
                         ::testing::Values(0, 1, 2));

#endif

}  // namespace
}  // namespace mountd::driver::testing
