// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs csi-local as any orchestrator uses it: a process, its socket, gRPC.
#include <csi.grpc.pb.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "mountd/base/unique_fd.h"
#include "tests/csi/process.h"
#include "tests/csi/sandbox.h"

namespace mountd::testing {
namespace {

namespace pb = ::csi::v1;
namespace fs = std::filesystem;
using Mode = pb::VolumeCapability::AccessMode;
using grpc::StatusCode;

class CsiLocal : public Sandbox {
 protected:
  void SetUp() override {
    Sandbox::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* name :
         {"/staging", "/staging/v", "/staging/w", "/publish"}) {
      ASSERT_TRUE(fs::create_directory(root() + name));
    }
    Start();
  }

  void TearDown() override {
    node_.reset();
    identity_.reset();
    plugin_ = Process();
    Sandbox::TearDown();
  }

  void Start() {
    const std::string socket = root() + "/csi.sock";
    plugin_ =
        Process({CSI_LOCAL, "--endpoint", "unix://" + socket, "--data-dir",
                 root() + "/data", "--node-id", "node-1", "--create-on-stage"});
    ASSERT_TRUE(ConnectWithin(socket, 20).valid());
    // Each connection has a channel of its own, without the back-off of an
    // earlier channel.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(
        "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
    node_ = pb::Node::NewStub(channel);
    identity_ = pb::Identity::NewStub(channel);
  }

  static void SetCapability(pb::VolumeCapability* capability, Mode::Mode mode) {
    capability->mutable_mount();
    capability->mutable_access_mode()->set_mode(mode);
  }

  pb::NodeStageVolumeRequest StageRequest(
      const std::string& volume, Mode::Mode mode = Mode::SINGLE_NODE_WRITER) {
    pb::NodeStageVolumeRequest request;
    request.set_volume_id(volume);
    request.set_staging_target_path(root() + "/staging/" + volume);
    SetCapability(request.mutable_volume_capability(), mode);
    return request;
  }
  StatusCode Stage(const pb::NodeStageVolumeRequest& request) {
    grpc::ClientContext context;
    pb::NodeStageVolumeResponse response;
    return node_->NodeStageVolume(&context, request, &response).error_code();
  }
  StatusCode Stage(const std::string& volume) {
    return Stage(StageRequest(volume));
  }
  StatusCode Unstage(const std::string& volume) {
    grpc::ClientContext context;
    pb::NodeUnstageVolumeRequest request;
    request.set_volume_id(volume);
    request.set_staging_target_path(root() + "/staging/" + volume);
    pb::NodeUnstageVolumeResponse response;
    return node_->NodeUnstageVolume(&context, request, &response).error_code();
  }
  pb::NodePublishVolumeRequest PublishRequest(
      const std::string& volume, const std::string& target,
      Mode::Mode mode = Mode::SINGLE_NODE_WRITER) {
    pb::NodePublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_staging_target_path(root() + "/staging/" + volume);
    request.set_target_path(root() + "/publish/" + target);
    SetCapability(request.mutable_volume_capability(), mode);
    return request;
  }
  StatusCode Publish(const pb::NodePublishVolumeRequest& request) {
    grpc::ClientContext context;
    pb::NodePublishVolumeResponse response;
    return node_->NodePublishVolume(&context, request, &response).error_code();
  }
  StatusCode Publish(const std::string& volume, const std::string& target) {
    return Publish(PublishRequest(volume, target));
  }
  StatusCode Unpublish(const std::string& volume, const std::string& target) {
    grpc::ClientContext context;
    pb::NodeUnpublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_target_path(root() + "/publish/" + target);
    pb::NodeUnpublishVolumeResponse response;
    return node_->NodeUnpublishVolume(&context, request, &response)
        .error_code();
  }
  // Returns 0, or the errno of making a file there.
  int WriteTo(const std::string& target) {
    const std::string path = root() + "/publish/" + target + "/file";
    const UniqueFd fd(
        ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return fd.valid() ? 0 : errno;
  }

  Process plugin_;
  std::unique_ptr<pb::Node::Stub> node_;
  std::unique_ptr<pb::Identity::Stub> identity_;
};

TEST_F(CsiLocal, SaysWhoItIsAndWhatItCan) {
  grpc::ClientContext info_context;
  pb::GetPluginInfoResponse info;
  ASSERT_TRUE(identity_->GetPluginInfo(&info_context, {}, &info).ok());
  EXPECT_EQ("csi-local.mountd.org", info.name());
  EXPECT_FALSE(info.vendor_version().empty());
  grpc::ClientContext node_context;
  pb::NodeGetInfoResponse node;
  ASSERT_TRUE(node_->NodeGetInfo(&node_context, {}, &node).ok());
  EXPECT_EQ("node-1", node.node_id());
  grpc::ClientContext context;
  pb::NodeGetCapabilitiesResponse capabilities;
  ASSERT_TRUE(node_->NodeGetCapabilities(&context, {}, &capabilities).ok());
  ASSERT_EQ(8, capabilities.capabilities_size());
  EXPECT_EQ(pb::NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME,
            capabilities.capabilities(0).rpc().type());
}

TEST_F(CsiLocal, StagesPublishesAndUndoesAllOfIt) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  EXPECT_EQ(0, WriteTo("a"));
  EXPECT_TRUE(fs::exists(root() + "/data/volumes/v/file"));
  ASSERT_EQ(StatusCode::OK, Unpublish("v", "a"));
  EXPECT_FALSE(fs::exists(root() + "/publish/a"));
  ASSERT_EQ(StatusCode::OK, Unstage("v"));
  EXPECT_TRUE(fs::exists(root() + "/staging/v"));
  EXPECT_EQ(0, MountsAt(root() + "/staging/v"));
}

TEST_F(CsiLocal, EveryCallIsIdempotent) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(StatusCode::OK, Stage("v"));
  }
  EXPECT_EQ(1, MountsAt(root() + "/staging/v"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(StatusCode::OK, Publish("v", "a"));
  }
  EXPECT_EQ(1, MountsAt(root() + "/publish/a"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(StatusCode::OK, Unpublish("v", "a"));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(StatusCode::OK, Unstage("v"));
  }
}

TEST_F(CsiLocal, MountsAreNosuidNodevAndOutsideTheRootsPeerGroup) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  const std::string of_root = PropagationAt(root());
  for (const std::string& path :
       {root() + "/staging/v", root() + "/publish/a"}) {
    struct statvfs status {};
    ASSERT_EQ(0, ::statvfs(path.c_str(), &status));
    EXPECT_NE(0U, status.f_flag & ST_NOSUID);
    EXPECT_NE(0U, status.f_flag & ST_NODEV);
    EXPECT_NE(of_root, PropagationAt(path));
  }
  Unpublish("v", "a");
  Unstage("v");
}

TEST_F(CsiLocal, AReadOnlyPublishRefusesWritesThroughItOnly) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  auto request = PublishRequest("v", "ro", Mode::SINGLE_NODE_MULTI_WRITER);
  request.set_readonly(true);
  ASSERT_EQ(StatusCode::OK, Publish(request));
  EXPECT_EQ(EROFS, WriteTo("ro"));
  ASSERT_EQ(StatusCode::OK,
            Publish(PublishRequest("v", "rw", Mode::SINGLE_NODE_MULTI_WRITER)));
  EXPECT_EQ(0, WriteTo("rw"));
  EXPECT_TRUE(fs::exists(root() + "/publish/ro/file"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "ro"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "rw"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, ReaderOnlyVolumesAreReadOnlyEverywhere) {
  ASSERT_EQ(StatusCode::OK,
            Stage(StageRequest("v", Mode::SINGLE_NODE_READER_ONLY)));
  // A publish with a capability that allows writes is read-only, too.
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  EXPECT_EQ(EROFS, WriteTo("a"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "a"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, AnotherPublishOfTheSameTargetIsAlreadyExists) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Stage("w"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  auto read_only = PublishRequest("v", "a");
  read_only.set_readonly(true);
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Publish(read_only));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS,
            Publish(PublishRequest("v", "a", Mode::SINGLE_NODE_MULTI_WRITER)));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Publish("w", "a"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Unpublish("w", "a"));
  EXPECT_EQ(1, MountsAt(root() + "/publish/a"));
  Unpublish("v", "a");
  Unstage("v");
  Unstage("w");
}

TEST_F(CsiLocal, AnotherStageOfTheSamePathIsAlreadyExists) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  auto other = StageRequest("w");
  other.set_staging_target_path(root() + "/staging/v");
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Stage(other));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS,
            Stage(StageRequest("v", Mode::SINGLE_NODE_READER_ONLY)));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, OnlyMultiWriterVolumesGoToTwoTargets) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Publish("v", "b"));
  EXPECT_FALSE(fs::exists(root() + "/publish/b"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "a"));
  EXPECT_EQ(StatusCode::OK, Publish("v", "b"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "b"));
  for (const char* target : {"a", "b"}) {
    EXPECT_EQ(
        StatusCode::OK,
        Publish(PublishRequest("v", target, Mode::SINGLE_NODE_MULTI_WRITER)));
  }
  for (const char* target : {"a", "b"}) {
    EXPECT_EQ(StatusCode::OK, Unpublish("v", target));
  }
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, ARecordWithoutAMountDoesNotCount) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  ASSERT_EQ(0, ::umount((root() + "/publish/a").c_str()));  // as a reboot does
  EXPECT_EQ(StatusCode::OK, Publish("v", "b"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "b"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, PublishingWithoutStagingIsFailedPrecondition) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Unstage("v"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Publish("v", "a"));
  auto no_path = PublishRequest("v", "a");
  no_path.clear_staging_target_path();
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Publish(no_path));
  EXPECT_FALSE(fs::exists(root() + "/publish/a"));
}

TEST_F(CsiLocal, VolumesThatNeverWereAreNotFound) {
  EXPECT_EQ(StatusCode::NOT_FOUND, Publish("none", "a"));
  EXPECT_EQ(StatusCode::NOT_FOUND, Unpublish("none", "a"));
  EXPECT_EQ(StatusCode::NOT_FOUND, Unstage("none"));
  EXPECT_EQ(StatusCode::NOT_FOUND, Unpublish("../v", "a"));
}

TEST_F(CsiLocal, IncompleteRequestsAreInvalid) {
  auto no_volume = StageRequest("v");
  no_volume.clear_volume_id();
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Stage(no_volume));
  auto no_path = StageRequest("v");
  no_path.clear_staging_target_path();
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Stage(no_path));
  auto no_capability = StageRequest("v");
  no_capability.clear_volume_capability();
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Stage(no_capability));
  auto no_mode = StageRequest("v");
  no_mode.mutable_volume_capability()->clear_access_mode();
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Stage(no_mode));
  auto block = StageRequest("v");
  block.mutable_volume_capability()->mutable_block();
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(block));
  auto flag = StageRequest("v");
  flag.mutable_volume_capability()->mutable_mount()->add_mount_flags("bind");
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Stage(flag));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION,
            Stage(StageRequest("v", Mode::MULTI_NODE_MULTI_WRITER)));
  auto no_target = PublishRequest("v", "a");
  no_target.clear_target_path();
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Publish(no_target));
}

TEST_F(CsiLocal, NoVolumeIdLeavesTheDataDirectory) {
  for (const char* id : {"../x", "a/b", "..", ".", "/etc", "x\ny"}) {
    auto request = StageRequest("v");
    request.set_volume_id(id);
    EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Stage(request)) << id;
  }
  EXPECT_TRUE(fs::is_empty(root() + "/data/volumes"));
}

TEST_F(CsiLocal, NoPathLeadsThroughALink) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  fs::create_directory(root() + "/elsewhere");
  fs::create_symlink(root() + "/elsewhere", root() + "/publish/link");
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Publish("v", "link"));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Publish("v", "link/a"));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Publish("v", "../elsewhere/a"));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Publish("v", "missing/a"));
  EXPECT_NE(StatusCode::OK, Unpublish("v", "link"));
  EXPECT_TRUE(fs::is_empty(root() + "/elsewhere"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, AVolumeInUseIsNotUnpublished) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  {
    const UniqueFd user(::open((root() + "/publish/a").c_str(),
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(StatusCode::INTERNAL, Unpublish("v", "a"));
    EXPECT_EQ(1, MountsAt(root() + "/publish/a"));
  }
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "a"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, AKilledPluginForgetsNothing) {
  ASSERT_EQ(StatusCode::OK, Stage("v"));
  ASSERT_EQ(StatusCode::OK, Publish("v", "a"));
  ASSERT_EQ(0, WriteTo("a"));
  plugin_.KillAndWait();
  Start();
  EXPECT_EQ(StatusCode::OK, Stage("v"));
  EXPECT_EQ(StatusCode::OK, Publish("v", "a"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Publish("v", "b"));
  EXPECT_EQ(1, MountsAt(root() + "/publish/a"));
  EXPECT_EQ(StatusCode::OK, Unpublish("v", "a"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

TEST_F(CsiLocal, StopsOnSigtermAndTakesItsSocketAlong) {
  plugin_.Signal(SIGTERM);
  EXPECT_EQ(0, plugin_.Wait());
  EXPECT_FALSE(fs::exists(root() + "/csi.sock"));
}

TEST_F(CsiLocal, DoesNotTakeALivingPluginsSocket) {
  Process second({CSI_LOCAL, "--endpoint", root() + "/csi.sock", "--data-dir",
                  root() + "/data"});
  EXPECT_EQ(1, second.Wait());
  EXPECT_EQ(StatusCode::OK, Stage("v"));
  EXPECT_EQ(StatusCode::OK, Unstage("v"));
}

}  // namespace
}  // namespace mountd::testing
