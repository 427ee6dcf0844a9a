// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-csi-proxy as an orchestrator without root uses it: with a whole mountd
// and a plugin that fails as the test says.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/root/node/csi_proxy_fixture.h"

namespace mountd::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns "Ok", or the code's number and the text.
std::string Told(const grpc::Status& status) {
  return status.ok() ? "Ok"
                     : std::to_string(status.error_code()) + " " +
                           status.error_message();
}

TEST_F(CsiProxyNode, AVolumeIsAtItsTargetUntilItIsUnpublished) {
  const std::string target = Target("a");
  ASSERT_EQ(Told(PublishAt(target)), "Ok");
  EXPECT_EQ(MountsOn(target), 1U);
  std::ofstream(target + "/file") << "text";
  EXPECT_TRUE(std::filesystem::exists(std::string(kFaults) + "/data/76/file"));
  ASSERT_EQ(Told(PublishAt(target)), "Ok") << "the same call again";
  EXPECT_EQ(MountsOn(target), 1U);
  ASSERT_EQ(Told(UnpublishAt(target)), "Ok");
  ExpectNoPublication();
  ASSERT_EQ(Told(UnpublishAt(target)), "Ok") << "the same call again";
  ASSERT_EQ(Told(PublishAt(target)), "Ok") << "the same path again";
  ASSERT_EQ(Told(UnpublishAt(target)), "Ok");
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, TwoTargetsOfOneVolumeEndOneByOne) {
  ASSERT_EQ(Told(PublishAt(Target("a"))), "Ok");
  auto reader = PublishRequest(Target("b"));
  reader.set_readonly(true);
  ASSERT_EQ(Told(PublishAt(reader)), "Ok");
  EXPECT_FALSE(std::ofstream(Target("b") + "/file").is_open());
  reader.set_readonly(false);
  EXPECT_EQ(PublishAt(reader).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  EXPECT_EQ(MountsOn(Target("b")), 1U);
  EXPECT_EQ(UnpublishAt(Target("b"), "another").error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(MountsOn(Target("b")), 1U);
  ASSERT_EQ(Told(UnpublishAt(Target("b"))), "Ok");
  ExpectNoPublication();
}

// The owner of a target's parent renames it, and the mount with it.
TEST_F(CsiProxyNode, AMountThatWasRenamedIsNoPublication) {
  const std::string parent = Target("alloc");
  const auto make_parent = [&] {
    ASSERT_EQ(::mkdir(parent.c_str(), 0755), 0);
    ASSERT_EQ(::chown(parent.c_str(), kAgentUid, kAgentUid), 0);
  };
  make_parent();
  ASSERT_EQ(Told(PublishAt(parent + "/a")), "Ok");
  ASSERT_EQ(::rename(parent.c_str(), Target("moved").c_str()), 0);
  make_parent();
  const grpc::Status again = PublishAt(parent + "/a");
  EXPECT_EQ(again.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(again.error_message(), HasSubstr("NodeUnpublishVolume first"));
  EXPECT_EQ(MountsOn(kTargets), 1U) << "tasks may use the old one";
  ASSERT_EQ(Told(UnpublishAt(parent + "/a")), "Ok");
  EXPECT_EQ(MountsOn(kTargets), 0U);
  ASSERT_EQ(Told(PublishAt(parent + "/a")), "Ok");
  EXPECT_EQ(MountsOn(parent), 1U);
  ASSERT_EQ(Told(UnpublishAt(parent + "/a")), "Ok");
  std::filesystem::remove_all(parent);
  std::filesystem::remove_all(Target("moved"));
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, AFinalFailureLeavesNothing) {
  for (const int code : {3, 5, 9}) {
    Tell("NodePublishVolume", "code " + std::to_string(code));
    EXPECT_EQ(PublishAt(Target("a")).error_code(), code);
    ExpectNoPublication();
  }
  // mountd stages the volume before it sees that it may not mount there.
  Tell("", "");
  ASSERT_EQ(::mkdir("/run/agent/other", 0755), 0);
  ASSERT_EQ(::chown("/run/agent/other", kAgentUid, kAgentUid), 0);
  EXPECT_EQ(PublishAt("/run/agent/other/a").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(std::filesystem::is_empty("/run/agent/other"));
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, ACallThatTakesLongGetsItsTrueResult) {
  // Longer than the proxy's patience, so mountd answers InProgress meanwhile.
  Tell("NodePublishVolume", "delay 2500");
  EXPECT_EQ(Told(PublishAt(Target("a"))), "Ok");
  EXPECT_EQ(MountsOn(Target("a")), 1U);
  EXPECT_EQ(Asked("NodePublishVolume"), 1U);
  Tell("NodeUnpublishVolume", "delay 2500");
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  EXPECT_EQ(Asked("NodeUnpublishVolume"), 1U);
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, ADeadlineEndsTheCallAndTheSameCallJoins) {
  Tell("NodePublishVolume", "delay 2500");
  EXPECT_EQ(
      PublishAt(PublishRequest(Target("a")), milliseconds(300)).error_code(),
      grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Told(PublishAt(Target("a"))), "Ok");
  EXPECT_EQ(Asked("NodePublishVolume"), 1U) << "the second call has joined";
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, ACallerThatHasGoneLeavesNothingBehindItsUnpublish) {
  Tell("NodePublishVolume", "delay 2500");
  {
    grpc::ClientContext context;
    ::csi::v1::NodePublishVolumeResponse response;
    auto told = std::async(std::launch::async, [&] {
      return node_stub_->NodePublishVolume(
          &context, PublishRequest(Target("a")), &response);
    });
    EXPECT_TRUE(Eventually([] { return Asked("NodePublishVolume") > 0; }));
    context.TryCancel();
    EXPECT_EQ(told.get().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  ExpectNoPublication();
}

// An orchestrator's call is cut off by SIGKILL, and made once more.
TEST_F(CsiProxyNode, AKilledProxyIsNotMissed) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    SCOPED_TRACE(rpc);
    const std::size_t before = Asked(rpc);
    Tell(rpc, "delay 800");
    auto told =
        std::async(std::launch::async, [&] { return PublishAt(Target("a")); });
    EXPECT_TRUE(Eventually([&] { return Asked(rpc) > before; }));
    KillProxy();
    EXPECT_EQ(told.get().error_code(), grpc::StatusCode::UNAVAILABLE);
    StartProxy();
    EXPECT_EQ(Told(PublishAt(Target("a"))), "Ok");
    EXPECT_EQ(Asked(rpc), before + 1) << "the second call has joined";
    EXPECT_EQ(MountsOn(Target("a")), 1U);
    Tell("NodeUnpublishVolume", "delay 800");
    const std::size_t undone = Asked("NodeUnpublishVolume");
    told = std::async(std::launch::async,
                      [&] { return UnpublishAt(Target("a")); });
    EXPECT_TRUE(
        Eventually([&] { return Asked("NodeUnpublishVolume") > undone; }));
    KillProxy();
    EXPECT_EQ(told.get().error_code(), grpc::StatusCode::UNAVAILABLE);
    StartProxy();
    EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
    ExpectNoPublication();
  }
}

TEST_F(CsiProxyNode, MountdsRestartIsInTheCall) {
  Tell("NodePublishVolume", "delay 1500");
  auto told =
      std::async(std::launch::async, [&] { return PublishAt(Target("a")); });
  EXPECT_TRUE(Eventually([] { return Asked("NodePublishVolume") > 0; }));
  Node::Kill(Node::Processes("mountd"));
  EXPECT_EQ(Told(told.get()), "Ok");
  EXPECT_EQ(MountsOn(Target("a")), 1U);
  Tell("", "");
  client_.reset();
  Connect();
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, AVolumeInUseIsNotUnpublished) {
  ASSERT_EQ(Told(PublishAt(Target("a"))), "Ok");
  {
    UniqueFd file(::open((Target("a") + "/file").c_str(),
                         O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.valid());
    EXPECT_NE(Told(UnpublishAt(Target("a"), "v", milliseconds(3000))), "Ok");
    EXPECT_EQ(MountsOn(Target("a")), 1U);
    // The next call waits until the file is closed.
    auto told = std::async(std::launch::async,
                           [&] { return UnpublishAt(Target("a")); });
    EXPECT_EQ(told.wait_for(milliseconds(500)), std::future_status::timeout);
    file.reset();
    EXPECT_EQ(Told(told.get()), "Ok");
  }
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, AVolumeIsUnpublishedWhenItsPluginHasDetachedIt) {
  ASSERT_EQ(Told(PublishAt(Target("a"))), "Ok");
  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  EXPECT_NE(Told(UnpublishAt(Target("a"), "v", milliseconds(2500))), "Ok");
  StartPlugin();
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  ExpectNoPublication();
}

// A publish between would drop the receipt of the first unpublish, and the
// second one would succeed while the volume is still staged.
TEST_F(CsiProxyNode, NoPublishHidesWhatIsNotDetachedYet) {
  ASSERT_EQ(Told(PublishAt(Target("a"))), "Ok");
  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  EXPECT_NE(Told(UnpublishAt(Target("a"), "v", milliseconds(2500))), "Ok");
  EXPECT_NE(Told(PublishAt(PublishRequest(Target("a")), milliseconds(2500))),
            "Ok");
  EXPECT_NE(Told(UnpublishAt(Target("a"), "v", milliseconds(2500))), "Ok");
  StartPlugin();
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  EXPECT_GT(Asked("NodeUnstageVolume"), 0U);
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, IdentityIsTheRealPlugins) {
  grpc::ClientContext first;
  ::csi::v1::GetPluginInfoResponse info;
  ASSERT_EQ(Told(identity_->GetPluginInfo(&first, {}, &info)), "Ok");
  EXPECT_EQ(info.name(), client_->GetPlugin("fault")->provider);
  grpc::ClientContext second;
  ::csi::v1::NodeGetInfoResponse node;
  ASSERT_EQ(Told(node_stub_->NodeGetInfo(&second, {}, &node)), "Ok");
  EXPECT_EQ(node.node_id(), "node-1");
  grpc::ClientContext third;
  ::csi::v1::ProbeResponse probe;
  ASSERT_EQ(Told(identity_->Probe(&third, {}, &probe)), "Ok");
  EXPECT_TRUE(probe.ready().value());
  grpc::ClientContext fourth;
  ::csi::v1::NodeGetCapabilitiesResponse offered;
  ASSERT_EQ(Told(node_stub_->NodeGetCapabilities(&fourth, {}, &offered)), "Ok");
  EXPECT_THAT(offered.DebugString(), Not(HasSubstr("STAGE_UNSTAGE_VOLUME")));
  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  grpc::ClientContext fifth;
  EXPECT_EQ(identity_->Probe(&fifth, {}, &probe).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(CsiProxyNode, SecretsReachThePluginAndNoLog) {
  Tell("NodePublishVolume", "echo 16");
  auto request = PublishRequest(Target("a"));
  (*request.mutable_secrets())["password"] = "hunter2";
  request.mutable_volume_capability()->mutable_mount()->add_mount_flags(
      "password=flagged3");
  const grpc::Status status = PublishAt(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  for (const std::string& text :
       {status.error_message(), ProxyLog(), node_->Log()}) {
    EXPECT_THAT(text, HasSubstr("cannot log in with"));
    EXPECT_THAT(text, Not(HasSubstr("hunter2")));
    EXPECT_THAT(text, Not(HasSubstr("flagged3")));
  }
  Tell("", "");
  request.mutable_volume_capability()->mutable_mount()->clear_mount_flags();
  EXPECT_EQ(Told(PublishAt(request)), "Ok");
  std::ifstream calls(std::string(kFaults) + "/calls");
  const std::string all{std::istreambuf_iterator<char>(calls), {}};
  EXPECT_THAT(all, HasSubstr("\"secrets\": 1"));
  EXPECT_EQ(Told(UnpublishAt(Target("a"))), "Ok");
  ExpectNoPublication();
}

// Returns the value of a line of /proc/PID/status.
std::string StatusOf(pid_t pid, const std::string& key) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":\t")) {
      return line.substr(key.size() + 2);
    }
  }
  return "";
}

TEST_F(CsiProxyNode, HoldsNothingAndShowsNoMemory) {
  for (const char* set : {"CapPrm", "CapEff", "CapInh", "CapAmb"}) {
    EXPECT_EQ(StatusOf(proxy_.pid(), set), "0000000000000000") << set;
  }
  EXPECT_EQ(StatusOf(proxy_.pid(), "NoNewPrivs"), "1");
  // The files of a process that is not dumpable are root's (proc(5)), so no
  // other process of its user traces it.
  struct stat file {};
  const std::string mem = "/proc/" + std::to_string(proxy_.pid()) + "/mem";
  ASSERT_EQ(::stat(mem.c_str(), &file), 0);
  EXPECT_EQ(file.st_uid, 0U);
}

TEST_F(CsiProxyNode, HostileRequestsAreRefusedInWords) {
  using Request = ::csi::v1::NodePublishVolumeRequest;
  const auto with = [](const std::function<void(Request&)>& change) {
    Request request = PublishRequest(Target("a"));
    change(request);
    return request;
  };
  const std::vector<std::pair<Request, const char*>> refused = {
      {with([](Request& r) { r.set_target_path("/run/agent/targets/../x"); }),
       "no component . or .."},
      {with([](Request& r) { r.set_target_path("relative"); }), "absolute"},
      {with([](Request& r) { r.set_target_path("/"); }), "is the root"},
      {with([](Request& r) { r.set_target_path(Target("a\nb")); }),
       "no control character"},
      {with([](Request& r) {
         r.set_target_path(Target(std::string("a\0b", 3)));
       }),
       "no control character"},
      {with([](Request& r) {
         r.set_target_path(Target(std::string(300, 'a')));
       }),
       "255 bytes"},
      {with([](Request& r) {
         r.set_target_path(Target(std::string(5000, '/') + "a"));
       }),
       "4095 bytes"},
      {with([](Request& r) { r.set_volume_id(std::string("v\0w", 3)); }),
       "volume_id: must not have a NUL"},
      {with([](Request& r) {
         (*r.mutable_volume_context())["k"] = std::string("v\0w", 3);
       }),
       "must not have a NUL"},
      {with([](Request& r) { r.set_volume_id(std::string(2000, 'v')); }), ""},
      {with([](Request& r) { r.clear_volume_id(); }), "is missing"},
      {with([](Request& r) { r.clear_volume_capability(); }), "is missing"},
      {with([](Request& r) {
         r.mutable_volume_capability()->clear_access_mode();
       }),
       "access_mode"},
      {with([](Request& r) { r.mutable_volume_capability()->mutable_block(); }),
       "block device"},
  };
  for (const auto& [request, why] : refused) {
    const grpc::Status status = PublishAt(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << why;
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }
  EXPECT_EQ(PublishAt(with([](Request& r) {
              r.set_volume_id(std::string(3 << 20, 'v'));
            })).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Nothing of it went to the plugin, and no line of the log is broken.
  EXPECT_EQ(Asked("NodeStageVolume"), 0U);
  std::ifstream log(kProxyLog);
  for (std::string line; std::getline(log, line);) {
    EXPECT_THAT(line, HasSubstr("mountd-csi-proxy: fault: ")) << line;
  }
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, ALinkAtTheTargetIsNotFollowed) {
  ASSERT_EQ(::symlink("/run/host", Target("a").c_str()), 0);
  EXPECT_EQ(PublishAt(Target("a")).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(UnpublishAt(Target("a")).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(::unlink(Target("a").c_str()), 0);
  std::ofstream(Target("file")) << "mine";
  EXPECT_EQ(UnpublishAt(Target("file")).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(::unlink(Target("file").c_str()), 0);
  EXPECT_EQ(Told(UnpublishAt(Target("missing/parent"))), "Ok");
  ExpectNoPublication();
}

TEST_F(CsiProxyNode, AnUnknownPluginIsNoMissingVolume) {
  StartProxy({"--plugin", "unknown=/run/agent/unknown.sock"});
  ASSERT_TRUE(ConnectWithin("/run/agent/unknown.sock", 20).valid());
  Open("/run/agent/unknown.sock");
  grpc::ClientContext context;
  ::csi::v1::DeleteVolumeRequest request;
  request.set_volume_id("v");
  ::csi::v1::DeleteVolumeResponse response;
  EXPECT_EQ(
      controller_->DeleteVolume(&context, request, &response).error_code(),
      grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(PublishAt(Target("a")).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ExpectNoPublication();
}

// One plugin hangs, and its callers wait for ever.
TEST_F(CsiProxyNode, AHangingPluginHoldsUpNobodyElse) {
  StartProxy({"--plugin", "other=/run/agent/other.sock"});
  ASSERT_TRUE(client_->RegisterPlugin(
      {.plugin = "other", .type = agent::PluginType::kMonolith}));
  const std::string place = "/run/host/other";
  std::filesystem::create_directories(place);
  const Process other(
      {FAULT_PLUGIN, "/run/mountd/base/p/other/csi.sock", place, "node-1"});
  ASSERT_TRUE(Eventually([&] {
    const auto plugin = client_->GetPlugin("other");
    return plugin && plugin->state == "healthy";
  }));
  Tell("NodePublishVolume", "hang");
  std::vector<std::thread> callers;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  for (int i = 0; i < 40; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    callers.emplace_back([&, i, context = contexts.back().get()] {
      ::csi::v1::NodePublishVolumeResponse response;
      const auto request = PublishRequest(Target("h" + std::to_string(i)),
                                          "h" + std::to_string(i));
      node_stub_->NodePublishVolume(context, request, &response);
    });
  }
  EXPECT_TRUE(Eventually([] { return Asked("NodePublishVolume") >= 8; }));
  grpc::ClientContext probing;
  SetDeadline(probing, milliseconds(10'000));
  ::csi::v1::ProbeResponse probe;
  EXPECT_EQ(Told(identity_->Probe(&probing, {}, &probe)), "Ok");
  {
    const auto stub =
        ::csi::v1::Node::NewStub(ChannelTo("/run/agent/other.sock"));
    grpc::ClientContext context;
    SetDeadline(context, milliseconds(15'000));
    ::csi::v1::NodePublishVolumeResponse response;
    EXPECT_EQ(Told(stub->NodePublishVolume(
                  &context, PublishRequest(Target("o"), "o"), &response)),
              "Ok");
  }
  for (const auto& context : contexts) {
    context->TryCancel();
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
}

}  // namespace
}  // namespace mountd::testing
