// SPDX-License-Identifier: LGPL-2.1-or-later
// Errors as clients branch on them, and as people read them.
#include <set>

#include "tests/dbus/api_test.h"
#include "tests/support/naive.h"

namespace mountd::test {
namespace {

class Errors : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    ASSERT_TRUE(client_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  }
  Answer Bind() {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "t", "m", "host",
                         "data", 0, "private", 0);
  }

  std::unique_ptr<BusClient> client_;
};

TEST_P(Errors, EveryCodeIsANameOfItsOwn) {
  for (auto code = static_cast<std::uint32_t>(Code::kNotFound);
       code <= static_cast<std::uint32_t>(kLastCode); ++code) {
    const std::string name(CodeName(static_cast<Code>(code)));
    SCOPED_TRACE(name);
    executor().script().FailNext(
        "Attach",
        MakeError(static_cast<Code>(code), "move_mount", "web/t/m", "why"));
    const Answer answer = Bind();
    EXPECT_EQ(answer.error, "org.mountd1.Error." + name);
    EXPECT_EQ(answer.message, "move_mount web/t/m: why");
  }
  EXPECT_TRUE(Bind().ok());
}

// The name stays as it is, because an older client takes any other name for
// Internal.
TEST_P(Errors, TheMessageOfAnUnavailableTellsWhoIsAway) {
  const struct {
    Away away;
    const char* message;
  } kCases[] = {
      {Away::kNone, "move_mount web/t/m: plugin away: why"},
      {Away::kDaemon, "move_mount web/t/m: plugin away: why"},
      {Away::kRestarting, "restarting: move_mount web/t/m: plugin away: why"},
      {Away::kPlugin, "plugin away: move_mount web/t/m: plugin away: why"},
  };
  for (const auto& one : kCases) {
    Error error = MakeError(Code::kUnavailable, "move_mount", "web/t/m",
                            "plugin away: why");
    error.away = one.away;
    executor().script().FailNext("Attach", error);
    const Answer answer = Bind();
    EXPECT_EQ(answer.error, "org.mountd1.Error.Unavailable");
    EXPECT_EQ(answer.message, one.message);
  }
  Error busy = MakeError(Code::kBusy, "move_mount", "web/t/m", "why");
  busy.away = Away::kPlugin;
  executor().script().FailNext("Attach", busy);
  EXPECT_EQ(Bind().message, "move_mount web/t/m: why");
}

TEST_P(Errors, OperationObjectAndErrnoAreTold) {
  executor().script().FailNext(
      "Attach", ErrnoError(EBUSY, "move_mount", "web/t/m", "in use"));
  const Answer answer = Bind();
  EXPECT_EQ(answer.error, "org.mountd1.Error.Busy");
  EXPECT_EQ(answer.message, "move_mount web/t/m: in use (EBUSY)");
  EXPECT_EQ(server().Records().find("mount web"), std::string::npos);
}

TEST_P(Errors, WhatIsNotThereIsNamed) {
  const Answer unprepared =
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "nope", "bridge", 0, 0);
  EXPECT_EQ(unprepared.error, "org.mountd1.Error.NotFound");
  EXPECT_EQ(unprepared.message, "find allocation nope: is not prepared");
  const Answer plugin = client_->Call("GetPlugin", "sa{sv}", "nope", 0);
  EXPECT_EQ(plugin.error, "org.mountd1.Error.NotFound");
  EXPECT_NE(plugin.message.find("plugin nope"), std::string::npos);
  EXPECT_EQ(client_->Call("GetReceipt", "sa{sv}", "web", 0).error,
            "org.mountd1.Error.NotFound");
  EXPECT_EQ(client_->Call("Cancel", "sa{sv}", "1.1", 0).error,
            "org.mountd1.Error.NotFound");
}

TEST_P(Errors, APluginsErrorTellsTheRpcAndTheVolume) {
  Publish(*client_);
  csi().FailNext("NodeStageVolume", csi::RpcCode::kInvalidArgument);
  const Answer answer =
      client_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "two",
                    "vol2", "csi", 0, 0, 0, 0);
  EXPECT_EQ(answer.error, "org.mountd1.Error.InvalidArgument");
  EXPECT_NE(answer.message.find("NodeStageVolume volume web/two"),
            std::string::npos)
      << answer.message;
}

// ---- Owners ----

class Callers : public BothTransports {
 protected:
  void SetUp() override {
    if (!IsRoot()) {
      GTEST_SKIP() << "only root can connect as other users";
    }
    BothTransports::SetUp();
    alice_ = Connect(kAlice);
    bob_ = Connect(kBob);
    ASSERT_NE(alice_, nullptr);
    ASSERT_NE(bob_, nullptr);
    ASSERT_TRUE(alice_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  }

  std::unique_ptr<BusClient> alice_;
  std::unique_ptr<BusClient> bob_;
};

TEST_P(Callers, AnAllocationBelongsToWhoPreparedIt) {
  EXPECT_EQ(alice_->Call("GetAllocation", "sa{sv}", "web", 0).values.at("uid"),
            std::to_string(kAlice));
  const std::string before = State();
  const Answer denied[] = {
      bob_->Call("GetAllocation", "sa{sv}", "web", 0),
      bob_->Call("PrepareAllocation", "sa{sv}", "web", 0),
      bob_->Call("ReleaseAllocation", "sa{sv}", "web", 0),
      bob_->Call("TeardownNetwork", "sa{sv}", "web", 0),
      bob_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0, 0),
      bob_->Call("Unmount", "sssa{sv}", "web", "t", "m", 0),
      bob_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0)};
  for (const Answer& answer : denied) {
    EXPECT_EQ(answer.error, "org.mountd1.Error.PermissionDenied");
    EXPECT_NE(answer.message.find("allocation web"), std::string::npos);
  }
  EXPECT_EQ(State(), before);
}

TEST_P(Callers, ListsAreTheCallersOwn) {
  EXPECT_EQ(bob_->Call("ListAllocations", "a{sv}", 0).text, "[]");
  EXPECT_EQ(alice_->Call("ListAllocations", "a{sv}", 0).text,
            R"([("web", 1, "", "prepared")])");
  // Root is an administrator.
  EXPECT_EQ(Connect()->Call("ListAllocations", "a{sv}", 0).text,
            R"([("web", 1, "", "prepared")])");
}

TEST_P(Callers, WhomNoRuleNamesMayNothing) {
  const auto stranger = Connect(kStranger);
  ASSERT_NE(stranger, nullptr);
  const Answer answer = stranger->Call("PrepareAllocation", "sa{sv}", "x", 0);
  EXPECT_EQ(answer.error, "org.mountd1.Error.PermissionDenied");
  EXPECT_EQ(answer.message,
            "prepare allocation: no rule names this user; add a [[rule]] for "
            "it to mountd.toml");
}

TEST_P(Callers, AnotherUsersOperationIsNotToBeCancelled) {
  executor().script().Block("PrepareAllocation");
  const Answer waiting = alice_->Call("PrepareAllocation", "sa{sv}", "two", 1,
                                      "patience_ms", "u", 1);
  ASSERT_EQ(waiting.error, "org.mountd1.Error.InProgress");
  const char* const id = waiting.message.c_str();
  EXPECT_EQ(bob_->Call("Cancel", "sa{sv}", id, 0).error,
            "org.mountd1.Error.NotFound");
  EXPECT_TRUE(alice_->Call("Cancel", "sa{sv}", id, 0).ok());
}

TEST_P(Callers, TheSameCallOfAnotherUserIsNotJoined) {
  executor().script().Block("PrepareAllocation");
  const auto own = alice_->Send("PrepareAllocation", "sa{sv}", "shared", 0);
  const auto other = bob_->Send("PrepareAllocation", "sa{sv}", "shared", 0);
  ASSERT_TRUE(Eventually([&] {
    alice_->Fence();
    bob_->Fence();
    return server().running() == 2;
  }));
  executor().script().UnblockAll();
  const bool alice_has_it = alice_->Await(own).ok();
  const Answer answer = bob_->Await(other);
  EXPECT_NE(alice_has_it, answer.ok());
}

MOUNTD_ON_BOTH_TRANSPORTS(Errors);

// SECURITY.md lists all that a user learns about other users.
class OtherUsers : public BothTransports {
 protected:
  // Asks for everything that there is. Returns the methods whose answers tell
  // of alice's objects, each of which has "secret" in its name.
  static std::set<std::string> MethodsThatTell(BusClient& client) {
    std::set<std::string> methods;
    for (const char* method :
         {"ListAllocations", "ListVolumes", "ListOwed", "ListPlugins",
          "ListOperations", "GetCapabilities", "GetStatistics",
          "ListHostVolumes", "ListFilesystems", "ListNetworks"}) {
      const Answer answer = client.Call(method, "a{sv}", 0);
      EXPECT_TRUE(answer.ok()) << method << ": " << answer.message;
      if (answer.text.find("secret") != std::string::npos) {
        methods.insert(method);
      }
    }
    return methods;
  }
};

TEST_P(OtherUsers, AreKnownByNumbersAlone) {
  if (!IsRoot()) {
    GTEST_SKIP() << "callers are other users: needs root";
  }
  const auto alice = Connect(kAlice);
  const auto bob = Connect(kBob);
  const auto root = Connect();
  ASSERT_NE(alice, nullptr);
  ASSERT_NE(bob, nullptr);
  ASSERT_NE(root, nullptr);
  ASSERT_TRUE(alice
                  ->Call("PrepareAllocation", "sa{sv}", "secret-id", 1, "scope",
                         "s", "secret-scope")
                  .ok());
  ASSERT_TRUE(alice
                  ->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "secret-id",
                         "bridge", 0, 0)
                  .ok());
  RegisterPlugin(*alice);
  ASSERT_TRUE(alice
                  ->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}",
                         "secret-id", "data", "secret-volume", "csi", 0, 0, 0,
                         0)
                  .ok());
  executor().script().Block("PrepareAllocation");
  const std::uint64_t call =
      alice->Send("PrepareAllocation", "sa{sv}", "secret-second", 0);
  alice->Fence();
  ASSERT_TRUE(executor().script().AwaitBlocked("PrepareAllocation"));
  // A naive mountd answers each user as mountd answers root, who sees
  // everything.
  const std::set<std::string> naive = MethodsThatTell(*root);
  EXPECT_NAIVE(naive.contains("ListAllocations") &&
               naive.contains("ListVolumes") &&
               naive.contains("ListOperations"));
  EXPECT_EQ(MethodsThatTell(*bob), std::set<std::string>());
  // The statistics are of all users together.
  EXPECT_NE(bob->Call("GetStatistics", "a{sv}", 0)
                .text.find(R"(("PrepareAllocation", 1, 0, )"),
            std::string::npos);
  executor().script().UnblockAll();
  EXPECT_TRUE(alice->Await(call).ok());
  // The error says that the name exists, and neither its owner nor its purpose.
  const Answer taken = bob->Call("PrepareAllocation", "sa{sv}", "secret-id", 0);
  EXPECT_EQ(taken.error, "org.mountd1.Error.PermissionDenied");
  EXPECT_EQ(taken.message.find("scope"), std::string::npos);
  EXPECT_EQ(taken.message.find("uid"), std::string::npos) << taken.message;
}

MOUNTD_ON_BOTH_TRANSPORTS(OtherUsers);
MOUNTD_ON_BOTH_TRANSPORTS(Callers);

}  // namespace
}  // namespace mountd::test
