// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The plugin as a Nomad client calls it, over a real channel. The driver's
// tasks are without a container.
#include "agent/nomad/plugin/driver_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nomad_status.pb.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/nomad/goplugin/plugin_server.h"
#include "agent/nomad/plugin/base_service.h"
#include "agent/nomad/plugin/task_request.h"
#include "tests/agent/fake_task_driver.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::nomad {
namespace {

namespace base = hashicorp::nomad::plugins::base::proto;
namespace fs = std::filesystem;
using driver::ExitResult;
using driver::test::FakeTasks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The node, which outlives every plugin.
struct NodeState {
  FakeTasks tasks;
  std::mutex mutex;
  std::vector<std::string> allocation_calls;
  int failing_waits = 0;
  int failing_makes = 0;
};

class TestDriver final : public driver::test::FakeTaskDriver {
 public:
  explicit TestDriver(NodeState& node)
      : FakeTaskDriver(node.tasks), node_(node) {}

  std::vector<driver::SchemaKey> ConfigSchema() override {
    using Type = driver::SchemaKey::Type;
    return {{"image", Type::kString, true, ""},
            {"command", Type::kStrings, false, ""},
            {"user", Type::kString, false, ""}};
  }
  // A driver that is away sometimes, as one is whose shim does not answer.
  Result<ExitResult> WaitTask(const std::string& id) override {
    {
      const std::lock_guard lock(node_.mutex);
      if (node_.failing_waits > 0) {
        --node_.failing_waits;
        return MakeError(Code::kUnavailable, "wait", id, "no free fd");
      }
    }
    return FakeTaskDriver::WaitTask(id);
  }
  Result<driver::ExecOutput> ExecTask(
      const std::string& id, const std::vector<std::string>& command,
      std::chrono::milliseconds timeout) override {
    if (command.front() == "late") {
      return MakeError(Code::kDeadlineExceeded, "exec", id, "takes too long");
    }
    return driver::ExecOutput{std::to_string(timeout.count()), "err", {7}};
  }

 private:
  NodeState& node_;
};

class TestAllocations final : public Allocations {
 public:
  explicit TestAllocations(NodeState& node) : node_(node) {}
  Result<void> Prepare(const std::string& allocation) override {
    return Say("prepare " + allocation);
  }
  Result<void> MountHostVolumes(driver::TaskConfig* config) override {
    for (driver::Mount& mount : config->mounts) {
      mount.host_path = "/inbox" + mount.host_path;
    }
    return Say("mount " + config->allocation + " " + config->name);
  }
  Result<void> UnmountHostVolumes(const std::string& allocation,
                                  const std::string& task) override {
    return Say("unmount " + allocation + " " + task);
  }
  Result<void> ReleaseIfBare(const std::string& allocation) override {
    return Say("release " + allocation);
  }

 private:
  Result<void> Say(const std::string& call) {
    const std::lock_guard lock(node_.mutex);
    node_.allocation_calls.push_back(call);
    return Ok();
  }
  NodeState& node_;
};

// One process of the plugin.
class Plugin {
 public:
  explicit Plugin(NodeState& node)
      : source_([this, &node](const Settings&) { return Make(node); }),
        base_(source_),
        driver_(source_, log_, std::chrono::milliseconds(1)),
        server_(
            *goplugin::PluginServer::Start({}, 2, {&base_, &driver_}, stop_)),
        channel_(grpc::CreateChannel("unix:" + server_->socket(),
                                     grpc::InsecureChannelCredentials())),
        base_stub_(base::BasePlugin::NewStub(channel_)),
        stub_(wire::Driver::NewStub(channel_)) {}

  base::BasePlugin::Stub& base() { return *base_stub_; }
  wire::Driver::Stub& stub() { return *stub_; }
  int made() const { return made_; }

  // Calls by the stub's method.
  template <typename Stub, typename Request, typename Response>
  static grpc::Status Call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                        const Request&,
                                                        Response*),
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    return (stub.*method)(&context, request, response);
  }

 private:
  Result<Node> Make(NodeState& node) {
    const std::lock_guard lock(node.mutex);
    if (node.failing_makes > 0) {
      --node.failing_makes;
      return MakeError(Code::kUnavailable, "connect", "mountd", "is away");
    }
    ++made_;
    Node made;
    made.allocations = std::make_unique<TestAllocations>(node);
    made.driver = std::make_unique<TestDriver>(node);
    return made;
  }

  std::atomic<int> made_ = 0;
  goplugin::Hclog log_{"test"};
  goplugin::StopRequest stop_;
  DriverSource source_;
  BaseService base_;
  DriverService driver_;
  std::unique_ptr<goplugin::PluginServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<base::BasePlugin::Stub> base_stub_;
  std::unique_ptr<wire::Driver::Stub> stub_;
};

std::string Msgpack(const nlohmann::json& values) {
  const auto bytes = nlohmann::json::to_msgpack(values);
  return {bytes.begin(), bytes.end()};
}

class NomadPlugin : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(images_.File("web")); }
  ~NomadPlugin() override { plugin_.reset(); }

  Plugin& plugin() {
    if (!plugin_) {
      Restart();
    }
    return *plugin_;
  }
  // Ends the plugin, and starts one as Nomad does.
  void Restart() {
    plugin_.reset();
    plugin_ = std::make_unique<Plugin>(node_);
    EXPECT_TRUE(SetConfig({{"image_directories", {images_.File("")}},
                           {"state", nullptr}})
                    .ok());
  }
  grpc::Status SetConfig(const nlohmann::json& values) {
    base::SetConfigRequest request;
    request.set_msgpack_config(Msgpack(values));
    base::SetConfigResponse response;
    return Plugin::Call(plugin_->base(), &base::BasePlugin::Stub::SetConfig,
                        request, &response);
  }
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (wire::Driver::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    return Plugin::Call(plugin().stub(), method, request, response);
  }

  wire::TaskConfig Config(const std::string& id = "a1/web/0000") {
    wire::TaskConfig task;
    task.set_id(id);
    task.set_name("web");
    task.set_alloc_id("a1");
    task.set_alloc_dir(images_.File(""));
    task.set_stdout_path("/dev/null");
    task.set_stderr_path("/dev/null");
    task.set_msgpack_driver_config(Msgpack(
        {{"image", "dir:" + images_.File("web")}, {"command", {"run", "it"}}}));
    return task;
  }
  wire::TaskHandle Start(const wire::TaskConfig& task) {
    wire::StartTaskRequest request;
    *request.mutable_task() = task;
    wire::StartTaskResponse response;
    const auto status =
        Call(&wire::Driver::Stub::StartTask, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.handle();
  }
  grpc::Status StartStatus(const wire::TaskConfig& task) {
    wire::StartTaskRequest request;
    *request.mutable_task() = task;
    wire::StartTaskResponse response;
    return Call(&wire::Driver::Stub::StartTask, request, &response);
  }
  grpc::Status Recover(const wire::TaskHandle& handle) {
    wire::RecoverTaskRequest request;
    *request.mutable_handle() = handle;
    wire::RecoverTaskResponse response;
    return Call(&wire::Driver::Stub::RecoverTask, request, &response);
  }
  wire::WaitTaskResponse Wait(const std::string& id) {
    wire::WaitTaskRequest request;
    request.set_task_id(id);
    wire::WaitTaskResponse response;
    const auto status = Call(&wire::Driver::Stub::WaitTask, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  const TempDirectory images_;
  NodeState node_;
  std::unique_ptr<Plugin> plugin_;
};

TEST_F(NomadPlugin, SaysWhatItIsAndMakesNothing) {
  base::PluginInfoResponse info;
  EXPECT_TRUE(Plugin::Call(plugin().base(), &base::BasePlugin::Stub::PluginInfo,
                           base::PluginInfoRequest(), &info)
                  .ok());
  EXPECT_EQ(info.type(), base::DRIVER);
  EXPECT_EQ(info.name(), "mountd");
  EXPECT_THAT(info.plugin_api_versions(), ElementsAre("v0.1.0"));
  base::ConfigSchemaResponse schema;
  EXPECT_TRUE(Plugin::Call(plugin().base(),
                           &base::BasePlugin::Stub::ConfigSchema,
                           base::ConfigSchemaRequest(), &schema)
                  .ok());
  const auto& keys = schema.spec().object().attributes();
  EXPECT_EQ(keys.at("image_directories").attr().type(), "list(string)");
  EXPECT_EQ(keys.at("state").attr().type(), "string");
  EXPECT_EQ(plugin().made(), 0);
}

TEST_F(NomadPlugin, RefusesAConfigurationByItsKey) {
  plugin();
  const auto unknown = SetConfig({{"imagedirs", {"/srv"}}});
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(unknown.error_message(), HasSubstr("imagedirs"));
  EXPECT_THAT(SetConfig({{"runtime", 1}}).error_message(),
              HasSubstr("runtime"));
  EXPECT_THAT(SetConfig({{"image_directories", {"srv"}}}).error_message(),
              HasSubstr("image_directories"));
}

TEST_F(NomadPlugin, KeepsTheSettingsOfADriverThatWorks) {
  Start(Config());
  EXPECT_EQ(SetConfig({{"state", "/elsewhere"}}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(NomadPlugin, TellsTheTasksSchemaWithoutNomadsOwnUser) {
  wire::TaskConfigSchemaResponse schema;
  EXPECT_TRUE(Call(&wire::Driver::Stub::TaskConfigSchema,
                   wire::TaskConfigSchemaRequest(), &schema)
                  .ok());
  const auto& keys = schema.spec().object().attributes();
  EXPECT_TRUE(keys.at("image").attr().required());
  EXPECT_EQ(keys.at("command").attr().type(), "list(string)");
  EXPECT_FALSE(keys.contains("user"));
}

// One whole life, call by call.
TEST_F(NomadPlugin, RunsATaskFromItsNetworkToItsReceipt) {
  wire::CreateNetworkRequest create;
  create.set_alloc_id("a1");
  create.set_hostname("web-1");
  wire::CreateNetworkResponse network;
  ASSERT_TRUE(Call(&wire::Driver::Stub::CreateNetwork, create, &network).ok());
  EXPECT_EQ(network.isolation_spec().mode(), wire::NetworkIsolationSpec::GROUP);
  EXPECT_EQ(network.isolation_spec().labels().at("docker_sandbox_hostname"),
            "web-1");

  const wire::TaskConfig task = Config();
  const wire::TaskHandle handle = Start(task);
  EXPECT_EQ(handle.SerializeAsString().find(task.SerializeAsString()) !=
                std::string::npos,
            true);
  EXPECT_GE(handle.version(), 1);
  EXPECT_EQ(handle.state(), wire::RUNNING);

  wire::InspectTaskRequest inspect;
  inspect.set_task_id(task.id());
  wire::InspectTaskResponse status;
  ASSERT_TRUE(Call(&wire::Driver::Stub::InspectTask, inspect, &status).ok());
  EXPECT_EQ(status.task().state(), wire::RUNNING);
  // Go's zero time, because Nomad reads it also of a task that runs.
  EXPECT_EQ(status.task().completed_at().seconds(), -62'135'596'800);
  EXPECT_TRUE(status.task().has_result());

  wire::StopTaskRequest stop;
  stop.set_task_id(task.id());
  stop.mutable_timeout()->set_seconds(5);
  stop.set_signal("SIGINT");
  wire::StopTaskResponse stopped;
  EXPECT_TRUE(Call(&wire::Driver::Stub::StopTask, stop, &stopped).ok());
  EXPECT_EQ(Wait(task.id()).result().signal(), 15);

  wire::DestroyTaskRequest destroy;
  destroy.set_task_id(task.id());
  wire::DestroyTaskResponse destroyed;
  for (int i = 0; i < 2; ++i) {  // a task that is gone has been destroyed
    EXPECT_TRUE(
        Call(&wire::Driver::Stub::DestroyTask, destroy, &destroyed).ok());
  }
  wire::DestroyNetworkRequest end;
  end.set_alloc_id("a1");
  *end.mutable_isolation_spec() = network.isolation_spec();
  wire::DestroyNetworkResponse ended;
  EXPECT_TRUE(Call(&wire::Driver::Stub::DestroyNetwork, end, &ended).ok());
  EXPECT_THAT(node_.tasks.calls(),
              ElementsAre("create-network cni-a1", "start cni-a1/web",
                          "stop cni-a1/web SIGINT 5000", "destroy cni-a1/web",
                          "destroy-network cni-a1"));
  EXPECT_THAT(
      node_.allocation_calls,
      ElementsAre("prepare cni-a1", "mount cni-a1 web", "unmount cni-a1 web",
                  "unmount cni-a1 web", "release cni-a1"));
}

// Nomad does not keep the driver's configuration in a handle.
TEST_F(NomadPlugin, AnotherPluginFindsTheTaskAgain) {
  wire::TaskHandle handle = Start(Config());
  handle.mutable_config()->clear_msgpack_driver_config();
  Restart();
  EXPECT_TRUE(Recover(handle).ok());
  EXPECT_TRUE(Recover(handle).ok());
  node_.tasks.End("cni-a1/web", ExitResult{3});
  EXPECT_EQ(Wait("a1/web/0000").result().exit_code(), 3);
  Restart();  // also a task that has ended
  EXPECT_TRUE(Recover(handle).ok());
  EXPECT_EQ(Wait("a1/web/0000").result().exit_code(), 3);
  node_.tasks.Reboot();
  EXPECT_EQ(Recover(handle).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(NomadPlugin, RecoversATaskWhoseImageIsNotAllowedAnyMore) {
  const wire::TaskHandle handle = Start(Config());
  plugin_.reset();
  plugin_ = std::make_unique<Plugin>(node_);
  EXPECT_TRUE(Recover(handle).ok());
}

TEST_F(NomadPlugin, TakesImagesFromItsDirectoriesAlone) {
  wire::TaskConfig task = Config();
  const TempDirectory elsewhere;
  fs::create_directory_symlink(elsewhere.File(""), images_.File("link"));
  for (const std::string& image :
       {std::string("dir:/"), "dir:" + elsewhere.File(""),
        "dir:" + images_.File("link"), "dir:" + images_.File("web/../.."),
        std::string("oci:/srv/none")}) {
    task.set_msgpack_driver_config(Msgpack({{"image", image}}));
    const auto status = StartStatus(task);
    EXPECT_NE(status.error_code(), grpc::StatusCode::OK) << image;
    EXPECT_THAT(status.error_message(), HasSubstr("image")) << image;
  }
  EXPECT_TRUE(node_.tasks.calls().empty());
}

// The restart policy retries a start only after an error with this detail.
TEST_F(NomadPlugin, SaysWhichFailureOfAStartMayPass) {
  plugin();
  node_.tasks.FailStart(
      MakeError(Code::kUnavailable, "start", "web", "no room"), false);
  const auto passing = StartStatus(Config());
  EXPECT_EQ(passing.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  RpcStatus details;
  ASSERT_TRUE(details.ParseFromString(passing.error_details()));
  EXPECT_EQ(details.code(), 9);
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(),
            "type.googleapis.com/"
            "hashicorp.nomad.plugins.shared.structs.RecoverableError");
  EXPECT_EQ(details.details(0).value(), "\x08\x01");
  node_.tasks.FailStart(MakeError(Code::kInternal, "start", "web", "broken"),
                        false);
  const auto final = StartStatus(Config());
  EXPECT_EQ(final.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(final.error_details(), "");
}

// Nomad destroys no task that has not started.
TEST_F(NomadPlugin, KeepsNoHostVolumeOfATaskThatDoesNotStart) {
  plugin();
  node_.tasks.FailStart(MakeError(Code::kInternal, "start", "web", "broken"),
                        false);
  EXPECT_FALSE(StartStatus(Config()).ok());
  EXPECT_THAT(node_.allocation_calls,
              ElementsAre("mount cni-a1 web", "unmount cni-a1 web"));
}

TEST_F(NomadPlugin, RefusesATaskByTheFieldsName) {
  plugin();
  const auto text = [&](const wire::TaskConfig& task) {
    return StartStatus(task).error_message();
  };
  wire::TaskConfig task = Config();
  task.set_msgpack_driver_config(Msgpack({{"command", {"x"}}}));
  EXPECT_THAT(text(task), HasSubstr("image"));
  task.set_msgpack_driver_config("\xc1");
  EXPECT_THAT(text(task), HasSubstr("msgpack"));
  task.set_msgpack_driver_config(std::string(5000, '\x91'));
  EXPECT_THAT(text(task), HasSubstr("msgpack"));
  task = Config();
  task.add_mounts()->set_propagation_mode("bidirectional");
  EXPECT_THAT(text(task), HasSubstr("bidirectional"));
  task = Config();
  task.set_name("../web");
  EXPECT_THAT(text(task), HasSubstr("name"));
  task = Config();
  task.set_alloc_dir("alloc");
  EXPECT_THAT(text(task), HasSubstr("alloc_dir"));
}

// CVE-2026-14891: Nomad's docker driver gave a task the host's namespaces
// although its configuration forbade privileged tasks.
TEST_F(NomadPlugin, ATaskAsksForNoNamespaceOfTheHostAndNoPrivilege) {
  plugin();
  for (const char* key :
       {"pid_mode", "ipc_mode", "uts_mode", "userns_mode", "cgroupns",
        "network_mode", "privileged", "allow_privileged", "cap_add",
        "security_opt", "volumes", "mounts", "devices", "runtime"}) {
    wire::TaskConfig task = Config();
    task.set_msgpack_driver_config(
        Msgpack({{"image", "dir:" + images_.File("web")}, {key, "host"}}));
    const auto status = StartStatus(task);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << key;
    EXPECT_THAT(status.error_message(), HasSubstr(key));
  }
  EXPECT_TRUE(node_.tasks.calls().empty());
}

// A naive plugin hands the error on, and Nomad takes it for the task's end.
TEST_F(NomadPlugin, AWaitOutlivesItsDriversErrors) {
  Start(Config());
  node_.failing_waits = 3;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back(
        [this] { EXPECT_EQ(Wait("a1/web/0000").result().exit_code(), 9); });
  }
  node_.tasks.End("cni-a1/web", ExitResult{9});
  for (std::thread& waiter : waiters) {
    waiter.join();
  }
}

TEST_F(NomadPlugin, AWaitForAnUnknownTaskEnds) {
  wire::WaitTaskRequest request;
  request.set_task_id("none");
  wire::WaitTaskResponse response;
  EXPECT_EQ(
      Call(&wire::Driver::Stub::WaitTask, request, &response).error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(NomadPlugin, ACancelledWaitLeavesTheTask) {
  Start(Config());
  grpc::ClientContext context;
  std::thread canceller([&context] { context.TryCancel(); });
  wire::WaitTaskRequest request;
  request.set_task_id("a1/web/0000");
  wire::WaitTaskResponse response;
  EXPECT_EQ(plugin().stub().WaitTask(&context, request, &response).error_code(),
            grpc::StatusCode::CANCELLED);
  canceller.join();
  EXPECT_EQ(node_.tasks.running("cni-a1/web"), 1U);
}

TEST_F(NomadPlugin, TheEndOfThePluginTouchesNoTask) {
  Start(Config());
  plugin_.reset();
  EXPECT_EQ(node_.tasks.running("cni-a1/web"), 1U);
  EXPECT_THAT(node_.tasks.calls(), ElementsAre("start cni-a1/web"));
}

TEST_F(NomadPlugin, TellsWhyThereIsNoDriverAndThatThereIsOneLater) {
  node_.failing_makes = 1;
  plugin();
  grpc::ClientContext context;
  const auto stream = plugin().stub().Fingerprint(&context, {});
  wire::FingerprintResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.health(), wire::FingerprintResponse::UNHEALTHY);
  EXPECT_THAT(response.health_description(), HasSubstr("mountd"));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.health(), wire::FingerprintResponse::HEALTHY);
  EXPECT_TRUE(response.attributes().at("driver.mountd.cgroup").bool_val());
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(NomadPlugin, KeepsTheStreamOfEventsOpen) {
  grpc::ClientContext context;
  const auto stream = plugin().stub().TaskEvents(&context, {});
  context.TryCancel();
  wire::DriverTaskEvent event;
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(NomadPlugin, StreamsStatistics) {
  Start(Config());
  grpc::ClientContext context;
  wire::TaskStatsRequest request;
  request.set_task_id("a1/web/0000");
  request.mutable_collection_interval()->set_seconds(1);
  const auto stream = plugin().stub().TaskStats(&context, request);
  wire::TaskStatsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.stats().id(), "a1/web/0000");
  const auto& usage = response.stats().agg_resource_usage();
  EXPECT_EQ(usage.memory().usage(), 3U << 20U);
  EXPECT_THAT(usage.memory().measured_fields(),
              ElementsAre(wire::MemoryUsage::USAGE));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(NomadPlugin, RunsACommandToItsEnd) {
  Start(Config());
  wire::ExecTaskRequest request;
  request.set_task_id("a1/web/0000");
  request.add_command("date");
  request.mutable_timeout()->set_seconds(2);
  wire::ExecTaskResponse response;
  ASSERT_TRUE(Call(&wire::Driver::Stub::ExecTask, request, &response).ok());
  EXPECT_EQ(response.stdout(), "2000");
  EXPECT_EQ(response.stderr(), "err");
  EXPECT_EQ(response.result().exit_code(), 7);
  request.set_command(0, "late");
  EXPECT_EQ(
      Call(&wire::Driver::Stub::ExecTask, request, &response).error_code(),
      grpc::StatusCode::DEADLINE_EXCEEDED);
}

// Nomad's client sends heartbeats and sizes, and never ends its messages.
TEST_F(NomadPlugin, StreamsACommandWithHeartbeatsAndSizes) {
  Start(Config());
  grpc::ClientContext context;
  const auto stream = plugin().stub().ExecTaskStreaming(&context);
  wire::ExecTaskStreamingRequest request;
  request.mutable_setup()->set_task_id("a1/web/0000");
  request.mutable_setup()->add_command("sizes");
  request.mutable_setup()->add_command("1");
  request.mutable_setup()->set_tty(true);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Write({}));
  request.Clear();
  request.mutable_tty_size()->set_height(40);
  request.mutable_tty_size()->set_width(100'000);
  ASSERT_TRUE(stream->Write(request));
  std::string output;
  std::vector<std::string> order;
  wire::ExecTaskStreamingResponse response;
  while (stream->Read(&response)) {
    output += response.stdout().data();
    if (response.stdout().close() || response.stderr().close()) {
      order.emplace_back("close");
    }
    if (response.exited()) {
      order.emplace_back("exited");
      EXPECT_TRUE(response.has_result());
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(output, "sizes 1 with a terminal\n40x65535\n");
  EXPECT_THAT(order, ElementsAre("close", "close", "exited"));
}

TEST_F(NomadPlugin, AnExecWithoutItsSetupIsRefused) {
  grpc::ClientContext context;
  const auto stream = plugin().stub().ExecTaskStreaming(&context);
  ASSERT_TRUE(stream->Write({}));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(NomadPlugin, AnExecOfAnUnknownTaskTellsWhy) {
  grpc::ClientContext context;
  const auto stream = plugin().stub().ExecTaskStreaming(&context);
  wire::ExecTaskStreamingRequest request;
  request.mutable_setup()->set_task_id("none");
  request.mutable_setup()->add_command("sh");
  ASSERT_TRUE(stream->Write(request));
  wire::ExecTaskStreamingResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace mountd::nomad
