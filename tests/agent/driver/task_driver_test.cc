// SPDX-License-Identifier: LGPL-2.1-or-later
// The values of the task driver interface, and streaming exec of drivers that
// have one form, the other form, or neither.
#include "agent/driver/task_driver.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <thread>

#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

TEST(TaskConfigTest, AMountIsInsertedOnce) {
  Mount data;
  data.task_path = "/data";
  data.host_path = "/m/a";
  std::vector<Mount> mounts;
  EXPECT_TRUE(InsertMount(data, mounts));
  EXPECT_FALSE(InsertMount(data, mounts));
  Mount other = data;
  other.read_only = true;
  EXPECT_TRUE(InsertMount(other, mounts));
  EXPECT_EQ(mounts, std::vector{other});
}

TEST(TaskConfigTest, TheEnvironmentIsSortedAndHasEachNameOnce) {
  std::vector<EnvironmentEntry> one;
  std::vector<EnvironmentEntry> other;
  SetEnvironment("B", "2", one);
  SetEnvironment("A", "1", one);
  SetEnvironment("A", "3", one);
  SetEnvironment("A", "3", other);
  SetEnvironment("B", "2", other);
  EXPECT_EQ(one, other);
  ASSERT_EQ(one.size(), 2U);
  EXPECT_EQ(one[0], (EnvironmentEntry{"A", "3"}));
}

TEST(TaskStatusTest, OnlyCodeZeroAloneIsSuccess) {
  ExitResult result;
  EXPECT_TRUE(result.IsSuccess());
  result.exit_code = 1;
  EXPECT_FALSE(result.IsSuccess());
  result = {};
  result.signal = 9;
  EXPECT_FALSE(result.IsSuccess());
  result = {};
  result.error = "the shim was killed";
  EXPECT_FALSE(result.IsSuccess());
}

TEST(TaskStatusTest, ANetworksHashDoesNotDependOnTheOrderOfPorts) {
  DriverNetwork one;
  one.port_map["http"] = 80;
  one.port_map["admin"] = 81;
  DriverNetwork other;
  other.port_map["admin"] = 81;
  other.port_map["http"] = 80;
  EXPECT_EQ(one.Hash(), other.Hash());
  other.port_map["http"] = 8080;
  EXPECT_NE(one.Hash(), other.Hash());
  other = one;
  other.address = "10.0.0.2";
  EXPECT_NE(one.Hash(), other.Hash());
  other = one;
  other.auto_advertise = true;
  EXPECT_NE(one.Hash(), other.Hash());
}

// Labels and addresses that are the same bytes in another cut.
TEST(TaskStatusTest, ANetworksHashKnowsWhereATextEnds) {
  DriverNetwork one;
  one.port_map["a1"] = 2;
  DriverNetwork other;
  other.port_map["a"] = 12;
  EXPECT_NE(one.Hash(), other.Hash());
}

TEST(TaskStatusTest, AnAbsentNetworkDoesNotAdvertise) {
  EXPECT_FALSE(AutoAdvertises(std::nullopt));
  EXPECT_FALSE(AutoAdvertises(DriverNetwork()));
  DriverNetwork network;
  network.auto_advertise = true;
  EXPECT_TRUE(AutoAdvertises(network));
}

TEST(ExecStreamTest, AMessageWithoutMembersIsAHeartbeat) {
  EXPECT_TRUE(ExecRequest().IsHeartbeat());
  EXPECT_TRUE(ExecResponse().IsHeartbeat());
  ExecRequest request;
  request.stdin_data = ExecData{"", true};
  EXPECT_FALSE(request.IsHeartbeat());
  ExecResponse response;
  response.result = ExitResult();
  EXPECT_FALSE(response.IsHeartbeat());
}

// A driver that implements all that is required and nothing else.
class PlainDriver : public TaskDriver {
 public:
  DriverCapabilities Capabilities() override { return {}; }
  std::vector<SchemaKey> ConfigSchema() override { return {}; }
  Result<std::unique_ptr<Stream<Fingerprint>>> Fingerprints() override {
    return DriverAway("fingerprint", "");
  }
  Result<CreatedNetwork> CreateNetwork(const std::string& allocation,
                                       const std::string&) override {
    return DriverAway("create network", allocation);
  }
  Result<void> DestroyNetwork(const std::string& allocation,
                              const NetworkIsolation&) override {
    return DriverAway("destroy network", allocation);
  }
  Result<StartedTask> StartTask(const TaskConfig& config) override {
    return DriverAway("start", config.id);
  }
  Result<void> RecoverTask(const TaskHandle& handle) override {
    return DriverAway("recover", handle.config.id);
  }
  Result<ExitResult> WaitTask(const std::string& id) override {
    return DriverAway("wait", id);
  }
  Result<void> StopTask(const std::string& id, std::chrono::milliseconds,
                        const std::string&) override {
    return DriverAway("stop", id);
  }
  Result<void> DestroyTask(const std::string& id, bool) override {
    return DriverAway("destroy", id);
  }
  Result<TaskStatus> InspectTask(const std::string& id) override {
    return DriverAway("inspect", id);
  }
  Result<void> SignalTask(const std::string& id, const std::string&) override {
    return DriverAway("signal", id);
  }
  Result<void> UpdateTask(const std::string& id,
                          const TaskResources&) override {
    return DriverAway("update", id);
  }
  Result<std::unique_ptr<Stream<TaskStats>>> Stats(
      const std::string& id, std::chrono::milliseconds) override {
    return DriverAway("stats", id);
  }
  Result<std::unique_ptr<Stream<TaskEvent>>> Events() override {
    return DriverAway("events", "");
  }
  Result<ExecOutput> ExecTask(const std::string& id,
                              const std::vector<std::string>&,
                              std::chrono::milliseconds) override {
    return DriverAway("exec", id);
  }
  void Shutdown() override {}
};

TEST(TaskDriverTest, ADriverWithoutStreamingExecAnswersNotSupported) {
  PlainDriver driver;
  const Result<ExitResult> result = ExecTaskStreaming(driver, "a/web/1", {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotSupported);
  EXPECT_EQ(result.error().object, "a/web/1");
}

TEST(TaskDriverTest, ADriverThatIsAwayIsOneErrorOfEachCall) {
  PlainDriver driver;
  EXPECT_TRUE(DriverIsAway(driver.WaitTask("t").error()));
  EXPECT_TRUE(DriverIsAway(driver.Stats("t", {}).error()));
  EXPECT_TRUE(DriverIsAway(driver.Events().error()));
  EXPECT_FALSE(DriverIsAway(MakeError(Code::kUnavailable, "wait", "t")));
}

// Answers with the last size, then echoes stdin in capitals until its end.
// `sends_result` false: ends as a driver that broke.
class RawEcho : public PlainDriver, public RawStreamingExec {
 public:
  RawStreamingExec* raw_streaming_exec() override { return this; }
  Result<void> ExecTaskStreamingRaw(const std::string&,
                                    const std::vector<std::string>& command,
                                    bool, RawExecStream& stream) override {
    ExecResponse response;
    for (;;) {
      MOUNTD_ASSIGN(const std::optional<ExecRequest> request, stream.Receive());
      if (!request) {
        return MakeError(Code::kAborted, "exec", "t", "the caller has gone");
      }
      if (request->terminal_size) {
        rows_ = request->terminal_size->rows;
      }
      if (!request->stdin_data) {
        continue;
      }
      response.stdout_data = request->stdin_data;
      for (char& letter : response.stdout_data->data) {
        letter = static_cast<char>(std::toupper(letter));
      }
      MOUNTD_TRY(stream.Send(response));
      if (request->stdin_data->close) {
        break;
      }
    }
    ExecResponse last;
    last.stderr_data = ExecData{command.at(0), true};
    last.result = ExitResult{.exit_code = 43};
    return sends_result_ ? stream.Send(last) : Ok();
  }
  void LoseResult() { sends_result_ = false; }
  int rows() const { return rows_; }

 private:
  bool sends_result_ = true;
  int rows_ = 0;
};

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
  std::string ReadAll() {
    write.reset();
    std::string all;
    std::array<char, 4096> piece{};
    for (ssize_t size = 0;
         (size = ::read(read.get(), piece.data(), piece.size())) > 0;) {
      all.append(piece.data(), static_cast<std::size_t>(size));
    }
    return all;
  }
  UniqueFd read;
  UniqueFd write;
};

TEST(TaskDriverTest, ACallerWithFdsUsesADriverThatHasTheRawFormAlone) {
  RawEcho driver;
  Pipe in;
  Pipe out;
  Pipe err;
  std::thread writer([&in] {
    EXPECT_EQ(::write(in.write.get(), "hello", 5), 5);
    in.write.reset();
  });
  ExecOptions options;
  options.command = {"cat"};
  options.stdin_fd = in.read.get();
  options.stdout_fd = out.write.get();
  options.stderr_fd = err.write.get();
  const Result<ExitResult> result = ExecTaskStreaming(driver, "t", options);
  writer.join();
  ASSERT_TRUE(result) << result.error().Message();
  EXPECT_EQ(result->exit_code, 43);
  EXPECT_EQ(out.ReadAll(), "HELLO");
  EXPECT_EQ(err.ReadAll(), "cat");
}

TEST(TaskDriverTest, ACommandWithoutInputReadsItsEndAtOnce) {
  RawEcho driver;
  ExecOptions options;
  options.command = {"cat"};
  EXPECT_TRUE(ExecTaskStreaming(driver, "t", options));
}

TEST(TaskDriverTest, ADriverThatSendsNoExitResultIsAnError) {
  RawEcho driver;
  driver.LoseResult();
  ExecOptions options;
  options.command = {"cat"};
  const Result<ExitResult> result = ExecTaskStreaming(driver, "t", options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInternal);
}

// Gives one size, and then waits for Cancel.
class OneSize : public Stream<TerminalSize> {
 public:
  Result<std::optional<TerminalSize>> Next() override {
    std::unique_lock lock(mutex_);
    if (!given_) {
      given_ = true;
      return std::optional(TerminalSize{40, 50});
    }
    changed_.wait(lock, [this] { return cancelled_; });
    return std::optional<TerminalSize>();
  }
  void Cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
  bool cancelled_ = false;
};

// Ends at the first size, while stdin stays open.
class RawUntilSize : public PlainDriver, public RawStreamingExec {
 public:
  RawStreamingExec* raw_streaming_exec() override { return this; }
  Result<void> ExecTaskStreamingRaw(const std::string&,
                                    const std::vector<std::string>&, bool,
                                    RawExecStream& stream) override {
    for (;;) {
      MOUNTD_ASSIGN(const std::optional<ExecRequest> request, stream.Receive());
      if (request && request->terminal_size == TerminalSize{40, 50}) {
        ExecResponse last;
        last.result = ExitResult();
        return stream.Send(last);
      }
    }
  }
};

TEST(TaskDriverTest, AnExecEndsWithTheCommandWhileItsInputStaysOpen) {
  RawUntilSize driver;
  Pipe in;
  OneSize sizes;
  ExecOptions options;
  options.command = {"sh"};
  options.terminal = true;
  options.stdin_fd = in.read.get();
  options.sizes = &sizes;
  EXPECT_TRUE(ExecTaskStreaming(driver, "t", options));
}

}  // namespace
}  // namespace mountd::driver
