// SPDX-License-Identifier: LGPL-2.1-or-later
// The methods on leases and fences, and the fds that they take.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "agent/fields/lease_fields.h"
#include "tests/dbus/methods.h"

namespace mountd::test {
namespace {

constexpr char kInvalidArgument[] = "org.mountd1.Error.InvalidArgument";
constexpr char kFailed[] = "org.mountd1.Error.FailedPrecondition";

struct PipeEnds {
  PipeEnds() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
  UniqueFd reading;
  UniqueFd writing;
};

class LeaseMethods : public Methods {
 protected:
  Answer AcquireByPipe(int fd) {
    return client_->Call("AcquireLease", "sa{sv}", "agent", 2, "allocation",
                         "s", "web", "pipe", "h", fd);
  }
  Answer AcquireHeartbeat(std::uint64_t timeout_ms) {
    return client_->Call("AcquireLease", "sa{sv}", "agent", 2, "allocation",
                         "s", "web", "timeout_ms", "t", timeout_ms);
  }
};

TEST_P(LeaseMethods, AHeartbeatIsAcquiredRenewedListedAndReleased) {
  MustPrepare();
  const Answer acquired = AcquireHeartbeat(60'000);
  ASSERT_TRUE(acquired.ok()) << acquired.message;
  EXPECT_EQ(acquired.types, TypesOf<agent::Lease>());
  EXPECT_EQ(acquired.values.at("state"), R"("held")");
  EXPECT_EQ(acquired.values.at("kind"), R"("heartbeat")");
  const Answer renewed = client_->Call("RenewLease", "sa{sv}", "agent", 0);
  ASSERT_TRUE(renewed.ok()) << renewed.message;
  EXPECT_EQ(renewed.types, TypesOf<agent::Lease>());
  const Answer list = client_->Call("ListLeases", "a{sv}", 0);
  EXPECT_EQ(list.types, Prefixed("0.", TypesOf<agent::Lease>()));
  EXPECT_TRUE(client_->Call("ReleaseLease", "sa{sv}", "agent", 0).ok());
  EXPECT_TRUE(client_->Call("ReleaseLease", "sa{sv}", "agent", 0).ok());
  EXPECT_EQ(client_->Call("RenewLease", "sa{sv}", "agent", 0).error,
            "org.mountd1.Error.NotFound");
}

TEST_P(LeaseMethods, ALapseOfItsPipeFencesAndTellsSubscribers) {
  MustPrepare();
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  PipeEnds pipe;
  const Answer acquired = AcquireByPipe(pipe.reading.get());
  ASSERT_TRUE(acquired.ok()) << acquired.message;
  EXPECT_EQ(acquired.values.at("deadline_boottime"), "0");
  EXPECT_EQ(client_->Call("GetFence", "sa{sv}", "web", 0).error,
            "org.mountd1.Error.NotFound");
  pipe.writing.reset();
  EXPECT_NE(client_->AwaitSignal("LeaseLapsed").text.find("agent"),
            std::string::npos);
  EXPECT_NE(client_->AwaitSignal("FenceDone").text.find("web"),
            std::string::npos);
  const Answer fence = client_->Call("GetFence", "sa{sv}", "web", 0);
  ASSERT_TRUE(fence.ok()) << fence.message;
  EXPECT_EQ(fence.types, TypesOf<agent::Fence>());
  EXPECT_EQ(fence.values.at("state"), R"("done")");
  EXPECT_EQ(fence.values.at("volumes_detached"), "true");
  EXPECT_EQ(client_->Call("GetAllocation", "sa{sv}", "web", 0).error,
            "org.mountd1.Error.NotFound");
}

// The agent was away when the fence ended.
TEST_P(LeaseMethods, TheNextSubscriberIsToldOfAFenceThatIsDone) {
  MustPrepare();
  PipeEnds pipe;
  ASSERT_TRUE(AcquireByPipe(pipe.reading.get()).ok());
  pipe.writing.reset();
  ASSERT_TRUE(client_->RunUntil([&] {
    const Answer fence = client_->Call("GetFence", "sa{sv}", "web", 0);
    return fence.ok() && fence.values.at("state") == R"("done")";
  }));
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  EXPECT_NE(client_->AwaitSignal("FenceDone").text.find("web"),
            std::string::npos);
  // Another connection is not told again of what the user has been told.
  const auto second = Connect();
  ASSERT_NE(second, nullptr);
  ASSERT_TRUE(second->Call("Subscribe", "a{sv}", 0).ok());
  ASSERT_TRUE(second->Call("PrepareAllocation", "sa{sv}", "db", 0).ok());
  second->Fence();
  for (const Signal& signal : second->signals()) {
    EXPECT_NE(signal.member, "FenceDone");
  }
}

TEST_P(LeaseMethods, AFenceHasTheNamesOfTheCallThatAcquiredItsLease) {
  constexpr const char* kTraceparent =
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  MustPrepare();
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  PipeEnds pipe;
  const Answer acquired =
      client_->Call("AcquireLease", "sa{sv}", "agent", 4, "allocation", "s",
                    "web", "pipe", "h", pipe.reading.get(), "traceparent", "s",
                    kTraceparent, "request_id", "s", "r1");
  ASSERT_TRUE(acquired.ok()) << acquired.message;
  EXPECT_EQ(acquired.values.at("request_id"), R"("r1")");
  pipe.writing.reset();
  for (const char* change : {"lapsed", "fenced"}) {
    const std::string text = client_->AwaitSignal("LeaseChanged").text;
    for (const char* one : {"agent", change, kTraceparent, "r1"}) {
      EXPECT_NE(text.find(one), std::string::npos) << one << ": " << text;
    }
  }
  const Answer fence = client_->Call("GetFence", "sa{sv}", "web", 1,
                                     "request_id", "s", "another");
  ASSERT_TRUE(fence.ok()) << fence.message;
  EXPECT_EQ(fence.values.at("request_id"), R"("r1")");
  EXPECT_EQ(fence.values.at("traceparent"),
            "\"" + std::string(kTraceparent) + "\"");
  // The release is the fence's.
  const Answer receipt = client_->Call("GetReceipt", "sa{sv}", "web", 0);
  ASSERT_TRUE(receipt.ok()) << receipt.message;
  EXPECT_EQ(receipt.values.at("request_id"), R"("r1")");
}

TEST_P(LeaseMethods, TakesOnlyTheReadEndOfAPipeWithAWriter) {
  MustPrepare();
  PipeEnds pipe;
  PipeEnds dead;
  dead.writing.reset();
  const std::string path =
      "/proc/self/fd/" + std::to_string(pipe.reading.get());
  const UniqueFd both(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd only_path(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int fd : {pipe.writing.get(), dead.reading.get(), both.get(),
                       only_path.get(), null.get()}) {
    EXPECT_EQ(AcquireByPipe(fd).error, kInvalidArgument) << fd;
  }
  EXPECT_TRUE(AcquireByPipe(pipe.reading.get()).ok());
}

// A lease whose write end is with mountd would never lapse.
TEST_P(LeaseMethods, MountdKeepsNoWriteEnd) {
  MustPrepare();
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  PipeEnds pipe;
  ASSERT_TRUE(AcquireByPipe(pipe.reading.get()).ok());
  // Once as another lease's pipe, and once where another kind is wanted.
  EXPECT_EQ(client_
                ->Call("AcquireLease", "sa{sv}", "other", 2, "scope", "s", "x",
                       "pipe", "h", pipe.writing.get())
                .error,
            kInvalidArgument);
  EXPECT_EQ(client_
                ->Call("PrepareAllocation", "sa{sv}", "db", 1, "cgroup", "h",
                       pipe.writing.get())
                .error,
            kInvalidArgument);
  pipe.writing.reset();
  EXPECT_NE(client_->AwaitSignal("FenceDone").text.find("web"),
            std::string::npos);
}

TEST_P(LeaseMethods, OptionsThatDoNotFitAreRefused) {
  MustPrepare();
  EXPECT_EQ(AcquireHeartbeat(999).error, kInvalidArgument);
  EXPECT_EQ(AcquireHeartbeat(86'400'001).error, kInvalidArgument);
  const auto acquire = [&](const char* key, const char* value) {
    return client_
        ->Call("AcquireLease", "sa{sv}", "agent", 3, "allocation", "s", "web",
               "timeout_ms", "t", std::uint64_t{5000}, key, "s", value)
        .error;
  };
  EXPECT_EQ(acquire("scope", "prod"), kInvalidArgument);
  EXPECT_EQ(acquire("on_lapse", "burn"), kInvalidArgument);
  EXPECT_EQ(acquire("stop_tasks", "maybe"), kInvalidArgument);
  // The allocation has no cgroup.
  EXPECT_EQ(acquire("stop_tasks", "kill"), kFailed);
  EXPECT_EQ(client_
                ->Call("AcquireLease", "sa{sv}", "agent", 1, "timeout_ms", "t",
                       std::uint64_t{5000})
                .error,
            kInvalidArgument);
  EXPECT_EQ(
      client_
          ->Call("AcquireLease", "sa{sv}", "agent", 1, "allocation", "s", "web")
          .error,
      kInvalidArgument);
}

TEST_P(LeaseMethods, AnAllocationMayRequireALease) {
  ASSERT_TRUE(client_
                  ->Call("PrepareAllocation", "sa{sv}", "web", 1,
                         "lease_required", "b", 1)
                  .ok());
  const Answer refused =
      client_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "data",
                    "v1", "no-such-plugin", 0, 0, 0, 0);
  EXPECT_EQ(refused.error, kFailed) << refused.message;
  EXPECT_NE(refused.message.find("lease_required"), std::string::npos);
}

MOUNTD_ON_BOTH_TRANSPORTS(LeaseMethods);

}  // namespace
}  // namespace mountd::test
