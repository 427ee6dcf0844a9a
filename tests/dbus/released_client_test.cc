// SPDX-License-Identifier: LGPL-2.1-or-later
// A client of the last release against this mountd: each method, property and
// kind of error of dbus/released/0.1.0, read with the types of that release.
#include "tests/dbus/released_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "csi-node/types/secrets.h"
#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Dict = std::map<std::string, dbus::Value>;
using Dicts = std::vector<Dict>;
using Texts = std::map<std::string, std::string>;
using Words = std::vector<std::string>;
using ReleasedPort = sdbus::Struct<std::string, std::string, std::uint16_t,
                                   std::uint16_t, std::uint16_t, std::string>;

dbus::Value Word(const std::string& text) { return dbus::Value(text); }

std::string PathIn(const Dict& answer, const char* key) {
  const Bytes path = answer.at(key).get<Bytes>();
  return {path.begin(), path.end()};
}

std::string TextIn(const Dict& answer, const char* key) {
  return answer.at(key).get<std::string>();
}

// Returns an fd that a proxy closes.
sdbus::UnixFd Adopted(int fd) { return {fd, sdbus::adopt_fd}; }
sdbus::UnixFd RootDirectory() {
  return Adopted(::open("/", O_PATH | O_CLOEXEC));
}

class ReleasedClient : public ApiTest {
 protected:
  void SetUp() override {
    auto plugin = csi::FakeCsiClient::DefaultPlugin("csi");
    // Volume statistics and expansion too, and each call of a controller.
    plugin.capabilities.node_rpcs = {1, 2, 3};
    plugin.capabilities.controller_rpcs = {1, 2, 3, 4, 5, 9};
    plugin.stats.usage = {{.available = 6, .total = 10, .used = 4}};
    Start();
    csi().SetPlugin("csi", plugin);
    csi().SetController([](const csi::ControllerCall& call) {
      if (call.rpc == "CreateVolume") {
        return std::string(R"({"volume": {"volume_id": "made"}})");
      }
      return std::string(call.rpc == "CreateSnapshot" ? "ab" : "{}");
    });
    bus_ = sdbus::createDirectBusConnection(server().address());
    client_ = std::make_unique<ReleasedManager>(*bus_);
    bus_->enterEventLoopAsync();
  }
  void TearDown() override {
    if (bus_ != nullptr) {
      bus_->leaveEventLoop();
    }
    client_.reset();
    bus_.reset();
  }

  // Makes a call that has to fail. Returns the name of its error.
  static std::string NameOfError(const std::function<void()>& call) {
    try {
      call();
    } catch (const sdbus::Error& error) {
      return error.getName();
    }
    return "";
  }

  void PreparePublishAndMount();
  void UseMounts();
  void UseNetworks();
  void UseTasksAndTrees();
  void UseVolumes();
  void UseController();
  void ReadTheNode();
  void Release();

  std::unique_ptr<sdbus::IConnection> bus_;
  std::unique_ptr<ReleasedManager> client_;
};

void ReleasedClient::PreparePublishAndMount() {
  const Dict registered =
      MOUNTD_RELEASED(*client_, RegisterPlugin, "csi", "monolith", "",
                      {{"mount_dir", Word("/csi")}});
  EXPECT_EQ(TextIn(registered, "endpoint"), "unix:///csi/csi.sock");
  EXPECT_EQ(client_->Await("PluginChanged"), "csi healthy");
  const Dict made = MOUNTD_RELEASED(*client_, PrepareAllocation, "web",
                                    {{"scope", Word("prod")}});
  EXPECT_EQ(PathIn(made, "host_path"), "/run/mountd/base/a/web");
  const UniqueFd secrets = *csi::EncodeSecrets({{"key", "value"}});
  const Dict volume =
      MOUNTD_RELEASED(*client_, PublishVolume, "web", "data", "vol", "csi",
                      {{"access_mode", Word("single-node-writer")},
                       {"mount_flags", dbus::Value(Words{"noatime"})}},
                      Texts{{"a", "1"}}, Texts{{"b", "2"}},
                      {{"secrets", dbus::Value(sdbus::UnixFd(secrets.get()))}});
  EXPECT_FALSE(volume.at("is_device").get<bool>());
  EXPECT_FALSE(volume.at("read_only").get<bool>());
  const Dict mount = MOUNTD_RELEASED(
      *client_, BindMount, "web", "app", "data", "volume", "data", true,
      "host-to-task",
      {{"task_path", Word("/data")}, {"noexec", dbus::Value(true)}});
  EXPECT_EQ(PathIn(mount, "host_path"), "/run/mountd/base/a/web/app/data");
  EXPECT_EQ(TextIn(mount, "task_path"), "/data");
  EXPECT_EQ(TextIn(mount, "required_rootfs_propagation"), "slave");
  EXPECT_NE(mount.at("mount_id").get<std::uint64_t>(), 0U);
}

void ReleasedClient::UseMounts() {
  const Dicts both =
      MOUNTD_RELEASED(*client_, BindMounts, "web",
                      Dicts{{{"task", Word("app")},
                             {"name", Word("one")},
                             {"source_type", Word("host")},
                             {"source", Word("data")}},
                            {{"task", Word("app")},
                             {"name", Word("tmp")},
                             {"source_type", Word("tmpfs")},
                             {"source", Word("")},
                             {"size", dbus::Value(std::uint64_t{65536})}}},
                      {});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(PathIn(both[1], "host_path"), "/run/mountd/base/a/web/app/tmp");
  const Dict replaced =
      MOUNTD_RELEASED(*client_, ReplaceMount, "web", "app", "one", "host",
                      "data", true, "private", {});
  EXPECT_NE(replaced.at("replaced_mount_id").get<std::uint64_t>(), 0U);
  const Dict repaired =
      MOUNTD_RELEASED(*client_, RepairMount, "web", "app", "one", {});
  EXPECT_FALSE(repaired.at("reaches_task").get<bool>());
  EXPECT_NE(TextIn(repaired, "reason"), "");
  EXPECT_TRUE(
      MOUNTD_RELEASED(*client_, OpenTree, "web", "host", "data", "private", {})
          .isValid());
  const Dict inbox =
      MOUNTD_RELEASED(*client_, PrepareInbox, "web", "other", {});
  EXPECT_EQ(TextIn(inbox, "required_rootfs_propagation"), "slave");
  MOUNTD_RELEASED(*client_, RemoveInbox, "web", "other", {});
  MOUNTD_RELEASED(*client_, Unmount, "web", "app", "one",
                  {{"mode", Word("detach")}});
}

void ReleasedClient::UseNetworks() {
  const Dict network = MOUNTD_RELEASED(
      *client_, SetupNetwork, "web", "bridge",
      std::vector<ReleasedPort>{{"http", "", std::uint16_t{20080},
                                 std::uint16_t{80}, std::uint16_t{1}, "tcp"}},
      {{"hostname", Word("web")},
       {"dns_servers", dbus::Value(Words{"10.9.9.1"})}});
  EXPECT_EQ(TextIn(network, "interface"), "eth0");
  EXPECT_EQ(PathIn(network, "netns_path"), "/run/netns/web");
  const auto ports = network.at("ports").get<std::vector<ReleasedPort>>();
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].get<2>(), 20080);
  const Dict whole = MOUNTD_RELEASED(*client_, GetAllocation, "web", {});
  EXPECT_EQ(TextIn(whole, "scope"), "prod");
  EXPECT_EQ(whole.at("networks").get<Dicts>().size(), 1U);
  EXPECT_EQ(whole.at("volumes").get<Dicts>().size(), 1U);
  EXPECT_EQ(whole.at("mounts").get<Dicts>().size(), 2U);
  MOUNTD_RELEASED(*client_, TeardownNetwork, "web",
                  {{"interface", Word("eth0")}});
}

void ReleasedClient::UseTasksAndTrees() {
  const Dict holders = MOUNTD_RELEASED(*client_, ListHolders, "web", "app",
                                       "data", {{"scope", Word("node")}});
  EXPECT_TRUE(holders.at("holders").get<Dicts>().empty());
  EXPECT_TRUE(holders.at("complete").get<bool>());
  executor().PutCgroup(7, "/mountd-test");
  executor().SetTask(7);
  const Dict task = MOUNTD_RELEASED(*client_, VerifyTask, "web", "app",
                                    sdbus::UnixFd(STDERR_FILENO), {});
  EXPECT_FALSE(task.at("ok").get<bool>());
  EXPECT_EQ(task.at("mounts").get<Dicts>().size(), 2U);
  executor().SetTree(3);
  const Dict removed =
      MOUNTD_RELEASED(*client_, RemoveTree, RootDirectory(), {});
  EXPECT_EQ(removed.at("done").get<std::uint64_t>(), 3U);
  executor().SetTree(3);
  const Dict given = MOUNTD_RELEASED(*client_, ChownTree, RootDirectory(),
                                     100000U, 100000U, {});
  EXPECT_EQ(given.at("left").get<std::uint64_t>(), 0U);
}

void ReleasedClient::UseVolumes() {
  EXPECT_GE(MOUNTD_RELEASED(*client_, ExpandVolume, "web", "data",
                            std::int64_t{1} << 20U, {}),
            0);
  const Dict stats =
      MOUNTD_RELEASED(*client_, GetVolumeStats, "web", "data", {});
  using Usage = std::vector<
      sdbus::Struct<std::string, std::int64_t, std::int64_t, std::int64_t>>;
  EXPECT_EQ(stats.at("usage").get<Usage>().at(0).get<0>(), "bytes");
  const Dicts volumes = MOUNTD_RELEASED(*client_, ListVolumes, {});
  ASSERT_EQ(volumes.size(), 1U);
  EXPECT_EQ(TextIn(volumes[0], "state"), "staged");
  EXPECT_TRUE(volumes[0].at("needs_secrets").get<bool>());
  const Dict plugin = MOUNTD_RELEASED(*client_, GetPlugin, "csi", {});
  EXPECT_EQ(TextIn(plugin, "node_id"), "node-csi");
  EXPECT_EQ(plugin.at("node_capabilities").get<std::vector<std::int32_t>>(),
            (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(MOUNTD_RELEASED(*client_, ListPlugins, {}).size(), 1U);
  ReleasedPlugin object(*bus_, client_->Await("PluginAdded").substr(13));
  EXPECT_EQ(object.Id(), "csi");
  EXPECT_EQ(object.State(), "healthy");
  EXPECT_EQ(object.NodeId(), "node-csi");
  EXPECT_EQ(object.Topology(), (Texts{{"zone", "z1"}}));
}

void ReleasedClient::UseController() {
  const Texts context =
      MOUNTD_RELEASED(*client_, ControllerPublishVolume, "csi", "v", "node-b",
                      {{"read_only", dbus::Value(true)}}, Texts{}, {});
  EXPECT_TRUE(context.empty());
  MOUNTD_RELEASED(*client_, ControllerUnpublishVolume, "csi", "v", "node-b",
                  {});
  const Dict valid =
      MOUNTD_RELEASED(*client_, ValidateVolume, "csi", "v", Dict{}, Texts{},
                      {{"parameters", dbus::Value(Texts{{"tier", "1"}})}});
  EXPECT_FALSE(valid.at("confirmed").get<bool>());
  const Dict spec = {{"required_bytes", dbus::Value(std::int64_t{7})},
                     {"usages", dbus::Value(Dicts{Dict{}})}};
  const Dict created =
      MOUNTD_RELEASED(*client_, CreateVolume, "csi", "made", spec, {});
  EXPECT_EQ(TextIn(created, "volume"), "made");
  MOUNTD_RELEASED(*client_, DeleteVolume, "csi", "made", {});
  const Dict grown = MOUNTD_RELEASED(
      *client_, ControllerExpandVolume, "csi", "v", std::int64_t{8},
      {{"limit_bytes", dbus::Value(std::int64_t{9})}});
  EXPECT_FALSE(grown.at("node_expansion_required").get<bool>());
  const Dict page = MOUNTD_RELEASED(*client_, ListPluginVolumes, "csi",
                                    {{"max_entries", dbus::Value(2U)}});
  EXPECT_EQ(TextIn(page, "next_token"), "");
  EXPECT_EQ(MOUNTD_RELEASED(*client_, GetCapacity, "csi", {})
                .at("available_bytes")
                .get<std::int64_t>(),
            0);
  EXPECT_EQ(MOUNTD_RELEASED(*client_, CallController, "csi", "CreateSnapshot",
                            Bytes{1, 2}, {}),
            (Bytes{'a', 'b'}));
}

void ReleasedClient::ReadTheNode() {
  const auto entries = MOUNTD_RELEASED(*client_, ListAllocations, {});
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].get<3>(), "prepared");
  const Dicts kept = MOUNTD_RELEASED(*client_, Reconcile, "prod",
                                     std::uint64_t{1}, Words{"web"}, true, {});
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(TextIn(kept[0], "outcome"), "present");
  EXPECT_TRUE(MOUNTD_RELEASED(*client_, ListOwed, {}).empty());
  EXPECT_EQ(MOUNTD_RELEASED(*client_, RetryOwed, {}), 0U);
  EXPECT_TRUE(MOUNTD_RELEASED(*client_, ListOperations, {}).empty());
  const Dict node = MOUNTD_RELEASED(*client_, GetCapabilities, {});
  EXPECT_TRUE(node.at("rules").get<bool>());
  EXPECT_FALSE(node.at("source_types").get<Words>().empty());
  EXPECT_FALSE(MOUNTD_RELEASED(*client_, GetStatistics, {}).empty());
  if (IsRoot()) {
    EXPECT_TRUE(MOUNTD_RELEASED(*client_, Reload, {}).empty());
  } else {
    EXPECT_EQ(NameOfError([&] { MOUNTD_RELEASED(*client_, Reload, {}); }),
              "org.mountd1.Error.PermissionDenied");
  }
  EXPECT_EQ(client_->Version(), MOUNTD_VERSION);
  EXPECT_GT(client_->Addresses().at("default").get<0>(), 0U);
  EXPECT_EQ(client_->Owed().get<0>(), 0U);
  EXPECT_EQ(client_->FreeHostPorts(), 1001U);
  EXPECT_EQ(client_->StuckExecutors(), 0U);
}

void ReleasedClient::Release() {
  MOUNTD_RELEASED(*client_, Unmount, "web", "app", "data", {});
  MOUNTD_RELEASED(*client_, UnpublishVolume, "web", "data", {});
  const Dict receipt = MOUNTD_RELEASED(*client_, ReleaseAllocation, "web", {});
  EXPECT_EQ(TextIn(receipt, "allocation"), "web");
  EXPECT_TRUE(receipt.at("node_detached").get<bool>());
  EXPECT_NE(receipt.at("serial").get<std::uint64_t>(), 0U);
  const Dict again = MOUNTD_RELEASED(*client_, GetReceipt, "web", {});
  EXPECT_EQ(again.at("released_at").get<std::uint64_t>(),
            receipt.at("released_at").get<std::uint64_t>());
  MOUNTD_RELEASED(*client_, UnregisterPlugin, "csi",
                  {{"force", dbus::Value(false)}});
  EXPECT_NE(client_->Await("PluginRemoved"), "");
  MOUNTD_RELEASED(*client_, Unsubscribe, {});
}

// Returns the names of the methods of the release.
std::set<std::string> ReleasedMethods() {
  std::ifstream file(MOUNTD_RELEASED_MANAGER_XML);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string xml = text.str();
  const std::regex method("<method name=\"([^\"]*)\"");
  std::set<std::string> names;
  for (std::sregex_iterator it(xml.begin(), xml.end(), method), end; it != end;
       ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

TEST_F(ReleasedClient, MakesEachCallOfItsRelease) {
  MOUNTD_RELEASED(*client_, Subscribe, {});
  PreparePublishAndMount();
  UseMounts();
  UseNetworks();
  UseTasksAndTrees();
  UseVolumes();
  UseController();
  ReadTheNode();
  EXPECT_EQ(NameOfError([&] { MOUNTD_RELEASED(*client_, Cancel, "1.1", {}); }),
            "org.mountd1.Error.NotFound");
  Release();
  const std::set<std::string> released = ReleasedMethods();
  EXPECT_GT(released.size(), 40U);
  EXPECT_EQ(client_->called(), released);
}

TEST_F(ReleasedClient, GetsTheErrorsOfItsRelease) {
  client_->PrepareAllocation("web", {});
  const auto bind = [&](const char* source) {
    client_->BindMount("web", "app", "m", "host", source, false, "private", {});
  };
  EXPECT_EQ(NameOfError([&] { client_->PrepareAllocation("../etc", {}); }),
            "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(NameOfError([&] {
              client_->PrepareAllocation("web", {{"scoop", Word("x")}});
            }),
            "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(NameOfError([&] { client_->GetReceipt("web", {}); }),
            "org.mountd1.Error.NotFound");
  EXPECT_EQ(NameOfError([&] { bind("nothing"); }),
            "org.mountd1.Error.NotFound");
  bind("data");
  EXPECT_EQ(NameOfError([&] { client_->ListHolders("web", "app", "m", {}); }),
            "org.mountd1.Error.FailedPrecondition");
  executor().script().Block("PrepareAllocation");
  std::string operation;
  try {
    client_->PrepareAllocation("slow", {{"patience_ms", dbus::Value(1U)}});
  } catch (const sdbus::Error& error) {
    EXPECT_EQ(error.getName(), "org.mountd1.Error.InProgress");
    operation = error.getMessage();
  }
  client_->Subscribe({});
  executor().script().UnblockAll();
  EXPECT_EQ(client_->Await("OperationDone"), operation + " ");
  client_->PrepareAllocation("slow", {});
}

// Newer signals come to such a client, too. It has no handler for them.
TEST_F(ReleasedClient, IsNotDisturbedByNewerSignals) {
  client_->Subscribe({});
  client_->PrepareAllocation("web", {});
  client_->RegisterPlugin("csi", "node", "web", {});
  EXPECT_EQ(client_->Await("PluginChanged"), "csi healthy");
  const auto newer = ConnectPeer();
  ASSERT_NE(newer, nullptr);
  ASSERT_TRUE(newer->Call("Subscribe", "a{sv}", 0).ok());
  csi().SetReady("csi", false);
  EXPECT_NE(newer->AwaitSignal("PluginEvent").text, "");
  client_->UnregisterPlugin("csi", {});
  EXPECT_NE(client_->Await("PluginRemoved"), "");
}

}  // namespace
}  // namespace mountd::test
