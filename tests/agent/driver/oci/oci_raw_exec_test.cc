// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Streaming exec of the OCI driver for callers with a stream of messages, and
// the end of a command whose caller has gone.
#include <csignal>
#include <thread>

#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/agent/driver/raw_stream.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

using mountd::testing::Eventually;

class OciRawExec : public OciFixture {
 protected:
  TaskConfig StartWaiting(TaskDriver& driver) const {
    TaskConfig config = Shell("raw", "exec sleep 10000");
    EXPECT_THAT(driver.StartTask(config), IsOk());
    return config;
  }
  void EndTask(TaskDriver& driver, const TaskConfig& config) const {
    EXPECT_THAT(driver.DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  }
};

TEST_F(OciRawExec, MovesMessagesBothWays) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    RawStream stream;
    const std::string text(300'000, 'x');
    stream.PutInput(text);
    stream.Put({});  // a heartbeat
    stream.PutInput("", true);
    stream.PutInput("after the end");
    EXPECT_THAT(
        ExecTaskStreamingRaw(*driver, config.id,
                             {"/bin/sh", "-c", "cat; echo e >&2; exit 7"},
                             false, stream),
        IsOk());
    EXPECT_EQ(stream.output(), text);
    EXPECT_EQ(stream.error(), "e\n");
    ASSERT_TRUE(stream.result());
    EXPECT_EQ(stream.result()->exit_code, 7);
    EndTask(*driver, config);
  });
}

// The end of the messages ends the input alone. No input ends nothing.
TEST_F(OciRawExec, TellsTheEndOfTheMessagesFromAnError) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    RawStream ended;
    ended.End();
    EXPECT_THAT(
        ExecTaskStreamingRaw(*driver, config.id,
                             {"/bin/sh", "-c", "cat; sleep 0.2; echo done"},
                             false, ended),
        IsOk());
    EXPECT_EQ(ended.output(), "done\n");
    RawStream open;
    EXPECT_THAT(
        ExecTaskStreamingRaw(*driver, config.id, {"/bin/true"}, false, open),
        IsOk());
    ASSERT_TRUE(open.result());
    EXPECT_TRUE(open.result()->IsSuccess());
    RawStream none;
    EXPECT_THAT(ExecTaskStreamingRaw(*driver, "web/other/1", {"/bin/true"},
                                     false, none),
                IsErr(Code::kNotFound));
    EXPECT_FALSE(none.result());
    EndTask(*driver, config);
  });
}

TEST_F(OciRawExec, HasATerminalWithSizes) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    RawStream stream;
    stream.PutSize({31, 97});
    Result<void> done;
    std::thread caller([&] {
      done = ExecTaskStreamingRaw(
          *driver, config.id,
          {"/bin/sh", "-c",
           "stty -echo; stty size; while [ \"$(stty size)\" = '31 97' ]; do "
           "sleep 0.01; done; stty size; read a; echo $a; exit 4"},
          true, stream);
    });
    EXPECT_TRUE(stream.AwaitOutput("31 97\r\n")) << stream.output();
    stream.PutSize({5, 6});
    EXPECT_TRUE(stream.AwaitOutput("31 97\r\n5 6\r\n")) << stream.output();
    stream.PutInput("hello\n");
    caller.join();
    EXPECT_THAT(done, IsOk());
    EXPECT_EQ(stream.output(), "31 97\r\n5 6\r\nhello\r\n");
    ASSERT_TRUE(stream.result());
    EXPECT_EQ(stream.result()->exit_code, 4);
    EndTask(*driver, config);
  });
}

// A command that neither reads nor writes learns nothing of its caller, and a
// shell's child is not the process that the shim has.
TEST_F(OciRawExec, ACallerThatHasGoneEndsTheCommandAndItsChildren) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    for (const bool terminal : {false, true}) {
      RawStream stream;
      // More than a pipe has room for.
      stream.PutInput(std::string(200'000, '\n'));
      Result<void> done;
      std::thread caller([&] {
        done = ExecTaskStreamingRaw(
            *driver, config.id,
            {"/bin/sh", "-c", "sleep 4331 & (sleep 4332; true); true"},
            terminal, stream);
      });
      EXPECT_TRUE(Eventually([] { return !ProcessesWith("4332").empty(); }));
      stream.Break();
      caller.join();
      // kAborted if the runtime still began the command.
      EXPECT_FALSE(done);
      EXPECT_TRUE(Eventually([] {
        return ProcessesWith("4331").empty() && ProcessesWith("4332").empty();
      })) << "terminal "
          << terminal;
    }
    EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kRunning);
    EndTask(*driver, config);
  });
}

TEST_F(OciRawExec, ADeadlineEndsTheCommandsChildren) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    EXPECT_THAT(
        driver->ExecTask(config.id, {"/bin/sh", "-c", "sleep 4333; true"},
                         std::chrono::milliseconds(500)),
        IsErr(Code::kDeadlineExceeded));
    EXPECT_TRUE(Eventually([] { return ProcessesWith("4333").empty(); }));
    EndTask(*driver, config);
  });
}

TEST_F(OciRawExec, AKilledShimIsAnErrorAndNoResult) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    RawStream stream;
    Result<void> done;
    std::thread caller([&] {
      done = ExecTaskStreamingRaw(*driver, config.id,
                                  {"/bin/sh", "-c", "echo up; exec sleep 4334"},
                                  false, stream);
    });
    EXPECT_TRUE(stream.AwaitOutput("up\n")) << stream.output();
    for (const pid_t pid : ProcessesWith("mountd-task-shim")) {
      ::kill(pid, SIGKILL);
    }
    caller.join();
    EXPECT_FALSE(done);
    EXPECT_FALSE(stream.result());
    EndTask(*driver, config);
  });
}

}  // namespace
}  // namespace mountd::driver::testing
