// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The proxy's services over real sockets, with a fake mountd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "agent/mountd-csi-proxy/plugin_server.h"
#include "csi-node/types/rpc_error.h"
#include "tests/agent/fake_manager.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::csi_proxy {
namespace {

namespace pb = ::csi::v1;
using mountd::testing::Eventually;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const agent::test::Failure kInProgress{"org.mountd1.Error.InProgress", "op-7"};

class CsiProxyService : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = PluginServer::Start(address_, calls_);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    const auto channel = grpc::CreateChannel(
        "unix:" + address_.socket, grpc::InsecureChannelCredentials());
    identity_ = pb::Identity::NewStub(channel);
    controller_ = pb::Controller::NewStub(channel);
    group_ = pb::GroupController::NewStub(channel);
    node_ = pb::Node::NewStub(channel);
  }

  agent::test::Script& script() { return manager_.script(); }

  // Returns the code's number, with the text in `text_`.
  template <typename Stub, typename Request, typename Response>
  int Call(Stub& stub,
           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                        Response*),
           const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(
        ::gpr_time_add(::gpr_now(GPR_CLOCK_MONOTONIC),
                       ::gpr_time_from_millis(deadline_ms_, GPR_TIMESPAN)));
    const grpc::Status status = (stub.*method)(&context, request, response);
    text_ = status.error_message();
    return status.error_code();
  }

  static void SetCapability(pb::VolumeCapability* capability) {
    capability->mutable_mount()->set_fs_type("ext4");
    capability->mutable_access_mode()->set_mode(
        pb::VolumeCapability::AccessMode::MULTI_NODE_MULTI_WRITER);
  }
  pb::NodePublishVolumeRequest PublishRequest() {
    pb::NodePublishVolumeRequest request;
    request.set_volume_id("web-data");
    request.set_target_path(target_);
    SetCapability(request.mutable_volume_capability());
    return request;
  }
  int Publish(const pb::NodePublishVolumeRequest& request) {
    pb::NodePublishVolumeResponse response;
    return Call(*node_, &pb::Node::Stub::NodePublishVolume, request, &response);
  }
  int Unpublish(const std::string& volume) {
    pb::NodeUnpublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_target_path(target_);
    pb::NodeUnpublishVolumeResponse response;
    return Call(*node_, &pb::Node::Stub::NodeUnpublishVolume, request,
                &response);
  }
  int Delete() {
    pb::DeleteVolumeRequest request;
    request.set_volume_id("v");
    pb::DeleteVolumeResponse response;
    return Call(*controller_, &pb::Controller::Stub::DeleteVolume, request,
                &response);
  }

  TempDirectory directory_;
  agent::test::FakeServer manager_;
  Calls calls_{{.address = manager_.address(), .reads_back = false}};
  const PluginAddress address_{"csi-local", directory_.File("csi.sock")};
  const std::string target_ = directory_.File("target");
  const std::string allocation_ =
      Publication(address_.plugin, target_, false).allocation();
  std::unique_ptr<PluginServer> server_;
  std::unique_ptr<pb::Identity::Stub> identity_;
  std::unique_ptr<pb::Controller::Stub> controller_;
  std::unique_ptr<pb::GroupController::Stub> group_;
  std::unique_ptr<pb::Node::Stub> node_;
  std::string text_;
  int deadline_ms_ = 30'000;
};

TEST_F(CsiProxyService, OnlyItsUserMayConnect) {
  struct stat file {};
  ASSERT_EQ(::stat(address_.socket.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0600U);
  EXPECT_THAT(PluginServer::Start(address_, calls_),
              IsErr(Code::kAlreadyExists));
}

// Another proxy, which started at the same moment, has removed the socket.
TEST_F(CsiProxyService, TwoProxiesNeverServeOneSocket) {
  ASSERT_EQ(::unlink(address_.socket.c_str()), 0);
  EXPECT_THAT(PluginServer::Start(address_, calls_),
              IsErrOf(Code::kAlreadyExists, "another mountd-csi-proxy"));
  server_.reset();
  EXPECT_THAT(PluginServer::Start(address_, calls_), IsOk());
}

TEST_F(CsiProxyService, IdentityIsWhatMountdKnows) {
  pb::GetPluginInfoResponse info;
  EXPECT_EQ(Call(*identity_, &pb::Identity::Stub::GetPluginInfo,
                 pb::GetPluginInfoRequest(), &info),
            0);
  EXPECT_EQ(info.name(), "local.csi");
  EXPECT_EQ(info.vendor_version(), "0.1");
  pb::GetPluginCapabilitiesResponse services;
  EXPECT_EQ(Call(*identity_, &pb::Identity::Stub::GetPluginCapabilities,
                 pb::GetPluginCapabilitiesRequest(), &services),
            0);
  ASSERT_EQ(services.capabilities_size(), 1);
  EXPECT_EQ(services.capabilities(0).service().type(),
            pb::PluginCapability::Service::GROUP_CONTROLLER_SERVICE);
  pb::NodeGetCapabilitiesResponse offered;
  EXPECT_EQ(Call(*node_, &pb::Node::Stub::NodeGetCapabilities,
                 pb::NodeGetCapabilitiesRequest(), &offered),
            0);
  ASSERT_EQ(offered.capabilities_size(), 1) << "without STAGE_UNSTAGE_VOLUME";
  EXPECT_EQ(offered.capabilities(0).rpc().type(),
            pb::NodeServiceCapability::RPC::GET_VOLUME_STATS);
  pb::NodeGetInfoResponse node;
  EXPECT_EQ(Call(*node_, &pb::Node::Stub::NodeGetInfo, pb::NodeGetInfoRequest(),
                 &node),
            0);
  EXPECT_EQ(node.node_id(), "n1");
  EXPECT_EQ(node.max_volumes_per_node(), 64);
  EXPECT_EQ(node.accessible_topology().segments().at("zone"), "a");
  pb::ProbeResponse probe;
  EXPECT_EQ(
      Call(*identity_, &pb::Identity::Stub::Probe, pb::ProbeRequest(), &probe),
      0);
  EXPECT_TRUE(probe.ready().value());
}

TEST_F(CsiProxyService, APublicationIsThreeCallsAfterALookAtTheReceipt) {
  auto request = PublishRequest();
  request.set_readonly(true);
  (*request.mutable_publish_context())["device"] = "/dev/sdb";
  (*request.mutable_volume_context())["pool"] = "a";
  (*request.mutable_secrets())["key"] = "value";
  EXPECT_EQ(Publish(request), 0) << text_;
  EXPECT_THAT(
      script().calls(),
      ElementsAre(StartsWith("GetReceipt " + allocation_),
                  StartsWith("PrepareAllocation " + allocation_ +
                             " {patience_ms=u1000;scope=csi-proxy;"),
                  StartsWith("PublishVolume " + allocation_ +
                             " volume web-data csi-local "
                             "{access_mode=multi-node-multi-writer;"
                             "fs_type=ext4;read_only=true;} "
                             "{device=/dev/sdb;} {pool=a;} {"),
                  StartsWith("BindMount " + allocation_ +
                             " csi target volume:volume ro private {")));
  std::array<char, 32> secrets{};
  const UniqueFd memfd = script().TakeSecrets();
  EXPECT_EQ(::pread(memfd.get(), secrets.data(), secrets.size(), 0), 10);
  EXPECT_EQ(std::string(secrets.data(), 10), std::string("key\0value\0", 10));
}

TEST_F(CsiProxyService, APublicationThatIsNotAtItsPathIsNone) {
  Calls reads_back({.address = manager_.address()});
  const PluginAddress address{"csi-local", directory_.File("other.sock")};
  ASSERT_OK_AND_ASSIGN(const auto server,
                       PluginServer::Start(address, reads_back));
  const auto node = pb::Node::NewStub(grpc::CreateChannel(
      "unix:" + address.socket, grpc::InsecureChannelCredentials()));
  pb::NodePublishVolumeResponse response;
  EXPECT_EQ(Call(*node, &pb::Node::Stub::NodePublishVolume, PublishRequest(),
                 &response),
            9);
  EXPECT_THAT(text_, HasSubstr("the directory was renamed"));
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U) << "tasks may use it";
}

TEST_F(CsiProxyService, AFailureKeepsAMountOfAnEarlierCall) {
  script().Fail("PublishVolume", {"org.mountd1.Error.AlreadyExists", "other"});
  EXPECT_EQ(Publish(PublishRequest()), 6);
  EXPECT_EQ(script().count("GetAllocation"), 1U);
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
}

TEST_F(CsiProxyService, AnUnpublishIsARelease) {
  ASSERT_EQ(Publish(PublishRequest()), 0);
  EXPECT_EQ(Unpublish("another"), 9) << "another volume is published";
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.Busy", "pid 7"});
  EXPECT_EQ(Unpublish("web-data"), 0) << text_;
  EXPECT_EQ(script().count("ReleaseAllocation"), 2U) << "Busy passes";
  EXPECT_NE(::access(target_.c_str(), F_OK), 0);
  for (const char* method : {"GetAllocation", "ReleaseAllocation"}) {
    script().Fail(method, {"org.mountd1.Error.NotFound", "no such"});
  }
  EXPECT_EQ(Unpublish("web-data"), 0) << "nothing is published";
}

TEST_F(CsiProxyService, CallsOfOneTargetRunOneAfterTheOther) {
  script().HoldUntil("PublishVolume", "ReleaseAllocation", 1,
                     std::chrono::seconds(1));
  auto published =
      std::async(std::launch::async, [&] { return Publish(PublishRequest()); });
  EXPECT_TRUE(Eventually([&] { return script().count("PublishVolume") == 1; }));
  grpc::ClientContext context;
  pb::NodeUnpublishVolumeRequest request;
  request.set_volume_id("web-data");
  request.set_target_path(target_);
  pb::NodeUnpublishVolumeResponse response;
  EXPECT_TRUE(node_->NodeUnpublishVolume(&context, request, &response).ok());
  EXPECT_EQ(published.get(), 0);
  EXPECT_THAT(script().last_call(), StartsWith("ReleaseAllocation "));
}

TEST_F(CsiProxyService, StatsAndExpansionAreOfThatVolume) {
  pb::NodeGetVolumeStatsRequest request;
  request.set_volume_id("web-data");
  request.set_volume_path(target_);
  pb::NodeGetVolumeStatsResponse stats;
  EXPECT_EQ(Call(*node_, &pb::Node::Stub::NodeGetVolumeStats, request, &stats),
            0);
  ASSERT_EQ(stats.usage_size(), 1);
  EXPECT_EQ(stats.usage(0).unit(), pb::VolumeUsage::BYTES);
  EXPECT_EQ(stats.usage(0).available(), 60);
  EXPECT_TRUE(stats.volume_condition().abnormal());
  request.set_volume_id("another");
  EXPECT_EQ(Call(*node_, &pb::Node::Stub::NodeGetVolumeStats, request, &stats),
            5);
  pb::NodeExpandVolumeRequest expand;
  expand.set_volume_id("web-data");
  expand.set_volume_path(target_);
  expand.mutable_capacity_range()->set_required_bytes(4096);
  pb::NodeExpandVolumeResponse expanded;
  EXPECT_EQ(Call(*node_, &pb::Node::Stub::NodeExpandVolume, expand, &expanded),
            0);
  EXPECT_EQ(expanded.capacity_bytes(), 4096);
}

TEST_F(CsiProxyService, TheControllersCallsAreForwarded) {
  pb::CreateVolumeRequest create;
  create.set_name("web");
  create.mutable_capacity_range()->set_required_bytes(4096);
  create.mutable_capacity_range()->set_limit_bytes(8192);
  SetCapability(create.add_volume_capabilities());
  (*create.mutable_parameters())["tier"] = "fast";
  (*create.mutable_mutable_parameters())["iops"] = "9";
  create.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(
      "snap-1");
  (*create.mutable_accessibility_requirements()
        ->add_requisite()
        ->mutable_segments())["zone"] = "a";
  pb::CreateVolumeResponse created;
  EXPECT_EQ(
      Call(*controller_, &pb::Controller::Stub::CreateVolume, create, &created),
      0)
      << text_;
  EXPECT_THAT(script().last_call(),
              StartsWith("CreateVolume csi-local web {limit_bytes=x8192;"
                         "mutable_parameters={iops=9;};parameters={tier=fast;};"
                         "required_bytes=x4096;requisite={zone=a;}+;"
                         "source_snapshot=snap-1;usages={access_mode="
                         "multi-node-multi-writer;fs_type=ext4;}+;} {"));
  EXPECT_EQ(created.volume().volume_id(), "id-of-web");
  EXPECT_EQ(created.volume().volume_context().at("pool"), "a");
  EXPECT_EQ(created.volume().content_source().snapshot().snapshot_id(),
            "snap-1");
  EXPECT_EQ(created.volume().accessible_topology(0).segments().at("zone"), "a");

  pb::ControllerPublishVolumeRequest publish;
  publish.set_volume_id("v");
  publish.set_node_id("n1");
  SetCapability(publish.mutable_volume_capability());
  pb::ControllerPublishVolumeResponse published;
  EXPECT_EQ(Call(*controller_, &pb::Controller::Stub::ControllerPublishVolume,
                 publish, &published),
            0);
  EXPECT_EQ(published.publish_context().at("device"), "/dev/sdb");

  pb::ListVolumesRequest list;
  list.set_starting_token("page-2");
  list.set_max_entries(5000);
  pb::ListVolumesResponse page;
  EXPECT_EQ(Call(*controller_, &pb::Controller::Stub::ListVolumes, list, &page),
            0);
  EXPECT_THAT(script().last_call(), HasSubstr("max_entries=u1000"));
  EXPECT_EQ(page.entries(0).volume().volume_id(), "web-data");
  EXPECT_EQ(page.entries(0).status().published_node_ids_size(), 2);
  EXPECT_EQ(page.entries(0).status().volume_condition().message(),
            "its disk is slow");

  pb::GetCapacityResponse capacity;
  EXPECT_EQ(Call(*controller_, &pb::Controller::Stub::GetCapacity,
                 pb::GetCapacityRequest(), &capacity),
            0);
  EXPECT_EQ(capacity.maximum_volume_size().value(), std::int64_t{1} << 30U);
  EXPECT_FALSE(capacity.has_minimum_volume_size());
}

TEST_F(CsiProxyService, AVolumeIsConfirmedForAllItsCapabilitiesOrNone) {
  pb::ValidateVolumeCapabilitiesRequest request;
  request.set_volume_id("v");
  SetCapability(request.add_volume_capabilities());
  SetCapability(request.add_volume_capabilities());
  (*request.mutable_mutable_parameters())["iops"] = "9";
  pb::ValidateVolumeCapabilitiesResponse response;
  EXPECT_EQ(
      Call(*controller_, &pb::Controller::Stub::ValidateVolumeCapabilities,
           request, &response),
      0);
  EXPECT_FALSE(response.has_confirmed());
  EXPECT_EQ(response.message(), "no blocks here");
  EXPECT_THAT(script().last_call(), HasSubstr("mutable_parameters={iops=9;}"));
  EXPECT_EQ(script().count("ValidateVolume"), 1U);
}

TEST_F(CsiProxyService, AForwardedRequestHasNoSecretInIt) {
  pb::CreateSnapshotRequest request;
  request.set_name("s");
  request.set_source_volume_id("v");
  pb::CreateSnapshotResponse response;
  const auto call = [&] {
    return Call(*controller_, &pb::Controller::Stub::CreateSnapshot, request,
                &response);
  };
  EXPECT_EQ(call(), 0) << text_;
  const std::string without = script().last_call();
  (*request.mutable_secrets())["key"] = "hunter2";
  EXPECT_EQ(call(), 0);
  EXPECT_EQ(response.snapshot().snapshot_id(), "snap-1");
  const std::string with = script().last_call();
  EXPECT_TRUE(script().TakeSecrets().valid());
  EXPECT_EQ(with.substr(0, with.find(" {")),
            without.substr(0, without.find(" {")));
  EXPECT_THAT(with, HasSubstr("secrets=h"));
  EXPECT_THAT(without, Not(HasSubstr("secrets")));
}

TEST_F(CsiProxyService, AGroupsCallsAreForwarded) {
  pb::GroupControllerGetCapabilitiesResponse response;
  EXPECT_EQ(
      Call(*group_, &pb::GroupController::Stub::GroupControllerGetCapabilities,
           pb::GroupControllerGetCapabilitiesRequest(), &response),
      0);
  EXPECT_THAT(
      script().last_call(),
      StartsWith("CallController csi-local GroupControllerGetCapabilities "));
}

TEST_F(CsiProxyService, ASizeOutOfRangeIsOutOfRange) {
  const Error error =
      ::mountd::csi::ToError({::mountd::csi::RpcCode::kOutOfRange, "too large"},
                             "ControllerExpandVolume", "plugin csi-local");
  script().Fail("DeleteVolume",
                {"org.mountd1.Error.InvalidArgument", error.Message()});
  EXPECT_EQ(Delete(), 11) << text_;
  script().Fail("DeleteVolume", {"org.mountd1.Error.InvalidArgument", "no"});
  EXPECT_EQ(Delete(), 3);
}

TEST_F(CsiProxyService, InProgressIsJoinedUntilTheDeadline) {
  for (int i = 0; i < 3; ++i) {
    script().Fail("DeleteVolume", kInProgress);
  }
  EXPECT_EQ(Delete(), 0) << text_;
  EXPECT_EQ(script().count("DeleteVolume"), 4U);
  for (int i = 0; i < 1000; ++i) {
    script().Fail("DeleteVolume", kInProgress);
  }
  deadline_ms_ = 300;
  EXPECT_EQ(Delete(), 4) << "DEADLINE_EXCEEDED is gRPC's own";
  const std::size_t calls = script().count("DeleteVolume");
  EXPECT_LT(calls, 1000U);
}

TEST_F(CsiProxyService, ARestartOfMountdIsInTheCall) {
  for (int i = 0; i < 3; ++i) {
    script().Fail("DeleteVolume", {"", "", true});
  }
  EXPECT_EQ(Delete(), 0) << text_;
  EXPECT_EQ(script().count("DeleteVolume"), 4U);
}

// As many RPCs as may wait do, because the plugin hangs.
TEST_F(CsiProxyService, ProbeIsAnsweredWhileAllOthersHang) {
  script().HoldUntil("DeleteVolume", "GetPlugin", 1, std::chrono::seconds(60));
  std::vector<std::future<int>> hang;
  for (std::size_t i = 0; i < ProxiedPlugin::kMostWaiting; ++i) {
    hang.push_back(std::async(std::launch::async, [this] {
      pb::DeleteVolumeRequest request;
      request.set_volume_id("v");
      for (;;) {
        pb::DeleteVolumeResponse response;
        grpc::ClientContext context;
        const int code = static_cast<int>(
            controller_->DeleteVolume(&context, request, &response)
                .error_code());
        // A call of Delete below may have had the place of this one.
        if (code != 8) {
          return code;
        }
      }
    }));
  }
  deadline_ms_ = 100;
  EXPECT_TRUE(Eventually([this] { return Delete() == 8; })) << text_;
  EXPECT_THAT(text_, HasSubstr("64 other RPCs of the plugin wait"));
  deadline_ms_ = 30'000;
  pb::ProbeResponse probe;
  EXPECT_EQ(
      Call(*identity_, &pb::Identity::Stub::Probe, pb::ProbeRequest(), &probe),
      0)
      << text_;
  for (std::future<int>& one : hang) {
    EXPECT_EQ(one.get(), 0);
  }
}

TEST_F(CsiProxyService, AnUnknownPluginIsNoMissingVolume) {
  script().Fail("DeleteVolume", {"org.mountd1.Error.NotFound", "no volume"});
  EXPECT_EQ(Delete(), 5) << "mountd knows the plugin";
  script().Fail("DeleteVolume", {"org.mountd1.Error.NotFound", "no plugin"});
  script().Fail("GetPlugin", {"org.mountd1.Error.NotFound", "no plugin"});
  EXPECT_EQ(Delete(), 9);
  EXPECT_THAT(text_, HasSubstr("mountd knows no such plugin"));
}

TEST_F(CsiProxyService, WhereMountdIsAwayNothingHangs) {
  manager_.Stop();
  deadline_ms_ = 5000;
  EXPECT_EQ(Delete(), 14) << text_;
  EXPECT_EQ(Publish(PublishRequest()), 14) << text_;
}

}  // namespace
}  // namespace mountd::csi_proxy
