// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/agent/client_test.h"

namespace mountd::agent::test {
namespace {

TEST_F(ClientTest, VersionIsThePropertysValue) {
  EXPECT_EQ(client_->Version().value(), "0.1.0");
}

TEST_F(ClientTest, PrepareAllocationSendsTheScopeAndAnswersThePath) {
  EXPECT_EQ(client_->PrepareAllocation("web", {.scope = "x"}).value(),
            "/run/mountd/base/a/web");
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {scope=x;}");
}

TEST_F(ClientTest, ACgroupIsSentAsItsFd) {
  const UniqueFd directory(::open("/", O_PATH | O_CLOEXEC));
  ASSERT_TRUE(client_->PrepareAllocation("web", {.cgroup = directory.get()}));
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {cgroup=h;}");
  EXPECT_GE(::fcntl(directory.get(), F_GETFD), 0) << "it stays the caller's";
}

TEST_F(ClientTest, AGroupIsSent) {
  ASSERT_TRUE(client_->PrepareAllocation("web", {.group = 100000}));
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {group=u100000;}");
}

TEST_F(ClientTest, OptionsNotGivenAreNotSent) {
  ASSERT_TRUE(client_->PrepareAllocation("web"));
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {}");
}

TEST_F(ClientTest, PatienceIsSentWhenGiven) {
  Client patient = Client::Connect({.address = server_.address(),
                                    .patience = std::chrono::seconds(5)})
                       .value();
  ASSERT_TRUE(patient.PrepareAllocation("web"));
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {patience_ms=u5000;}");
}

TEST_F(ClientTest, TheNamesOfTheCallsAreSent) {
  Client named = Client::Connect({.address = server_.address(),
                                  .names = {.request_id = "r1"}})
                     .value();
  ASSERT_TRUE(named.PrepareAllocation("web"));
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {request_id=r1;}");
  named.SetNames({.traceparent = "tp", .request_id = "r2"});
  ASSERT_TRUE(named.PrepareAllocation("web", {.scope = "x"}));
  EXPECT_EQ(script().last_call(),
            "PrepareAllocation web {request_id=r2;scope=x;traceparent=tp;}");
  named.SetNames({});
  ASSERT_TRUE(named.PrepareAllocation("web"));
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {}");
}

TEST_F(ClientTest, SetupNetworkSendsWhatCnisPluginsAreAsked) {
  NetworkSpec spec;
  spec.mode = "cni/net";
  spec.cni_args = {{"K", "V"}};
  spec.mac = "02:00:00:00:00:01";
  spec.ips = {"10.1.0.5/24"};
  spec.bandwidth = {{"ingress_rate", 1000}};
  ASSERT_TRUE(client_->SetupNetwork("web", spec));
  const std::string call = script().last_call();
  EXPECT_EQ(call.find("SetupNetwork web cni/net "), 0U) << call;
  for (const char* option :
       {"cni_args=", "mac=02:00:00:00:00:01;", "ips=", "bandwidth="}) {
    EXPECT_NE(call.find(option), std::string::npos) << call;
  }
}

TEST_F(ClientTest, SetupNetworkSendsEachPortAndAnswersAllFields) {
  NetworkSpec spec;
  spec.network = "other";
  spec.ports = {{"http", 8080, 80, "tcp"},
                {"dns", 53, 0, "tcp+udp", 2, "127.0.0.1"}};
  spec.interface = "eth1";
  spec.address = "10.88.0.2";
  spec.isolated = true;
  spec.default_route = false;
  const NetworkStatus network = client_->SetupNetwork("web", spec).value();
  EXPECT_EQ(script().last_call(),
            "SetupNetwork web bridge http,,8080,80,1,tcp "
            "dns,127.0.0.1,53,0,2,tcp+udp {address=10.88.0.2;"
            "default_route=false;interface=eth1;isolated=true;network=other;}");
  EXPECT_EQ(network.mode, "bridge");
  EXPECT_EQ(network.network, "default");
  EXPECT_TRUE(network.default_route);
  ASSERT_EQ(network.files.size(), 1U);
  EXPECT_EQ(network.files[0].host_path, "/h");
  EXPECT_EQ(network.files[0].task_path, "/etc/hosts");
  EXPECT_EQ(network.netns_path, "/run/netns/web");
  EXPECT_EQ(network.netns_inode, 4026531840U);
  EXPECT_EQ(network.interface, "eth0");
  EXPECT_EQ(network.address, "10.88.0.2");
  EXPECT_EQ(network.address6, "fd00::2");
  EXPECT_EQ(network.gateway, "10.88.0.1");
  EXPECT_EQ(network.gateway6, "fd00::1");
  EXPECT_EQ(network.host_interface, "mdabc");
  EXPECT_EQ(network.mac, "02:4d:0a:58:00:02");
  EXPECT_EQ(network.dns_servers, std::vector<std::string>{"192.0.2.53"});
  ASSERT_EQ(network.ports.size(), 1U);
  EXPECT_EQ(network.ports[0].label, "http");
  EXPECT_EQ(network.ports[0].host, 8080);
  EXPECT_EQ(network.ports[0].container, 80);
  EXPECT_EQ(network.ports[0].protocols, "tcp");
}

TEST_F(ClientTest, PublishVolumeSendsUsageAndContexts) {
  VolumeSpec spec{.alias = "data", .volume = "web-data", .plugin = "csi"};
  spec.usage = {.read_only = true,
                .access_mode = "multi-node-reader-only",
                .attachment_mode = "file-system",
                .fs_type = "ext4",
                .mount_flags = {"noatime", "sync"}};
  spec.publish_context = {{"p", "1"}};
  spec.volume_context = {{"v", "2"}};
  const PublishedVolume volume = client_->PublishVolume("web", spec).value();
  EXPECT_EQ(script().last_call(),
            "PublishVolume web data web-data csi "
            "{access_mode=multi-node-reader-only;attachment_mode=file-system;"
            "fs_type=ext4;mount_flags=noatime+sync+;read_only=true;} {p=1;} "
            "{v=2;} {}");
  EXPECT_EQ(volume.host_path, "/p/\xff") << "a path may hold any byte";
  EXPECT_TRUE(volume.read_only);
  EXPECT_FALSE(volume.is_device);
}

TEST_F(ClientTest, UpdatePortsSendsAllPorts) {
  const NetworkStatus network =
      client_
          ->UpdatePorts("web", {{"http", 8080, 80, "tcp+udp?"}, {"", 8081}},
                        "eth1")
          .value();
  EXPECT_EQ(script().last_call(),
            "UpdatePorts web http,,8080,80,1,tcp+udp? ,,8081,0,1,tcp "
            "{interface=eth1;}");
  EXPECT_EQ(network.ports.size(), 1U);
  ASSERT_TRUE(client_->UpdatePorts("web", {}));
  EXPECT_EQ(script().last_call(), "UpdatePorts web {}");
}

TEST_F(ClientTest, ANetworkIsReadAndItsNamespaceOpened) {
  const NetworkStatus network = client_->GetNetwork("web").value();
  EXPECT_EQ(script().last_call(), "GetNetwork web {}");
  EXPECT_EQ(network.address, "10.88.0.2");
  ASSERT_TRUE(client_->GetNetwork("web", "eth1"));
  EXPECT_EQ(script().last_call(), "GetNetwork web {interface=eth1;}");
  const Result<UniqueFd> netns = client_->OpenNamespace("web", "eth1");
  ASSERT_TRUE(netns);
  EXPECT_TRUE(netns->valid());
  EXPECT_EQ(script().last_call(),
            "GetNetwork web {interface=eth1;netns_fd=true;}");
}

TEST_F(ClientTest, CallsWithoutAnAnswerNameWhatTheyUndo) {
  ASSERT_TRUE(client_->TeardownNetwork("web"));
  EXPECT_EQ(script().last_call(), "TeardownNetwork web {}");
  ASSERT_TRUE(client_->UnpublishVolume("web", "data"));
  EXPECT_EQ(script().last_call(), "UnpublishVolume web data {}");
  ASSERT_TRUE(client_->Unmount("web", "server", "data"));
  EXPECT_EQ(script().last_call(), "Unmount web server data {}");
  ASSERT_TRUE(client_->Unmount("web", "server", "data", UnmountMode::kDetach));
  EXPECT_EQ(script().last_call(), "Unmount web server data {mode=detach;}");
  ASSERT_TRUE(client_->Unmount("web", "server", "data", UnmountMode::kPlain,
                               OnTasks::kWait));
  EXPECT_EQ(script().last_call(), "Unmount web server data {tasks=wait;}");
  ASSERT_TRUE(client_->UnregisterPlugin("csi"));
  EXPECT_EQ(script().last_call(), "UnregisterPlugin csi {}");
  ASSERT_TRUE(client_->Cancel("op-1"));
  EXPECT_EQ(script().last_call(), "Cancel op-1 {}");
}

TEST_F(ClientTest, TreesGoByTheirDirectory) {
  const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  struct stat file {};
  ASSERT_EQ(fstat(directory.get(), &file), 0);
  const std::string inode = std::to_string(file.st_ino);
  const auto removed = client_->RemoveTree(directory.get());
  ASSERT_TRUE(removed) << removed.error().Message();
  EXPECT_EQ(removed->done, 3U);
  EXPECT_EQ(removed->left, 0U);
  EXPECT_EQ(script().last_call(), "RemoveTree " + inode + " {}");
  const auto changed = client_->ChownTree(directory.get(), 1000, 100);
  ASSERT_TRUE(changed) << changed.error().Message();
  EXPECT_EQ(changed->left, 1U);
  EXPECT_EQ(script().last_call(), "ChownTree " + inode + " 1000:100 {}");
}

TEST_F(ClientTest, WhatTasksHaveIsWaitedForOrIgnored) {
  ASSERT_TRUE(client_->ReleaseAllocation("web", OnTasks::kWait));
  EXPECT_EQ(script().last_call(), "ReleaseAllocation web {tasks=wait;}");
  ASSERT_TRUE(client_->UnpublishVolume("web", "data", OnTasks::kIgnore));
  EXPECT_EQ(script().last_call(), "UnpublishVolume web data {tasks=ignore;}");
}

TEST_F(ClientTest, AReleaseMayBeForBareAllocationsAlone) {
  ASSERT_TRUE(
      client_->ReleaseAllocation("web", OnTasks::kRefuse, OnlyIf::kUnused));
  EXPECT_EQ(script().last_call(), "ReleaseAllocation web {only_if=unused;}");
  ASSERT_TRUE(
      client_->ReleaseAllocation("web", OnTasks::kRefuse, OnlyIf::kEmpty));
  EXPECT_EQ(script().last_call(), "ReleaseAllocation web {only_if=empty;}");
}

TEST_F(ClientTest, ReceiptsAreTheSameFromReleaseAndGetReceipt) {
  for (const bool release : {true, false}) {
    const Receipt receipt = release ? client_->ReleaseAllocation("web").value()
                                    : client_->GetReceipt("web").value();
    EXPECT_EQ(receipt.allocation, "web");
    EXPECT_EQ(receipt.released_at.time_since_epoch().count(),
              1'700'000'000'000'000);
    EXPECT_TRUE(receipt.node_detached);
    EXPECT_EQ(receipt.serial, 7U);
    ASSERT_EQ(receipt.volumes.size(), 1U);
    EXPECT_EQ(receipt.volumes[0].plugin, "csi-local");
    EXPECT_EQ(receipt.volumes[0].volume, "web-data");
    EXPECT_TRUE(receipt.volumes[0].unstaged);
  }
}

TEST_F(ClientTest, GetAllocationAnswersNetworkVolumesAndMounts) {
  const AllocationStatus status = client_->GetAllocation("web").value();
  EXPECT_EQ(status.id, "web");
  EXPECT_EQ(status.uid, 1000U);
  EXPECT_EQ(status.scope, "example");
  EXPECT_EQ(status.state, "prepared");
  EXPECT_EQ(status.host_path, "/run/mountd/base/a/web");
  EXPECT_EQ(status.group, 100000U);
  ASSERT_EQ(status.networks.size(), 1U);
  EXPECT_EQ(status.networks[0].address, "10.88.0.2");
  ASSERT_EQ(status.volumes.size(), 1U);
  EXPECT_EQ(status.volumes[0].alias, "data");
  EXPECT_EQ(status.volumes[0].state, "published");
  EXPECT_EQ(status.volumes[0].host_path, "/p/data");
  ASSERT_EQ(status.mounts.size(), 1U);
  EXPECT_EQ(status.mounts[0].task, "server");
  EXPECT_EQ(status.mounts[0].source_type, "volume");
  EXPECT_EQ(status.mounts[0].config.mount_id, 11U);
}

TEST_F(ClientTest, ReconcilesAndReadsWhatBecameOfEach) {
  const auto all = client_->Reconcile(
      {.scope = "s", .epoch = UINT64_MAX, .wanted = {"web", "db"}});
  ASSERT_TRUE(all) << all.error().Message();
  EXPECT_EQ(script().last_call(),
            "Reconcile [s] 18446744073709551615 web db {}");
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ(all->at(0).allocation, "busy");
  EXPECT_EQ(all->at(0).outcome, "live");
  EXPECT_EQ(all->at(0).holders->holders.at(0).pid, 12U);
  EXPECT_FALSE(all->at(1).holders);
  EXPECT_EQ(all->at(2).reason, "why");
  EXPECT_EQ(all->at(2).needs,
            (std::vector<std::string>{"bare", "volume/data"}));
}

TEST_F(ClientTest, HowMuchIsOwedIsAProperty) {
  const auto owed = client_->Owed();
  ASSERT_TRUE(owed) << owed.error().Message();
  EXPECT_EQ(owed->count, 1U);
  EXPECT_EQ(owed->since.time_since_epoch().count(), 1'700'000'000'000'000);
}

TEST_F(ClientTest, AnEmptyNetworkIsNone) {
  EXPECT_TRUE(client_->GetAllocation("bare").value().networks.empty());
}

TEST_F(ClientTest, ListsAreReadElementByElement) {
  const auto allocations = client_->ListAllocations().value();
  ASSERT_EQ(allocations.size(), 1U);
  EXPECT_EQ(allocations[0].id, "web");
  EXPECT_EQ(allocations[0].uid, 1000U);
  EXPECT_EQ(allocations[0].state, "prepared");

  const auto volumes = client_->ListVolumes().value();
  ASSERT_EQ(volumes.size(), 1U);
  EXPECT_EQ(volumes[0].state, "staged");
  ASSERT_EQ(volumes[0].users.size(), 1U);
  EXPECT_EQ(volumes[0].users[0].alias, "data");

  const auto owed = client_->ListOwed().value();
  ASSERT_EQ(owed.size(), 1U);
  EXPECT_EQ(owed[0].id, 3U);
  EXPECT_EQ(owed[0].object, "web/server/data");
  EXPECT_EQ(owed[0].attempts, 4U);
  EXPECT_EQ(client_->RetryOwed().value(), 1U);

  const auto statistics = client_->GetStatistics().value();
  ASSERT_EQ(statistics.size(), 1U);
  EXPECT_EQ(statistics[0].method, "BindMount");
  EXPECT_EQ(statistics[0].p99_us, 900U);
  EXPECT_EQ(client_->DroppedPeers().value().at("unread"), 7U);

  EXPECT_EQ(client_->Reload().value(), std::vector<std::string>{"limits"});

  const Capabilities offers = client_->GetCapabilities().value();
  EXPECT_EQ(offers.network_modes,
            (std::vector<std::string>{"bridge", "cni/net"}));
  EXPECT_EQ(offers.cni_plugins.at("bridge"), "1.6.0");
  ASSERT_TRUE(offers.addresses.contains("default"));
  EXPECT_EQ(offers.addresses.at("default").capacity, 254U);
  EXPECT_EQ(offers.addresses.at("default").free, 250U);
  ASSERT_EQ(offers.host_ports.size(), 1U);
  EXPECT_EQ(offers.host_ports[0].first, 20000);
  EXPECT_EQ(offers.host_ports[0].last, 20100);
  EXPECT_EQ(offers.host_ports[0].free, 99U);
  EXPECT_FALSE(offers.features.at("statmount"));
  EXPECT_EQ(offers.missing.at("statmount"), "needs Linux 6.8");
}

TEST_F(ClientTest, PluginsAreRegisteredAndRead) {
  const PluginRegistration made =
      client_
          ->RegisterPlugin({.plugin = "csi",
                            .type = PluginType::kMonolith,
                            .allocation = "web",
                            .mount_dir = "/csi"})
          .value();
  EXPECT_EQ(script().last_call(),
            "RegisterPlugin csi monolith [web] {mount_dir=/csi;}");
  EXPECT_EQ(made.host_path, "/run/mountd/base/p/csi");
  EXPECT_EQ(made.endpoint, "unix:///csi/csi.sock");
  ASSERT_EQ(made.mounts.size(), 1U);
  EXPECT_EQ(made.mounts[0].host_path, "/p");
  EXPECT_EQ(made.mounts[0].task_path, "/csi");
  EXPECT_EQ(made.mounts[0].propagation, "bidirectional");

  const PluginStatus plugin = client_->GetPlugin("csi").value();
  EXPECT_EQ(plugin.provider, "local.csi");
  EXPECT_EQ(plugin.max_volumes, 64);
  EXPECT_EQ(plugin.topology.at("zone"), "a");
  EXPECT_EQ(
      plugin.node_capabilities,
      (std::vector<std::string>{"STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS"}));
  EXPECT_EQ(plugin.plugin_capabilities,
            std::vector<std::string>{"GROUP_CONTROLLER_SERVICE"});
  EXPECT_FALSE(ControllerRequired(plugin));
  EXPECT_EQ(plugin.mount_dir, "/csi");
  EXPECT_TRUE(plugin.bare_directories);
  ASSERT_EQ(plugin.instances.size(), 2U);
  EXPECT_EQ(plugin.instances[0].allocation, "web");
  EXPECT_EQ(client_->ListPlugins().value().size(), 2U);
}

TEST_F(ClientTest, InstancesOfPluginsAreNamed) {
  ASSERT_TRUE(
      client_->RegisterPlugin({.plugin = "csi",
                               .stage_publish_base_dir = "/base",
                               .bare_directories = true,
                               .health_timeout = std::chrono::seconds(5)}));
  EXPECT_EQ(script().last_call(),
            "RegisterPlugin csi node [] {bare_directories=true;"
            "health_timeout_ms=u5000;stage_publish_base_dir=/base;}");
  ASSERT_TRUE(client_->UnregisterPlugin(
      "csi", {.type = PluginType::kNode, .allocation = "web", .force = true}));
  EXPECT_EQ(script().last_call(),
            "UnregisterPlugin csi {allocation=web;force=true;type=node;}");
}

TEST_F(ClientTest, AnAnswerOfAnotherTypeIsInternal) {
  script().Garble("PrepareAllocation");
  const auto result = client_->PrepareAllocation("web");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInternal);
  EXPECT_EQ(result.error().object, "host_path");
}

std::string ReadAll(int fd) {
  char buffer[256];
  const ssize_t got = ::pread(fd, buffer, sizeof(buffer), 0);
  return got < 0 ? "" : std::string(buffer, static_cast<std::size_t>(got));
}

TEST_F(ClientTest, SecretsCrossInAMemfdSealedAgainstEverything) {
  VolumeSpec spec{.alias = "data", .volume = "v", .plugin = "csi"};
  spec.secrets = {{"password", "s3cret"}, {"user", ""}};
  ASSERT_TRUE(client_->PublishVolume("web", spec));
  EXPECT_EQ(script().last_call(),
            "PublishVolume web data v csi {} {} {} "
            "{secrets=h;}");
  const UniqueFd fd = script().TakeSecrets();
  ASSERT_TRUE(fd.valid());
  using namespace std::string_literals;
  EXPECT_EQ(ReadAll(fd.get()), "password\0s3cret\0user\0\0"s);
  EXPECT_EQ(::fcntl(fd.get(), F_GET_SEALS),
            F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  EXPECT_LT(::pwrite(fd.get(), "x", 1, 0), 0);
}

TEST_F(ClientTest, ASecretWithANulIsRefusedAndNotNamed) {
  using namespace std::string_literals;
  VolumeSpec spec{.alias = "data", .volume = "v", .plugin = "csi"};
  spec.secrets = {{"password", "s3\0cret"s}};
  const auto result = client_->PublishVolume("web", spec);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_EQ(result.error().Message().find("s3"), std::string::npos);
  EXPECT_EQ(result.error().Message().find("password"), std::string::npos);
  EXPECT_TRUE(script().calls().empty());
}

struct Mapping {
  const char* name;
  Code code;
  const char* detail = "because";
};

class ErrorTest : public ClientTest,
                  public testing::WithParamInterface<Mapping> {};

TEST_P(ErrorTest, HasItsCodeTheDaemonsMessageAndWhatItWasFor) {
  script().Fail("Unmount", {GetParam().name, "because"});
  const Result<void> result = client_->Unmount("web", "server", "data");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, GetParam().code);
  EXPECT_EQ(result.error().detail, GetParam().detail);
  EXPECT_EQ(result.error().op, "Unmount");
  EXPECT_EQ(result.error().object, "web/server/data");
  EXPECT_TRUE(client_->Unmount("web", "server", "data"))
      << "the connection is as good as before";
}

INSTANTIATE_TEST_SUITE_P(
    OfTheContractAndOfDBus, ErrorTest,
    testing::Values(
        Mapping{"org.mountd1.Error.NotFound", Code::kNotFound},
        Mapping{"org.mountd1.Error.AlreadyExists", Code::kAlreadyExists},
        Mapping{"org.mountd1.Error.InvalidArgument", Code::kInvalidArgument},
        Mapping{"org.mountd1.Error.PermissionDenied", Code::kPermissionDenied},
        Mapping{"org.mountd1.Error.Busy", Code::kBusy},
        Mapping{"org.mountd1.Error.Unavailable", Code::kUnavailable},
        Mapping{"org.mountd1.Error.DeadlineExceeded", Code::kDeadlineExceeded},
        Mapping{"org.mountd1.Error.ResourceExhausted",
                Code::kResourceExhausted},
        Mapping{"org.mountd1.Error.FailedPrecondition",
                Code::kFailedPrecondition},
        Mapping{"org.mountd1.Error.Aborted", Code::kAborted},
        Mapping{"org.mountd1.Error.NotSupported", Code::kNotSupported},
        Mapping{"org.mountd1.Error.Internal", Code::kInternal},
        Mapping{"org.mountd1.Error.OfALaterRelease", Code::kInternal},
        Mapping{"org.freedesktop.DBus.Error.AccessDenied",
                Code::kPermissionDenied},
        Mapping{"org.freedesktop.DBus.Error.InvalidArgs",
                Code::kInvalidArgument},
        Mapping{"org.freedesktop.DBus.Error.UnknownMethod", Code::kNotSupported,
                "this mountd is older than its client and cannot do this; "
                "update mountd-service (because)"},
        Mapping{"org.freedesktop.DBus.Error.LimitsExceeded",
                Code::kResourceExhausted},
        Mapping{"org.freedesktop.DBus.Error.ServiceUnknown",
                Code::kUnavailable},
        Mapping{"org.freedesktop.DBus.Error.Timeout", Code::kUnavailable},
        Mapping{"org.example.Anything", Code::kUnavailable}),
    [](const testing::TestParamInfo<Mapping>& each) {
      const std::string name = each.param.name;
      return name.substr(name.rfind('.') + 1) +
             (name.starts_with("org.mountd1") ? "" : "OfDBus");
    });

struct Missing {
  const char* name;
  const char* message;
  Away away;
};

TEST_F(ClientTest, AnErrorTellsWhoIsAway) {
  for (const Missing& one : {
           Missing{"org.mountd1.Error.Unavailable", "plugin away: use plugin p",
                   Away::kPlugin},
           Missing{"org.mountd1.Error.Unavailable", "restarting: plan executor",
                   Away::kRestarting},
           Missing{"org.mountd1.Error.Unavailable", "open store", Away::kNone},
           // A plugin's own words, or those of an older daemon.
           Missing{"org.mountd1.Error.Unavailable", "use p: plugin away: no",
                   Away::kNone},
           Missing{"org.mountd1.Error.Unavailable", "", Away::kNone},
           Missing{"org.mountd1.Error.Busy", "plugin away: it is in use",
                   Away::kNone},
           Missing{"org.freedesktop.DBus.Error.ServiceUnknown", "x",
                   Away::kDaemon},
           Missing{"org.freedesktop.DBus.Error.Spawn.ChildExited", "x",
                   Away::kDaemon},
           Missing{"org.freedesktop.DBus.Error.Timeout", "x", Away::kDaemon},
           Missing{"org.freedesktop.DBus.Error.Failed", "plugin away: x",
                   Away::kNone},
       }) {
    SCOPED_TRACE(std::string(one.name) + " " + one.message);
    script().Fail("Unmount", {one.name, one.message});
    const Result<void> result = client_->Unmount("web", "server", "data");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().away, one.away);
  }
}

}  // namespace
}  // namespace mountd::agent::test
