// SPDX-License-Identifier: LGPL-2.1-or-later
//
//
// Each method called once with valid arguments: its answer and the types in it.
// mount_methods_test.cc has the methods on mounts.
#include "tests/dbus/methods.h"

#include <fcntl.h>

#include "csi-node/types/secrets.h"

namespace mountd::test {
namespace {

// A network without name servers of its own, which is none of CNI's.
Types NetworkTypes() {
  Types types = TypesOf<agent::NetworkStatus>();
  for (const char* key :
       {"mac", "dns_servers", "dns_searches", "dns_options"}) {
    types.erase(key);
  }
  return types;
}
const Types kNetworkTypes = NetworkTypes();

// A receipt of a call without names.
Types ReceiptTypes() {
  Types types = TypesOf<agent::Receipt>();
  types.erase("traceparent");
  types.erase("request_id");
  return types;
}
const Types kReceiptTypes = ReceiptTypes();

// Returns the types of a plugin, and of its one instance.
Types PluginTypes() {
  Types all = TypesOf<agent::PluginStatus>();
  Types of_instance = all;
  of_instance.erase("instances");
  of_instance.emplace("object", "o");
  all.merge(Prefixed("instances.0.", of_instance));
  return all;
}

TEST_P(Methods, PrepareAllocation) {
  const Answer answer = client_->Call("PrepareAllocation", "sa{sv}", "web", 1,
                                      "scope", "s", "region-1");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"host_path", "ay"}}));
  EXPECT_EQ(answer.values.at("host_path"), R"(b"/run/mountd/base/a/web")");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(Methods, PrepareAllocationWithAGroup) {
  const auto prepare = [&](std::uint32_t group) {
    return client_->Call("PrepareAllocation", "sa{sv}", "web", 1, "group", "u",
                         group);
  };
  EXPECT_EQ(prepare(0).error, "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(prepare(99999).error, "org.mountd1.Error.PermissionDenied");
  EXPECT_TRUE(executor().Existing().empty());
  const Answer answer = prepare(100000);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(executor().plans().back().body.allocation.group, 100000U);
  // A call without a group leaves it as it is.
  ASSERT_TRUE(client_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  EXPECT_EQ(executor().plans().back().body.allocation.group, 0U);
  EXPECT_EQ(
      client_->Call("GetAllocation", "sa{sv}", "web", 0).values.at("group"),
      "100000");
}

TEST_P(Methods, SetupNetwork) {
  MustPrepare();
  const Answer answer =
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 2,
                    "http", "", 20080, 80, 1, "tcp+udp", "", "127.0.0.1", 20443,
                    0, 3, "sctp+tcp", 1, "network", "s", "default");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kNetworkTypes);
  EXPECT_EQ(answer.values.at("netns_path"), R"(b"/run/netns/web")");
  EXPECT_EQ(answer.values.at("interface"), R"("eth0")");
  EXPECT_EQ(answer.values.at("ports"),
            R"([("http", "", 20080, 80, 1, "tcp+udp"), )"
            R"(("", "127.0.0.1", 20443, 20443, 3, "tcp+sctp")])");
}

TEST_P(Methods, SetupNetworkMapsUdpIfItIsFree) {
  MustPrepare();
  executor().PutHostSocket(20080, exec::kUdp);
  const auto set_up = [&](const char* protocols) {
    return client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 2,
                         "a", "", 20080, 80, 1, protocols, "b", "", 20081, 81,
                         1, protocols, 0);
  };
  for (const char* wrong : {"?", "tcp+?", "udp??", "tcp?udp", "?udp"}) {
    EXPECT_EQ(set_up(wrong).error, "org.mountd1.Error.InvalidArgument")
        << wrong;
  }
  const Answer answer = set_up("tcp+udp?");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("ports"),
            R"([("a", "", 20080, 80, 1, "tcp"), )"
            R"(("b", "", 20081, 81, 1, "tcp+udp")])");
}

TEST_P(Methods, SetupNetworkOfCni) {
  MustPrepare();
  const Answer answer = client_->Call(
      "SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "cni/net", 0, 4, "cni_args",
      "a{ss}", 1, "K", "V", "mac", "s", "02:00:00:00:00:01", "ips", "as", 1,
      "10.99.0.9/24", "bandwidth", "a{st}", 1, "egress_rate",
      std::uint64_t{1000});
  ASSERT_TRUE(answer.ok()) << answer.message;
  Types types = kNetworkTypes;
  types.emplace("mac", "s");
  EXPECT_EQ(answer.types, types);
  EXPECT_EQ(answer.values.at("mode"), R"("cni/net")");
  EXPECT_EQ(answer.values.at("address"), R"("10.99.0.2")");
  EXPECT_EQ(answer.values.at("gateway"), R"("10.99.0.1")");
  EXPECT_EQ(answer.values.at("mac"), R"("0a:00:00:00:00:02")");
  const std::string request = executor().cni_requests().back();
  EXPECT_NE(request.find(R"("egressRate":1000)"), std::string::npos) << request;

  const Answer unknown =
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "cni/net", 0, 1,
                    "bandwidth", "a{st}", 1, "sideways_rate", std::uint64_t{1});
  EXPECT_EQ(unknown.error, "org.mountd1.Error.InvalidArgument");
}

TEST_P(Methods, GetNetwork) {
  MustPrepare();
  EXPECT_EQ(client_->Call("GetNetwork", "sa{sv}", "web", 0).error,
            "org.mountd1.Error.NotFound");
  const Answer made =
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 1,
                    "http", "", 20080, 80, 1, "tcp", 0);
  ASSERT_TRUE(made.ok()) << made.message;
  const Answer answer =
      client_->Call("GetNetwork", "sa{sv}", "web", 1, "interface", "s", "eth0");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kNetworkTypes);
  EXPECT_EQ(answer.text, made.text);
  const Answer open =
      client_->Call("GetNetwork", "sa{sv}", "web", 1, "netns_fd", "b", true);
  ASSERT_TRUE(open.ok()) << open.message;
  Types types = kNetworkTypes;
  types.emplace("netns", "h");
  EXPECT_EQ(open.types, types);
  const Answer list = client_->Call("ListHandedOut", "sa{sv}", "web", 0);
  ASSERT_TRUE(list.ok()) << list.message;
  EXPECT_EQ(list.values.at("descriptors"), "[]") << "nobody has it any more";
}

TEST_P(Methods, UpdatePorts) {
  MustPrepare();
  ASSERT_TRUE(client_
                  ->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 1,
                         "http", "", 20080, 80, 1, "tcp", 0)
                  .ok());
  const Answer answer = client_->Call(
      "UpdatePorts", "sa(ssqqqs)a{sv}", "web", 2, "http", "", 20080, 80, 1,
      "tcp", "b", "", 20081, 0, 1, "udp?", 1, "interface", "s", "eth0");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kNetworkTypes);
  EXPECT_EQ(answer.values.at("ports"), R"([("http", "", 20080, 80, 1, "tcp"), )"
                                       R"(("b", "", 20081, 20081, 1, "udp")])");
  EXPECT_EQ(client_->Call("GetNetwork", "sa{sv}", "web", 0).text, answer.text);
  const Answer denied = client_->Call("UpdatePorts", "sa(ssqqqs)a{sv}", "web",
                                      1, "ssh", "", 22, 22, 1, "tcp", 0);
  EXPECT_EQ(denied.error, "org.mountd1.Error.PermissionDenied");
  executor().PutHostSocket(20082);
  const Answer taken = client_->Call("UpdatePorts", "sa(ssqqqs)a{sv}", "web", 1,
                                     "a", "", 20082, 80, 1, "tcp", 0);
  EXPECT_EQ(taken.error, "org.mountd1.Error.AlreadyExists");
  EXPECT_EQ(client_->Call("GetNetwork", "sa{sv}", "web", 0).text, answer.text);
}

TEST_P(Methods, TeardownNetwork) {
  MustPrepare();
  ASSERT_TRUE(
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0, 0)
          .ok());
  const Answer answer = client_->Call("TeardownNetwork", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(Methods, PublishVolume) {
  RegisterPlugin(*client_);
  MustPrepare();
  const UniqueFd secrets = csi::EncodeSecrets({{"key", "value"}}).value();
  const Answer answer = client_->Call(
      "PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "data", "vol", "csi",
      5, "read_only", "b", 1, "access_mode", "s", "multi-node-reader-only",
      "attachment_mode", "s", "file-system", "fs_type", "s", "ext4",
      "mount_flags", "as", 1, "noatime", 1, "a", "b", 1, "c", "d", 1, "secrets",
      "h", secrets.get());
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(
      answer.types,
      (Types{{"host_path", "ay"}, {"read_only", "b"}, {"is_device", "b"}}));
  EXPECT_EQ(answer.values.at("read_only"), "true");
  const csi::PublishRequest request = csi().last_publish();
  EXPECT_EQ(request.publish_context, (StringMap{{"a", "b"}}));
  EXPECT_EQ(request.volume_context, (StringMap{{"c", "d"}}));
  EXPECT_EQ(request.capability.fs_type, "ext4");
  EXPECT_EQ(request.capability.mount_flags,
            std::vector<std::string>{"noatime"});
  EXPECT_EQ(request.capability.access_mode,
            csi::AccessMode::kMultiNodeReaderOnly);
  EXPECT_TRUE(csi().last_had_secrets());
}

TEST_P(Methods, UnpublishVolume) {
  Publish(*client_);
  const Answer answer =
      client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_TRUE(csi().Published().empty());
  EXPECT_TRUE(csi().Staged().empty());
}

TEST_P(Methods, RemoveTree) {
  const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  executor().SetTree(3);
  const Answer answer =
      client_->Call("RemoveTree", "ha{sv}", directory.get(), 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"done", "t"}}));
  EXPECT_EQ(answer.values.at("done"), "3");
}

TEST_P(Methods, ChownTree) {
  const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  executor().SetTree(3);
  const Answer answer = client_->Call("ChownTree", "huua{sv}", directory.get(),
                                      100000, 100000, 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"done", "t"}, {"left", "t"}}));
  EXPECT_EQ(answer.values.at("done"), "3");
}

TEST_P(Methods, ReleaseAllocationAndItsReceipt) {
  Publish(*client_);
  const Answer receipt = client_->Call("ReleaseAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(receipt.ok()) << receipt.message;
  EXPECT_EQ(receipt.types, kReceiptTypes);
  EXPECT_EQ(receipt.values.at("allocation"), R"("web")");
  EXPECT_EQ(receipt.values.at("node_detached"), "true");
  EXPECT_EQ(receipt.values.at("volumes"), R"([("csi", "vol", true)])");
  const Answer again = client_->Call("GetReceipt", "sa{sv}", "web", 0);
  EXPECT_EQ(again.text, receipt.text);
  EXPECT_EQ(client_->Call("ReleaseAllocation", "sa{sv}", "web", 0).text,
            receipt.text);
}

TEST_P(Methods, ReleaseAllocationOnlyIfItIsBare) {
  Publish(*client_);
  ASSERT_TRUE(
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0, 0)
          .ok());
  const auto release = [&](const char* only_if) {
    return client_->Call("ReleaseAllocation", "sa{sv}", "web", 1, "only_if",
                         "s", only_if);
  };
  EXPECT_EQ(release("bare").error, "org.mountd1.Error.InvalidArgument");
  const std::string before = State();
  const Answer unused = release("unused");
  EXPECT_EQ(unused.error, "org.mountd1.Error.Busy");
  EXPECT_TRUE(unused.message.ends_with("has volume data")) << unused.message;
  const Answer empty = release("empty");
  EXPECT_EQ(empty.error, "org.mountd1.Error.Busy");
  EXPECT_TRUE(empty.message.ends_with("has volume data, network eth0"))
      << empty.message;
  EXPECT_EQ(State(), before);

  ASSERT_TRUE(
      client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0).ok());
  EXPECT_TRUE(release("empty").message.ends_with("has network eth0"));
  EXPECT_TRUE(release("unused").ok());
  EXPECT_TRUE(release("empty").ok()) << "the receipt";
}

TEST_P(Methods, GetAllocation) {
  Publish(*client_);
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "volume", "data", 0, "private", 0)
                  .ok());
  ASSERT_TRUE(
      client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0, 0)
          .ok());
  const Answer answer = client_->Call("GetAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  Types expected = TypesOf<agent::AllocationStatus>();
  expected.merge(Prefixed("networks.0.", kNetworkTypes));
  expected.merge(Prefixed("mounts.0.", TypesOf<agent::MountStatus>()));
  expected.merge(Prefixed("volumes.0.", TypesOf<agent::VolumeStatus>()));
  EXPECT_EQ(answer.types, expected);
  EXPECT_EQ(answer.values.at("uid"), std::to_string(::geteuid()));
  EXPECT_EQ(answer.values.at("state"), R"("prepared")");
  EXPECT_EQ(answer.values.at("volumes.0.state"), R"("published")");
  EXPECT_EQ(answer.values.at("mounts.0.source_type"), R"("volume")");
}

TEST_P(Methods, GetAllocationWithoutAnything) {
  MustPrepare();
  const Answer answer = client_->Call("GetAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("networks"), "[]");
  EXPECT_EQ(answer.values.at("group"), "0");
  EXPECT_EQ(answer.types.at("volumes"), "aa{sv}");
  EXPECT_EQ(answer.types.at("mounts"), "aa{sv}");
}

TEST_P(Methods, ListAllocations) {
  EXPECT_EQ(client_->Call("ListAllocations", "a{sv}", 0).text, "[]");
  MustPrepare();
  const Answer answer = client_->Call("ListAllocations", "a{sv}", 0);
  EXPECT_EQ(answer.signature, "a(suss)");
  EXPECT_EQ(answer.text, "[(\"web\", " + std::to_string(::geteuid()) +
                             ", \"\", \"prepared\")]");
}

TEST_P(Methods, Reconcile) {
  MustPrepare();
  const auto reconcile = [&](std::uint64_t epoch, bool dry_run,
                             const char* wanted = nullptr) {
    return wanted != nullptr ? client_->Call("Reconcile", "stasba{sv}", "",
                                             epoch, 1, wanted, int{dry_run}, 0)
                             : client_->Call("Reconcile", "stasba{sv}", "",
                                             epoch, 0, int{dry_run}, 0);
  };
  const Answer kept = reconcile(5, false, "web");
  ASSERT_TRUE(kept.ok()) << kept.message;
  EXPECT_EQ(kept.signature, "aa{sv}");
  EXPECT_EQ(kept.types, Prefixed("0.", Types{{"allocation", "s"},
                                             {"outcome", "s"},
                                             {"reason", "s"},
                                             {"needs", "as"}}));
  EXPECT_EQ(kept.values.at("0.outcome"), R"("present")");
  EXPECT_EQ(kept.values.at("0.needs"), R"(["bare"])");
  EXPECT_EQ(reconcile(4, false).error, "org.mountd1.Error.FailedPrecondition");
  EXPECT_EQ(reconcile(5, true).values.at("0.outcome"), R"("unwanted")");
  EXPECT_EQ(reconcile(5, false, "web2").values.at("0.outcome"),
            R"("released")");
  EXPECT_TRUE(client_->Call("GetReceipt", "sa{sv}", "web", 0).ok());
  EXPECT_EQ(reconcile(5, false).text, "[]");
}

TEST_P(Methods, ReconcileRefusesANameTwice) {
  MustPrepare();
  EXPECT_EQ(client_
                ->Call("Reconcile", "stasba{sv}", "", std::uint64_t{1}, 2, "db",
                       "db", 0, 0)
                .error,
            "org.mountd1.Error.InvalidArgument");
  EXPECT_TRUE(client_->Call("GetAllocation", "sa{sv}", "web", 0).ok());
}

// The release is pending, and its number is reported, although the call
// succeeded.
TEST_P(Methods, ReconcileOwesWhatItCannotRelease) {
  Publish(*client_);
  csi().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal,
                 FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  const Answer answer =
      client_->Call("Reconcile", "stasba{sv}", "", std::uint64_t{1}, 0, 0, 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("0.outcome"), R"("owed")");
  EXPECT_EQ(client_->AwaitSignal("OwedChanged").text, "1");
  csi().script().Clear();
}

TEST_P(Methods, ListVolumes) {
  Publish(*client_);
  const Answer answer = client_->Call("ListVolumes", "a{sv}", 0);
  EXPECT_EQ(answer.signature, "aa{sv}");
  EXPECT_EQ(answer.types, (Types{{"0.plugin", "s"},
                                 {"0.volume", "s"},
                                 {"0.state", "s"},
                                 {"0.attachment_mode", "s"},
                                 {"0.access_mode", "s"},
                                 {"0.fs_type", "s"},
                                 {"0.needs_secrets", "b"},
                                 {"0.users", "a(ss)"}}));
  EXPECT_EQ(answer.values.at("0.users"), R"([("web", "data")])");
}

TEST_P(Methods, RegisterPlugin) {
  const Answer answer = client_->Call("RegisterPlugin", "sssa{sv}", "csi",
                                      "node", "", 1, "mount_dir", "s", "/csi");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(
      answer.types,
      (Types{{"host_path", "ay"}, {"endpoint", "s"}, {"mounts", "a(aysbs)"}}));
  EXPECT_EQ(answer.values.at("endpoint"), R"("unix:///csi/csi.sock")");
}

TEST_P(Methods, UnregisterPlugin) {
  RegisterPlugin(*client_);
  const Answer answer = client_->Call("UnregisterPlugin", "sa{sv}", "csi", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_P(Methods, OneInstanceOfAPluginIsUnregistered) {
  RegisterPlugin(*client_);
  ASSERT_TRUE(client_
                  ->Call("RegisterPlugin", "sssa{sv}", "csi", "controller", "",
                         3, "stage_publish_base_dir", "s", "/base",
                         "bare_directories", "b", 0, "health_timeout_ms", "u",
                         5000)
                  .ok());
  const auto types = [&] {
    const Answer answer = client_->Call("GetPlugin", "sa{sv}", "csi", 0);
    const auto second = answer.values.find("instances.1.type");
    return answer.values.at("instances.0.type") +
           (second == answer.values.end() ? "" : second->second);
  };
  EXPECT_EQ(types(), R"("controller""node")");
  const auto unregister = [&](const char* type, const char* allocation) {
    return client_
        ->Call("UnregisterPlugin", "sa{sv}", "csi", 3, "type", "s", type,
               "allocation", "s", allocation, "force", "b", 1)
        .ok();
  };
  EXPECT_TRUE(unregister("controller", "web"));
  EXPECT_EQ(types(), R"("controller""node")");
  EXPECT_TRUE(unregister("controller", ""));
  EXPECT_EQ(types(), R"("node")");
}

TEST_P(Methods, GetPluginAndListPlugins) {
  RegisterPlugin(*client_);
  const Answer one = client_->Call("GetPlugin", "sa{sv}", "csi", 0);
  ASSERT_TRUE(one.ok()) << one.message;
  EXPECT_EQ(one.types, PluginTypes());
  EXPECT_EQ(one.values.at("instances.0.object"),
            R"("/org/mountd1/plugin/csi/0")");
  EXPECT_EQ(one.values.at("node_id"), R"("node-csi")");
  EXPECT_EQ(one.values.at("topology"), R"({"zone": "z1"})");
  const Answer all = client_->Call("ListPlugins", "a{sv}", 0);
  EXPECT_EQ(all.signature, "aa{sv}");
  EXPECT_EQ(all.types, Prefixed("0.", PluginTypes()));
}

TEST_P(Methods, ListOwedAndRetryOwed) {
  Publish(*client_);
  csi().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal,
                 FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  EXPECT_FALSE(
      client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0).ok());
  const Answer owed = client_->Call("ListOwed", "a{sv}", 0);
  EXPECT_EQ(owed.signature, "a(tsssut)");
  EXPECT_NE(owed.text.find(R"("unpublish", "web/data")"), std::string::npos)
      << owed.text;
  csi().script().Clear();
  const Answer left = client_->Call("RetryOwed", "a{sv}", 0);
  EXPECT_EQ(left.signature, "u");
  EXPECT_EQ(left.text, "0");
  EXPECT_EQ(client_->Call("ListOwed", "a{sv}", 0).text, "[]");
}

TEST_P(Methods, ListOperations) {
  EXPECT_EQ(client_->Call("ListOperations", "a{sv}", 0).text, "[]");
  executor().script().Block("PrepareAllocation");
  const Answer waiting = client_->Call("PrepareAllocation", "sa{sv}", "web", 1,
                                       "patience_ms", "u", 1);
  ASSERT_EQ(waiting.error, "org.mountd1.Error.InProgress");
  ASSERT_TRUE(executor().script().AwaitBlocked("PrepareAllocation"));
  const Answer all = client_->Call("ListOperations", "a{sv}", 0);
  EXPECT_EQ(all.signature, "aa{sv}");
  EXPECT_EQ(all.types, Prefixed("0.", {{"id", "s"},
                                       {"method", "s"},
                                       {"object", "s"},
                                       {"uid", "u"},
                                       {"elapsed_ms", "t"},
                                       {"waiters", "u"},
                                       {"cancelled", "b"},
                                       {"step", "s"}}));
  EXPECT_EQ(all.values.at("0.id"), "\"" + waiting.message + "\"");
  EXPECT_EQ(all.values.at("0.method"), R"("PrepareAllocation")");
  EXPECT_EQ(all.values.at("0.object"), R"("allocation web")");
  EXPECT_EQ(all.values.at("0.uid"), std::to_string(::geteuid()));
  EXPECT_EQ(all.values.at("0.waiters"), "0");
  EXPECT_EQ(all.values.at("0.step"), R"("work")");
  executor().script().UnblockAll();
  EXPECT_TRUE(Eventually([&] { return server().running() == 0; }));
  EXPECT_EQ(client_->Call("ListOperations", "a{sv}", 0).text, "[]");
}

// The operation reports its try and the reason as an error's name, not in the
// plugin's own words.
TEST_P(Methods, ListOperationsTellsTries) {
  RegisterPlugin(*client_);
  MustPrepare();
  csi().FailNext("NodeStageVolume", csi::RpcCode::kUnavailable,
                 FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  const std::uint64_t call =
      client_->Send("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "data",
                    "vol", "csi", 0, 0, 0, 0);
  const auto other = Connect();
  std::map<std::string, std::string> now;
  ASSERT_TRUE(Eventually([&] {
    now = other->Call("ListOperations", "a{sv}", 0).values;
    return now.contains("0.error") && now.at("0.step") == R"("stage")";
  }));
  EXPECT_NE(now.at("0.attempt"), "0");
  EXPECT_EQ(now.at("0.error"), R"("Unavailable")");
  csi().script().Clear();
  EXPECT_TRUE(client_->Await(call).ok());
}

TEST_P(Methods, GetCapabilities) {
  const Answer answer = client_->Call("GetCapabilities", "a{sv}", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  Types types = TypesOf<agent::Capabilities>();
  types.erase("mount_namespace");  // this node has mounts in the host's
  types.emplace("executor_capabilities", "t");
  EXPECT_EQ(answer.types, types);
  EXPECT_EQ(answer.values.at("mount_reserve"), "1000");
  EXPECT_EQ(answer.values.at("owed_warning_ms"), "20");
  EXPECT_EQ(answer.values.at("administrator"),
            ::geteuid() == 0 ? "true" : "false");
  EXPECT_EQ(answer.values.at("rules"), "true");
  EXPECT_EQ(answer.values.at("version"), "\"" MOUNTD_VERSION "\"");
  EXPECT_EQ(answer.values.at("network_modes"),
            R"(["bridge", "none", "host", "driver"])");
}

TEST_P(Methods, GetStatistics) {
  MustPrepare();
  const Answer answer = client_->Call("GetStatistics", "a{sv}", 0);
  EXPECT_EQ(answer.signature, "a(stttt)");
  EXPECT_NE(answer.text.find(R"(("PrepareAllocation", 1, 0, )"),
            std::string::npos)
      << answer.text;
}

TEST_P(Methods, SubscribeUnsubscribeAnswerNothing) {
  EXPECT_EQ(client_->Call("Subscribe", "a{sv}", 0).signature, "");
  const Answer answer = client_->Call("Unsubscribe", "a{sv}", 0);
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
}

MOUNTD_ON_BOTH_TRANSPORTS(Methods);

}  // namespace
}  // namespace mountd::test
