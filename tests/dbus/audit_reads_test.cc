// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Each method that tells an administrator about other users' objects leaves a
// record of the audit, which names the administrator and those users. So does
// each read of a plugin's object.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

using Texts = std::vector<std::string>;
using Read = std::function<Answer(BusClient&)>;

// Calls a method that has no argument but its options.
Read Of(const std::string& method) {
  return [method](BusClient& client) {
    return client.Call(method.c_str(), "a{sv}", 0);
  };
}

// Calls a method with the name of an object.
Read Of(const std::string& method, const std::string& name) {
  return [method, name](BusClient& client) {
    return client.Call(method.c_str(), "sa{sv}", name.c_str(), 0);
  };
}

// Calls a method that lists what a user may use, of the user 1.
Read Grants(const std::string& method) {
  return [method](BusClient& client) {
    return client.Call(method.c_str(), "a{sv}", 1, "uid", "u", 1);
  };
}

// Returns the reads by their methods. Subscribe is one, because its signals
// tell an administrator about all users.
const std::map<std::string, Read>& Reads() {
  static const std::map<std::string, Read> reads = {
      {"Subscribe", Of("Subscribe")},
      {"GetAllocation", Of("GetAllocation", "web")},
      {"GetNetwork", Of("GetNetwork", "web")},
      {"GetReceipt", Of("GetReceipt", "gone")},
      {"GetFence", Of("GetFence", "gone")},
      {"GetPlugin", Of("GetPlugin", "csi")},
      {"ListHandedOut", Of("ListHandedOut", "web")},
      {"ListAllocations", Of("ListAllocations")},
      {"ListVolumes", Of("ListVolumes")},
      {"ListPlugins", Of("ListPlugins")},
      {"ListLeases", Of("ListLeases")},
      {"ListOwed", Of("ListOwed")},
      {"ListOperations", Of("ListOperations")},
      {"ListHostVolumes", Grants("ListHostVolumes")},
      {"ListFilesystems", Grants("ListFilesystems")},
      {"ListNetworks", Grants("ListNetworks")},
      {"GetVolumeStats",
       [](BusClient& client) {
         return client.Call("GetVolumeStats", "ssa{sv}", "web", "data", 0);
       }},
      {"ListHolders",
       [](BusClient& client) {
         return client.Call("ListHolders", "sssa{sv}", "web", "task", "m", 1,
                            "scope", "s", "node");
       }},
  };
  return reads;
}

// Calls a method of D-Bus's own on an object that mountd has for a plugin, or
// above these.
Read OfObject(const std::string& path, const std::string& interface,
              const std::string& member) {
  return [=](BusClient& client) {
    if (member == "Get") {
      return client.CallOn(path.c_str(), interface.c_str(), "Get", "ss",
                           "org.mountd1.Plugin", "State");
    }
    return member == "GetAll"
               ? client.CallOn(path.c_str(), interface.c_str(), "GetAll", "s",
                               "org.mountd1.Plugin")
               : client.CallOn(path.c_str(), interface.c_str(), member.c_str(),
                               "");
  };
}

// Returns the reads of plugins' objects by how their records begin.
const std::map<std::string, Read>& ReadsOfObjects() {
  static const char* const kObject = "/org/mountd1/plugin/csi/0";
  static const char* const kProperties = "org.freedesktop.DBus.Properties";
  static const char* const kIntrospectable =
      "org.freedesktop.DBus.Introspectable";
  static const std::map<std::string, Read> reads = {
      {"Get plugin csi", OfObject(kObject, kProperties, "Get")},
      {"GetAll plugin csi", OfObject(kObject, kProperties, "GetAll")},
      {"Introspect plugin csi",
       OfObject(kObject, kIntrospectable, "Introspect")},
      {"Introspect plugins",
       OfObject("/org/mountd1/plugin", kIntrospectable, "Introspect")},
  };
  return reads;
}

// Methods whose names say that they only look, and which tell nobody about
// another user's object.
const std::set<std::string>& ReadsOfNobody() {
  static const std::set<std::string> names = {
      "GetCapabilities",  // of the node
      "GetStatistics",    // of all users together, for everybody
      "VerifyTask",       // of tasks in cgroups that a rule grants the caller
      // A plugin answers these to users whom a rule lets control the plugin.
      "GetCapacity", "ListPluginVolumes", "ValidateVolume"};
  return names;
}

class AuditedReads : public BothTransports {
 protected:
  void SetUp() override {
    if (!IsRoot()) {
      GTEST_SKIP() << "callers are other users: needs root";
    }
    // Root is an administrator, and no rule grants root anything.
    ApiServerOptions options;
    options.config = DefaultConfig();
    options.config.rules[0].uids = {kAlice, kBob};
    options.system_bus = GetParam() == Transport::kBus;
    Start(std::move(options));
    auto plugin = csi::FakeCsiClient::DefaultPlugin("csi");
    plugin.capabilities.node_rpcs.push_back(2);  // GET_VOLUME_STATS
    plugin.stats.usage = {{.available = 6, .total = 10, .used = 4}};
    csi().SetPlugin("csi", plugin);
    if (GetParam() == Transport::kBus) {
      ASSERT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
    }
    alice_ = Connect(kAlice);
    root_ = Connect();
    ASSERT_NE(alice_, nullptr);
    ASSERT_NE(root_, nullptr);
  }

  // Makes objects of alice's, one of each kind that mountd tells of.
  void MakeObjects();
  void Must(const Answer& answer) {
    ASSERT_TRUE(answer.ok()) << answer.message;
  }
  // Fences the allocation "gone", which also leaves a receipt.
  void LapseOne();
  // Expects a record of the read by root, which begins with `begin`, and none
  // of the read by alice.
  void ExpectRecorded(const std::string& begin, const Read& read,
                      const std::string& others);
  // Returns the records since the last call, of operations and others.
  Texts TakeRecords() {
    Texts all = server().TakeUsesOfOthers();
    for (const std::string& one : server().TakeAudited()) {
      all.push_back(one);
    }
    return all;
  }

  std::unique_ptr<BusClient> alice_;
  std::unique_ptr<BusClient> root_;
};

void AuditedReads::LapseOne() {
  Must(alice_->Call("PrepareAllocation", "sa{sv}", "gone", 0));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  Must(alice_->Call("AcquireLease", "sa{sv}", "lapses", 2, "allocation", "s",
                    "gone", "pipe", "h", reading.get()));
  writing.reset();
  ASSERT_TRUE(Eventually([this] {
    const Answer fence = alice_->Call("GetFence", "sa{sv}", "gone", 0);
    return fence.ok() && fence.values.at("state") == R"("done")";
  }));
}

void AuditedReads::MakeObjects() {
  ASSERT_NO_FATAL_FAILURE(LapseOne());
  ASSERT_NO_FATAL_FAILURE(Publish(*alice_));
  Must(alice_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "stuck",
                    "other", "csi", 0, 0, 0, 0));
  Must(alice_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0, 0));
  Must(alice_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m", "host",
                    "data", 0, "private", 0));
  Must(alice_->Call("AcquireLease", "sa{sv}", "beats", 2, "allocation", "s",
                    "web", "timeout_ms", "t", std::uint64_t{3'600'000}));
  executor().PutCgroup(7, "/mountd-test");
  executor().SetTask(7);
  csi().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal,
                 FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  EXPECT_FALSE(
      alice_->Call("UnpublishVolume", "ssa{sv}", "web", "stuck", 0).ok());
}

void AuditedReads::ExpectRecorded(const std::string& begin, const Read& read,
                                  const std::string& others) {
  const Answer own = read(*alice_);
  EXPECT_TRUE(own.ok()) << own.message;
  EXPECT_EQ(TakeRecords(), Texts{}) << "of the user's own object";
  const Answer answer = read(*root_);
  EXPECT_TRUE(answer.ok()) << answer.message;
  const Texts records = TakeRecords();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_TRUE(records[0].starts_with(begin + " ")) << records[0];
  EXPECT_NE(records[0].find(" " + std::to_string(::geteuid()) + " "),
            std::string::npos);
  EXPECT_TRUE(records[0].ends_with(" others=" + others)) << records[0];
}

TEST_P(AuditedReads, AreThoseOfAnAdministratorAlone) {
  ASSERT_NO_FATAL_FAILURE(MakeObjects());
  executor().script().Block("PrepareAllocation");
  const std::uint64_t running =
      alice_->Send("PrepareAllocation", "sa{sv}", "second", 0);
  alice_->Fence();
  ASSERT_TRUE(executor().script().AwaitBlocked("PrepareAllocation"));
  TakeRecords();
  for (const auto& [method, read] : Reads()) {
    SCOPED_TRACE(method);
    ExpectRecorded(method, read,
                   method == "Subscribe" ? "all" : std::to_string(kAlice));
  }
  executor().script().UnblockAll();
  EXPECT_TRUE(alice_->Await(running).ok());
}

TEST_P(AuditedReads, AreAlsoThoseOfPluginsObjects) {
  ASSERT_NO_FATAL_FAILURE(RegisterPlugin(*alice_));
  TakeRecords();
  for (const auto& [begin, read] : ReadsOfObjects()) {
    SCOPED_TRACE(begin);
    ExpectRecorded(begin, read, std::to_string(kAlice));
  }
}

// mountd looks an object up for these messages, too, and tells nothing of it.
TEST_P(AuditedReads, AreNotMessagesThatReadNothing) {
  ASSERT_NO_FATAL_FAILURE(RegisterPlugin(*alice_));
  TakeRecords();
  const char* const object = "/org/mountd1/plugin/csi/0";
  EXPECT_TRUE(
      root_->CallOn(object, "org.freedesktop.DBus.Peer", "Ping", "").ok());
  EXPECT_FALSE(root_
                   ->CallOn(object, "org.freedesktop.DBus.Properties", "Set",
                            "ssv", "org.mountd1.Plugin", "Type", "s", "x")
                   .ok());
  EXPECT_TRUE(root_
                  ->CallOn("/org/mountd1",
                           "org.freedesktop.DBus.Introspectable", "Introspect",
                           "")
                  .ok());
  EXPECT_EQ(TakeRecords(), Texts{});
}

// A method that only looks is in one of the two lists, so a new method cannot
// tell of others without a test here.
TEST_P(AuditedReads, AreAllOfTheContract) {
  const Answer answer = root_->CallOn(
      "/org/mountd1", "org.freedesktop.DBus.Introspectable", "Introspect", "");
  ASSERT_TRUE(answer.ok()) << answer.message;
  std::size_t looks = 0;
  const std::string key = "<method name=";
  for (std::size_t at = answer.text.find(key); at != std::string::npos;
       at = answer.text.find(key, at + 1)) {
    const std::size_t begin =
        answer.text.find_first_not_of("\\\"", at + key.size());
    const std::string name = answer.text.substr(
        begin, answer.text.find_first_of("\\\"", begin) - begin);
    for (const char* word : {"Get", "List", "Verify", "Validate"}) {
      if (name.starts_with(word) && name != "Get" && name != "GetAll" &&
          name != "GetMachineId" && name != "GetManagedObjects") {
        ++looks;
        EXPECT_NE(Reads().contains(name), ReadsOfNobody().contains(name))
            << name;
      }
    }
  }
  EXPECT_EQ(looks + 1, Reads().size() + ReadsOfNobody().size())
      << "besides Subscribe";
}

MOUNTD_ON_BOTH_TRANSPORTS(AuditedReads);

}  // namespace
}  // namespace mountd::test
