// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Kubernetes' csi-driver-host-path behind a whole mountd, used by an
// unprivileged agent, shows that a plugin which was not written for mountd
// works unchanged.
#include <csi.pb.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/csi/host_path.h"
#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
namespace pb = ::csi::v1;

constexpr char kId[] = "hostpath";
constexpr char kPluginDirectory[] = "/run/mountd/base/p/hostpath";
constexpr char kData[] = "/run/host/hostpath";
constexpr std::int64_t kMiB = 1 << 20;

constexpr char kConfig[] = R"(
[[rule]]
users = ["agent"]
plugins = ["*"]
register_plugins = ["*"]
control_plugins = ["*"]
[timeouts]
probe_starting_ms = 100
)";

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  ASSERT_TRUE(file << text << std::flush) << path;
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class HostPath : public NodeFixture {
 protected:
  void SetUp() override {
    program_ = HostPathProgram();
    if (program_.empty()) {
      GTEST_SKIP() << "there is no hostpathplugin: neither HOSTPATHPLUGIN nor "
                      "PATH has one";
    }
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    ASSERT_NO_FATAL_FAILURE(StartNode(kConfig));
    ASSERT_EQ(MessageOf(client_->RegisterPlugin(
                  {.plugin = kId, .type = agent::PluginType::kMonolith})),
              "Ok");
    StartPlugin();
    ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  }
  void TearDown() override {
    if (program_.empty()) {
      return;
    }
    plugin_ = Process();
    NodeFixture::TearDown();
  }

  void StartPlugin() {
    plugin_ =
        StartHostPath(program_, std::string(kPluginDirectory) + "/csi.sock",
                      kData, {"--enable-attach"});
    ASSERT_TRUE(Eventually([&] { return State() == "healthy"; }));
  }
  // Returns the plugin's state; "" if it is unknown.
  std::string State() {
    const auto plugin = client_->GetPlugin(kId);
    return plugin ? plugin->state : "";
  }

  // Creates a volume and attaches it to this node, as its server would. Returns
  // its id.
  std::string Attached(const std::string& name,
                       const agent::VolumeUsage& usage) {
    agent::VolumeCreation creation;
    creation.plugin = kId;
    creation.name = name;
    creation.required_bytes = 16 * kMiB;
    creation.usages = {usage};
    creation.source_snapshot = source_snapshot_;
    const auto made = client_->CreateVolume(creation);
    EXPECT_EQ(MessageOf(made), "Ok");
    if (!made) {
      return "";
    }
    agent::ControllerPublishSpec spec;
    spec.plugin = kId;
    spec.volume = made->volume;
    spec.node_id = "node-1";
    spec.usage = usage;
    const auto context = client_->ControllerPublishVolume(spec);
    EXPECT_EQ(MessageOf(context), "Ok");
    context_ = context ? *context : decltype(context_)();
    return made->volume;
  }
  Result<agent::PublishedVolume> Publish(const std::string& alias,
                                         const std::string& volume,
                                         const agent::VolumeUsage& usage) {
    agent::VolumeSpec spec;
    spec.alias = alias;
    spec.volume = volume;
    spec.plugin = kId;
    spec.usage = usage;
    spec.publish_context = context_;
    return client_->PublishVolume("web", spec);
  }
  void Delete(const std::string& volume) {
    EXPECT_EQ(
        MessageOf(client_->ControllerUnpublishVolume(kId, volume, "node-1")),
        "Ok");
    EXPECT_EQ(MessageOf(client_->DeleteVolume(kId, volume)), "Ok");
  }
  // Returns the answer of an RPC that has no method of its own.
  template <typename Response, typename Request>
  Response Call(const char* rpc, const Request& request) {
    agent::ControllerCall call;
    call.plugin = kId;
    call.rpc = rpc;
    call.request = request.SerializeAsString();
    const auto answer = client_->CallController(call);
    EXPECT_EQ(MessageOf(answer), "Ok");
    Response response;
    EXPECT_TRUE(answer && response.ParseFromString(*answer));
    return response;
  }
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(Eventually([&] {
      const auto owed = client_->ListOwed();
      const auto volumes = client_->ListVolumes();
      return owed && owed->empty() && volumes && volumes->empty();
    }));
    EXPECT_EQ(MountPointsUnder(kPluginDirectory).size(), 1U);
    EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 0U);
  }

  std::string program_;
  std::string source_snapshot_;
  std::map<std::string, std::string> context_;
  Process plugin_;
};

agent::VolumeUsage Block() {
  agent::VolumeUsage usage;
  usage.attachment_mode = "block-device";
  return usage;
}

TEST_F(HostPath, TellsWhatItIs) {
  const auto plugin = client_->GetPlugin(kId);
  ASSERT_EQ(MessageOf(plugin), "Ok");
  EXPECT_EQ(plugin->provider, "hostpath.csi.k8s.io");
  EXPECT_EQ(plugin->node_id, "node-1");
}

TEST_F(HostPath, AVolumeFromItsCreationToItsDeletion) {
  const std::string volume = Attached("v", {});
  const auto published = Publish("data", volume, {});
  ASSERT_EQ(MessageOf(published), "Ok");
  EXPECT_FALSE(published->is_device);

  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "data";
  spec.source = "data";
  spec.task_path = "/data";
  const auto mount = client_->BindMount("web", spec);
  ASSERT_EQ(MessageOf(mount), "Ok");
  WriteFile(mount->host_path + "/greeting", "hello");
  EXPECT_EQ(ReadFile(published->host_path + "/greeting"), "hello");

  const auto stats = client_->GetVolumeStats("web", "data");
  ASSERT_EQ(MessageOf(stats), "Ok");
  // The plugin looks for its volumes where a kubelet has its pods, so the test
  // does not check which condition it reports.
  EXPECT_TRUE(stats->has_condition);

  agent::ControllerExpansionSpec larger;
  larger.plugin = kId;
  larger.volume = volume;
  larger.required_bytes = 32 * kMiB;
  const auto grown = client_->ControllerExpandVolume(larger);
  ASSERT_EQ(MessageOf(grown), "Ok");
  EXPECT_EQ(grown->capacity_bytes, 32 * kMiB);
  if (grown->node_expansion_required) {
    EXPECT_EQ(MessageOf(client_->ExpandVolume("web", "data",
                                              {.required_bytes = 32 * kMiB})),
              "Ok");
  }

  EXPECT_EQ(MessageOf(client_->Unmount("web", "app", "data")), "Ok");
  EXPECT_EQ(MessageOf(client_->UnpublishVolume("web", "data")), "Ok");
  Delete(volume);
  ExpectNothingIsLeft();
}

TEST_F(HostPath, ADeviceIsTheTasks) {
  const std::string volume = Attached("b", Block());
  const auto published = Publish("disk", volume, Block());
  ASSERT_EQ(MessageOf(published), "Ok");
  EXPECT_TRUE(published->is_device);
  struct stat device = {};
  ASSERT_EQ(::stat(published->host_path.c_str(), &device), 0);
  EXPECT_TRUE(S_ISBLK(device.st_mode));
  EXPECT_EQ(published->device_major, major(device.st_rdev));
  EXPECT_EQ(published->device_minor, minor(device.st_rdev));
  EXPECT_EQ(published->device_rule,
            "b " + std::to_string(major(device.st_rdev)) + ":" +
                std::to_string(minor(device.st_rdev)) + " rwm");
  EXPECT_EQ(MessageOf(client_->UnpublishVolume("web", "disk")), "Ok");
  Delete(volume);
  ExpectNothingIsLeft();
}

TEST_F(HostPath, ASnapshotBecomesAVolume) {
  const std::string volume = Attached("v", {});
  const auto published = Publish("data", volume, {});
  ASSERT_EQ(MessageOf(published), "Ok");
  WriteFile(published->host_path + "/greeting", "hello");

  pb::CreateSnapshotRequest request;
  request.set_name("s");
  request.set_source_volume_id(volume);
  const auto snapshot =
      Call<pb::CreateSnapshotResponse>("CreateSnapshot", request).snapshot();
  EXPECT_TRUE(snapshot.ready_to_use());
  source_snapshot_ = snapshot.snapshot_id();
  const std::string copy = Attached("copy", {});
  const auto again = Publish("copy", copy, {});
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(ReadFile(again->host_path + "/greeting"), "hello");

  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
  Delete(copy);
  Delete(volume);
  pb::DeleteSnapshotRequest gone;
  gone.set_snapshot_id(source_snapshot_);
  Call<pb::DeleteSnapshotResponse>("DeleteSnapshot", gone);
  ExpectNothingIsLeft();
}

TEST_F(HostPath, ItsEndIsNotItsVolumes) {
  const std::string volume = Attached("v", {});
  const auto published = Publish("data", volume, {});
  ASSERT_EQ(MessageOf(published), "Ok");
  WriteFile(published->host_path + "/greeting", "hello");

  plugin_.KillAndWait();
  EXPECT_TRUE(Eventually([&] { return State() == "unhealthy"; }));
  EXPECT_EQ(ReadFile(published->host_path + "/greeting"), "hello");
  const auto receipt = client_->ReleaseAllocation("web");
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_FALSE(receipt->node_detached);

  StartPlugin();
  EXPECT_TRUE(Eventually([&] {
    const auto later = client_->GetReceipt("web");
    return later && later->node_detached;
  }));
  Delete(volume);
  ExpectNothingIsLeft();
}

// Each volume is published again unchanged, by the records of mountd and of the
// plugin.
TEST_F(HostPath, MountdsEndIsNotItsVolumes) {
  const std::string volume = Attached("v", {});
  const auto published = Publish("data", volume, {});
  ASSERT_EQ(MessageOf(published), "Ok");
  Node::KillAll();
  Connect();
  EXPECT_TRUE(Eventually([&] { return State() == "healthy"; }));
  const auto again = Publish("data", volume, {});
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(again->host_path, published->host_path);
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
  Delete(volume);
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace mountd::testing
