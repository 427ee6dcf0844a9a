// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/confined.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "agent/driver/images/foreign_tree.h"
#include "mountd/base/number.h"
#include "tests/agent/driver/images/store_fixture.h"
#include "tests/support/matchers.h"

namespace mountd::driver::test {
namespace {

class Confined : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    std::filesystem::create_directory(File("own"));
    std::filesystem::create_directory(File("other"));
  }

  Result<ProgramEnd> Run(const std::vector<std::string>& command,
                         int seconds = 60) const {
    Confinement confinement;
    confinement.user_namespace = TaskNamespace();
    confinement.writable = File("own");
    confinement.max_file_bytes = std::uint64_t{1} << 20U;
    Supervision supervision;
    supervision.deadline =
        Supervision::Clock::now() + std::chrono::seconds(seconds);
    return RunConfined(confinement, command, supervision);
  }
  // Returns what the shell prints.
  std::string Shell(const std::string& line) const {
    const Result<ProgramEnd> end = Run({"/bin/sh", "-c", line});
    EXPECT_THAT(end, IsOk());
    return end ? end->text : "";
  }
};

TEST_F(Confined, IsRootOfTheNamespaceInItsDirectory) {
  EXPECT_EQ(Shell("id -u; id -g"), "0\n0\n");
  EXPECT_EQ(Shell("pwd"), File("own") + "\n");
  EXPECT_EQ(Shell("echo x >own-file && chown 7:8 own-file && echo ok"), "ok\n");
  struct stat facts {};
  ASSERT_EQ(::stat(File("own/own-file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, kFirstSubid + 6);
  EXPECT_EQ(facts.st_gid, kFirstSubid + 7);
}

TEST_F(Confined, WritesNowhereElse) {
  for (const std::string& place :
       {File("other/x"), std::string("/tmp/x"), std::string("/dev/shm/x"),
        std::string("/proc/self/comm")}) {
    EXPECT_THAT(Shell("echo x >" + place), ::testing::HasSubstr("Read-only"))
        << place;
  }
}

TEST_F(Confined, CannotMakeAFileSystemWritableAgain) {
  EXPECT_NE(Shell("mount -o remount,bind,rw " + File("other")), "");
  EXPECT_NE(Shell("umount " + File("own") + " 2>&1"), "");
  EXPECT_THAT(Shell("echo x >" + File("other/x")),
              ::testing::HasSubstr("Read-only"));
  // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID and CAP_SETFCAP.
  EXPECT_EQ(Shell("grep CapEff /proc/self/status"),
            "CapEff:\t000000008000001b\n");
  EXPECT_EQ(Shell("grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t1\n");
}

TEST_F(Confined, HasNoNetwork) {
  EXPECT_EQ(Shell("grep -c : /proc/self/net/dev"), "1\n");
}

TEST_F(Confined, InheritsNoFdAndNoIgnoredSignal) {
  const UniqueFd leaked(::dup(STDIN_FILENO));
  EXPECT_EQ(Shell("ls /proc/self/fd"), "0\n1\n2\n3\n");
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(Shell("grep SigIgn /proc/self/status"),
            "SigIgn:\t0000000000000000\n");
  std::signal(SIGPIPE, before);
}

TEST_F(Confined, HasABoundForEachFile) {
  EXPECT_THAT(Shell("head -c 2000000 /dev/zero >big || echo failed"),
              ::testing::HasSubstr("failed"));
  struct stat facts {};
  ASSERT_EQ(::stat(File("own/big").c_str(), &facts), 0);
  EXPECT_LE(facts.st_size, 1 << 20);
}

TEST_F(Confined, TellsTheStatusAndTheEndOfTheText) {
  const Result<ProgramEnd> end =
      Run({"/bin/sh", "-c", "seq 1 100000; echo last; exit 7"});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->status, 7);
  EXPECT_LE(end->text.size(), 2048U);
  EXPECT_THAT(end->text, ::testing::EndsWith("last\n"));
  const Result<ProgramEnd> killed = Run({"/bin/sh", "-c", "kill -9 $$"});
  ASSERT_THAT(killed, IsOk());
  EXPECT_EQ(killed->status, -SIGKILL);
}

TEST_F(Confined, NamesTheStepThatFails) {
  EXPECT_THAT(Run({"/nonexistent"}),
              IsErrOf(Code::kNotFound, "execve /nonexistent: install"));
  Confinement nowhere;
  nowhere.user_namespace = -1;
  Supervision supervision;
  supervision.deadline = Supervision::Clock::now() + std::chrono::seconds(9);
  const Result<ProgramEnd> end =
      RunConfined(nowhere, {"/bin/true"}, supervision);
  ASSERT_THAT(end, ::testing::Not(IsOk()));
  EXPECT_THAT(end.error().Message(), ::testing::HasSubstr("setns"));
}

TEST_F(Confined, EndsAtTheDeadline) {
  EXPECT_THAT(Run({"/bin/sleep", "1000"}, 1), IsErr(Code::kDeadlineExceeded));
  EXPECT_THAT(Run({"/usr/bin/yes"}, 1), IsErr(Code::kDeadlineExceeded));
}

TEST_F(Confined, EndsWithTheProcessThatRunsIt) {
  ASSERT_EQ(::mkfifo(File("own/fifo").c_str(), 0600), 0);
  const UniqueFd fifo(::open(File("own/fifo").c_str(), O_RDWR | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {
    IgnoreBecauseBestEffort(
        Run({"/bin/sh", "-c", "echo $$ >fifo; exec sleep 1000"}));
    ::_exit(0);
  }
  char text[32] = {};
  ASSERT_GT(::read(fifo.get(), text, sizeof(text) - 1), 0);
  const std::string line = text;
  const int program =
      ParseNumber<int>(line.substr(0, line.find('\n'))).value_or(0);
  ASSERT_GT(program, 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto ended = [program] {
    // A zombie of a machine without a reaper has no program any more.
    return ReadWholeFile("/proc/" + std::to_string(program) + "/cmdline")
        .empty();
  };
  while (!ended() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(ended());
}

TEST_F(Confined, MeasuresAndRemovesFilesOfOtherIds) {
  Shell(
      "mkdir -p t/d/e; head -c 100000 /dev/zero >t/d/a; ln t/d/a t/d/e/b; "
      "ln -s / t/root; chown -R 7:8 t/d; chmod 000 t/d/e t/d");
  const ForeignTree tree{TaskNamespace(), File("own"), "t"};
  const TreeSize most{1 << 20, 100};
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  ASSERT_OK_AND_ASSIGN(const TreeSize size, MeasureTree(tree, most, deadline));
  EXPECT_EQ(size.files, 6U);
  // The file counts once, though it has two names.
  EXPECT_GE(size.bytes, 100000U);
  EXPECT_LT(size.bytes, 150000U);
  ASSERT_OK_AND_ASSIGN(const TreeSize more,
                       MeasureTree(tree, {1 << 20, 3}, deadline));
  EXPECT_TRUE(IsBeyond(more, {1 << 20, 3}));
  EXPECT_THAT(RemoveTree(tree, -1, deadline), IsOk());
  EXPECT_FALSE(std::filesystem::exists(File("own/t")));
  EXPECT_THAT(RemoveTree(tree, -1, deadline), IsOk());
}

}  // namespace
}  // namespace mountd::driver::test
