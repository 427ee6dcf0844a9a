// SPDX-License-Identifier: LGPL-2.1-or-later
// The client library against a mountd of the last release.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/client.h"
#include "tests/agent/fake_release.h"
#include "tests/agent/signal_log.h"

namespace mountd::agent::test {
namespace {

// Calls by their methods' names; each returns "" or its error.
using CallsByName = std::map<std::string, std::function<std::string(Client&)>>;

template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result ? ""
                : std::string(CodeName(result.error().code)) + ": " +
                      result.error().Message();
}

class OldDaemon : public testing::Test {
 protected:
  void SetUp() override {
    Result<Client> client = Client::Connect({.address = server_.address()});
    ASSERT_TRUE(client) << client.error().Message();
    client_ = std::make_unique<Client>(std::move(*client));
  }

  void ExpectSuccess(const CallsByName& calls) {
    for (const auto& [name, call] : calls) {
      EXPECT_EQ(call(*client_), "") << name;
    }
  }
  // Expects of each call that it says that mountd is older, and that the next
  // call succeeds.
  void ExpectOlder(const CallsByName& calls) {
    for (const auto& [name, call] : calls) {
      const std::string error = call(*client_);
      EXPECT_TRUE(error.starts_with("NotSupported: ")) << name << error;
      EXPECT_NE(error.find("this mountd is older than its client"),
                std::string::npos)
          << name << ": " << error;
      EXPECT_EQ(client_->Version().value(), "0.1.0") << name;
    }
  }

  FakeRelease server_;
  std::unique_ptr<Client> client_;
};

BindMountSpec Mount() {
  return {.task = "server",
          .name = "data",
          .source = "data",
          .read_only = true,
          .task_path = "/data",
          .noexec = true};
}

UniqueFd Directory() { return UniqueFd(::open("/", O_PATH | O_CLOEXEC)); }

TEST_F(OldDaemon, ServesAnAllocationsCalls) {
  ExpectSuccess({
      {"PrepareAllocation",
       [](Client& c) {
         return ErrorOf(c.PrepareAllocation("web", {.scope = "prod"}));
       }},
      {"SetupNetwork",
       [](Client& c) {
         NetworkSpec spec;
         spec.ports = {{"http", 8080, 80, "tcp"}};
         spec.hostname = "web";
         spec.dns_servers = {"192.0.2.53"};
         return ErrorOf(c.SetupNetwork("web", spec));
       }},
      {"TeardownNetwork",
       [](Client& c) { return ErrorOf(c.TeardownNetwork("web", "eth0")); }},
      {"GetAllocation",
       [](Client& c) { return ErrorOf(c.GetAllocation("web")); }},
      {"ListAllocations",
       [](Client& c) { return ErrorOf(c.ListAllocations()); }},
      {"ReleaseAllocation",
       [](Client& c) { return ErrorOf(c.ReleaseAllocation("web")); }},
      {"GetReceipt", [](Client& c) { return ErrorOf(c.GetReceipt("web")); }},
      {"Reconcile",
       [](Client& c) {
         return ErrorOf(c.Reconcile({"prod", 1, {"web"}, true}));
       }},
  });
}

TEST_F(OldDaemon, ServesTheCallsOnVolumesAndMounts) {
  ExpectSuccess({
      {"PublishVolume",
       [](Client& c) {
         VolumeSpec spec{.alias = "data", .volume = "v", .plugin = "csi"};
         spec.secrets = {{"key", "value"}};
         return ErrorOf(c.PublishVolume("web", spec));
       }},
      {"UnpublishVolume",
       [](Client& c) { return ErrorOf(c.UnpublishVolume("web", "data")); }},
      {"ExpandVolume",
       [](Client& c) {
         return ErrorOf(c.ExpandVolume("web", "data", {.required_bytes = 9}));
       }},
      {"GetVolumeStats",
       [](Client& c) { return ErrorOf(c.GetVolumeStats("web", "data")); }},
      {"ListVolumes", [](Client& c) { return ErrorOf(c.ListVolumes()); }},
      {"BindMount",
       [](Client& c) { return ErrorOf(c.BindMount("web", Mount())); }},
      {"BindMounts",
       [](Client& c) {
         return ErrorOf(c.BindMounts("web", {Mount(), Mount()}));
       }},
      {"ReplaceMount",
       [](Client& c) { return ErrorOf(c.ReplaceMount("web", Mount())); }},
      {"RepairMount",
       [](Client& c) { return ErrorOf(c.RepairMount("web", "app", "m")); }},
      {"OpenTree",
       [](Client& c) { return ErrorOf(c.OpenTree("web", Mount())); }},
      {"Unmount",
       [](Client& c) {
         return ErrorOf(c.Unmount("web", "app", "m", UnmountMode::kDetach));
       }},
      {"PrepareInbox",
       [](Client& c) { return ErrorOf(c.PrepareInbox("web", "app")); }},
      {"OpenInbox",
       [](Client& c) { return ErrorOf(c.OpenInbox("web", "app")); }},
      {"RemoveInbox",
       [](Client& c) { return ErrorOf(c.RemoveInbox("web", "app")); }},
      {"RemoveTree",
       [](Client& c) { return ErrorOf(c.RemoveTree(Directory().get())); }},
      {"ChownTree",
       [](Client& c) { return ErrorOf(c.ChownTree(Directory().get(), 1, 1)); }},
      {"ListHolders",
       [](Client& c) {
         return ErrorOf(c.ListHolders("web", "app", "m", true));
       }},
      {"VerifyTask",
       [](Client& c) {
         return ErrorOf(c.VerifyTask("web", "fine", STDERR_FILENO));
       }},
  });
}

TEST_F(OldDaemon, ServesTheCallsOnPlugins) {
  ExpectSuccess({
      {"RegisterPlugin",
       [](Client& c) { return ErrorOf(c.RegisterPlugin({.plugin = "csi"})); }},
      {"UnregisterPlugin",
       [](Client& c) { return ErrorOf(c.UnregisterPlugin("csi")); }},
      {"GetPlugin", [](Client& c) { return ErrorOf(c.GetPlugin("csi")); }},
      {"ListPlugins", [](Client& c) { return ErrorOf(c.ListPlugins()); }},
      {"ControllerPublishVolume",
       [](Client& c) {
         return ErrorOf(c.ControllerPublishVolume(
             {.plugin = "csi", .volume = "v", .node_id = "n"}));
       }},
      {"ControllerUnpublishVolume",
       [](Client& c) {
         return ErrorOf(c.ControllerUnpublishVolume("csi", "v", "n"));
       }},
      {"ValidateVolume",
       [](Client& c) {
         return ErrorOf(c.ValidateVolume({.plugin = "csi", .volume = "v"}));
       }},
      {"CreateVolume",
       [](Client& c) {
         return ErrorOf(c.CreateVolume(
             {.plugin = "csi", .name = "n", .secrets = {{"key", "value"}}}));
       }},
      {"DeleteVolume",
       [](Client& c) { return ErrorOf(c.DeleteVolume("csi", "v")); }},
      {"ControllerExpandVolume",
       [](Client& c) {
         return ErrorOf(c.ControllerExpandVolume(
             {.plugin = "csi", .volume = "v", .required_bytes = 9}));
       }},
      {"ListPluginVolumes",
       [](Client& c) { return ErrorOf(c.ListPluginVolumes("csi")); }},
      {"GetCapacity", [](Client& c) { return ErrorOf(c.GetCapacity("csi")); }},
      {"CallController",
       [](Client& c) {
         return ErrorOf(
             c.CallController({.plugin = "csi", .rpc = "CreateSnapshot"}));
       }},
  });
}

TEST_F(OldDaemon, ServesTheCallsOnTheNode) {
  ExpectSuccess({
      {"Version", [](Client& c) { return ErrorOf(c.Version()); }},
      {"ListOwed", [](Client& c) { return ErrorOf(c.ListOwed()); }},
      {"Owed", [](Client& c) { return ErrorOf(c.Owed()); }},
      {"FreeHostPorts", [](Client& c) { return ErrorOf(c.FreeHostPorts()); }},
      {"RetryOwed", [](Client& c) { return ErrorOf(c.RetryOwed()); }},
      {"ListOperations", [](Client& c) { return ErrorOf(c.ListOperations()); }},
      {"Cancel", [](Client& c) { return ErrorOf(c.Cancel("1.1")); }},
      {"GetCapabilities",
       [](Client& c) { return ErrorOf(c.GetCapabilities()); }},
      {"GetStatistics", [](Client& c) { return ErrorOf(c.GetStatistics()); }},
      {"Reload", [](Client& c) { return ErrorOf(c.Reload()); }},
  });
}

TEST_F(OldDaemon, IsNamedAsOlderByNewerCalls) {
  ExpectOlder({
      {"GetNetwork", [](Client& c) { return ErrorOf(c.GetNetwork("web")); }},
      {"OpenNamespace",
       [](Client& c) { return ErrorOf(c.OpenNamespace("web")); }},
      {"UpdatePorts",
       [](Client& c) { return ErrorOf(c.UpdatePorts("web", {})); }},
      {"ListHandedOut",
       [](Client& c) { return ErrorOf(c.ListHandedOut("web")); }},
      {"AcquireLease",
       [](Client& c) {
         LeaseSpec spec;
         spec.allocation = "web";
         spec.timeout_ms = 9;
         return ErrorOf(c.AcquireLease("l", spec));
       }},
      {"RenewLease", [](Client& c) { return ErrorOf(c.RenewLease("l")); }},
      {"ReleaseLease", [](Client& c) { return ErrorOf(c.ReleaseLease("l")); }},
      {"ListLeases", [](Client& c) { return ErrorOf(c.ListLeases()); }},
      {"GetFence", [](Client& c) { return ErrorOf(c.GetFence("web")); }},
      {"ListHostVolumes",
       [](Client& c) { return ErrorOf(c.ListHostVolumes()); }},
      {"ListFilesystems",
       [](Client& c) { return ErrorOf(c.ListFilesystems()); }},
      {"ListNetworks", [](Client& c) { return ErrorOf(c.ListNetworks()); }},
      {"DroppedPeers", [](Client& c) { return ErrorOf(c.DroppedPeers()); }},
  });
}

TEST_F(OldDaemon, IsNamedAsOlderByNewerOptions) {
  ExpectOlder({
      {"group",
       [](Client& c) {
         return ErrorOf(c.PrepareAllocation("web", {.group = 100000}));
       }},
      {"nosymfollow",
       [](Client& c) {
         BindMountSpec spec = Mount();
         spec.nosymfollow = true;
         return ErrorOf(c.BindMount("web", spec));
       }},
      {"nosymfollow of BindMounts",
       [](Client& c) {
         BindMountSpec spec = Mount();
         spec.nosymfollow = true;
         return ErrorOf(c.BindMounts("web", {spec}));
       }},
      {"tasks",
       [](Client& c) {
         return ErrorOf(c.ReleaseAllocation("web", OnTasks::kWait));
       }},
      {"request_id",
       [](Client& c) {
         c.SetNames({.request_id = "r1"});
         const std::string error = ErrorOf(c.GetAllocation("web"));
         c.SetNames({});
         return error;
       }},
  });
}

TEST_F(OldDaemon, GetsCallsWithoutAnOptionalTrace) {
  const CallNames names{.traceparent =
                            "00-0af7651916cd43dd8448eb211c80319c-"
                            "b7ad6b7169203331-01"};
  Result<Client> client = Client::Connect(
      {.address = server_.address(), .names = names, .optional_trace = true});
  ASSERT_TRUE(client) << client.error().Message();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorOf(client->GetAllocation("web")), "");
    EXPECT_EQ(ErrorOf(client->BindMount("web", Mount())), "");
  }
  // Without the trace, another option is refused all the same.
  const Result<std::string> newer =
      client->PrepareAllocation("web", {.group = 100000});
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, Code::kNotSupported);
  ExpectOlder({{"a trace", [&](Client& c) {
                  c.SetNames(names);
                  const std::string error = ErrorOf(c.GetAllocation("web"));
                  c.SetNames({});
                  return error;
                }}});
}

TEST_F(OldDaemon, SendsItsSignals) {
  SignalLog log;
  const auto subscriber =
      Subscriber::Start({.address = server_.address()}, log.Handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().Message();
  ASSERT_TRUE(server_.EmitSignals());
  EXPECT_EQ(log.Wait(11),
            (std::vector<std::string>{
                "done op-1 Busy in use", "progress op-1 RemoveTree 7",
                "step op-1 stage 3 Unavailable", "added csi-local node web",
                "plugin csi-local healthy []", "removed csi-local node web",
                "owed 2", "overdue 2 1700000000000000", "stuck 1",
                "lost web/app/data why", "health web/app/data hung why"}));
}

TEST_F(OldDaemon, HasNoSpans) {
  SignalHandlers handlers;
  handlers.spans = true;
  const auto subscriber =
      Subscriber::Start({.address = server_.address()}, std::move(handlers));
  ASSERT_FALSE(subscriber);
  EXPECT_EQ(subscriber.error().code, Code::kNotSupported);
}

}  // namespace
}  // namespace mountd::agent::test
