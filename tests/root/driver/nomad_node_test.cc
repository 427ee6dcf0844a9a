// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-nomad-driver as a Nomad client without root uses it: with a whole
// mountd and real containers.
#include <fcntl.h>
#include <nomad_base.grpc.pb.h>
#include <nomad_drivers.grpc.pb.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/client.h"
#include "mountd/base/unique_fd.h"
#include "tests/agent/nomad/plugin_process.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/net_probe.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/nomad_chain.h"

namespace mountd::testing {
namespace {

namespace base = hashicorp::nomad::plugins::base::proto;
namespace fs = std::filesystem;
namespace wire = hashicorp::nomad::plugins::drivers::proto;

constexpr char kImages[] = "/run/images";
constexpr char kImage[] = "/run/images/web";
constexpr char kAlloc[] = "/run/agent/alloc/a1";
constexpr char kTask[] = "a1/app/0000";
constexpr char kPlugins[] = "/run/nomad/cni";
// Answers each connection to port 80.
constexpr char kServer[] =
    "exec perl -MIO::Socket -e '$s = IO::Socket::INET->new(LocalPort => 80, "
    "Listen => 9) or die; while ($c = $s->accept) { print $c \"hello\"; "
    "close $c }'";
constexpr char kCgroups[] = "/sys/fs/cgroup";
constexpr char kConfig[] = R"(
[network.default]
ipv4 = "10.88.0.0/24"
[[rule]]
users = ["agent"]
networks = ["*"]
host_ports = ["8000-8999"]
cgroups = ["CGROUP"]
)";

std::string Msgpack(const nlohmann::json& values) {
  const auto bytes = nlohmann::json::to_msgpack(values);
  return {bytes.begin(), bytes.end()};
}

// The configuration grants the client's user a cgroup.
std::string ConfigFor(const std::string& cgroup) {
  std::string text = kConfig;
  return text.replace(text.find("CGROUP"), 6, cgroup);
}

// A Nomad client's side of one process of the plugin.
class Host {
 public:
  explicit Host(const std::string& cgroup)
      : base_(base::BasePlugin::NewStub(process_.Connect())),
        driver_(wire::Driver::NewStub(process_.Connect())) {
    base::SetConfigRequest request;
    request.set_msgpack_config(
        Msgpack({{"image_directories", nlohmann::json::array({kImages})},
                 {"state", "/run/agent/state"},
                 {"cgroup", kCgroups + cgroup},
                 {"shim", MOUNTD_TASK_SHIM}}));
    grpc::ClientContext context;
    base::SetConfigResponse response;
    const auto status = base_->SetConfig(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  template <typename Request, typename Response>
  Response Call(grpc::Status (wire::Driver::Stub::*method)(grpc::ClientContext*,
                                                           const Request&,
                                                           Response*),
                const Request& request) {
    grpc::ClientContext context;
    Response response;
    const auto status = ((*driver_).*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  wire::Driver::Stub& driver() { return *driver_; }
  void Kill() {
    process_.Signal(SIGKILL);
    process_.Wait();
  }

 private:
  nomad::testing::PluginProcess process_;
  std::unique_ptr<base::BasePlugin::Stub> base_;
  std::unique_ptr<wire::Driver::Stub> driver_;
};

class NomadNode : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* program : {"/usr/bin/crun", "/usr/bin/newuidmap"}) {
      if (::access(program, X_OK) != 0) {
        GTEST_SKIP() << program << " is not installed";
      }
    }
    // crun refuses a machine that has both versions of cgroups in one tree.
    while (::umount2(kCgroups, MNT_DETACH) == 0) {
    }
    ASSERT_EQ(::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr), 0);
    ASSERT_NO_FATAL_FAILURE(MakeCgroup());
    for (const char* made : {"usr", "proc", "sys", "dev", "etc", "tmp"}) {
      fs::create_directories(std::string(kImage) + "/" + made);
    }
    for (const char* name : {"bin", "lib", "lib64"}) {
      fs::create_symlink(std::string("usr/") + name,
                         std::string(kImage) + "/" + name);
    }
    NomadChain::Install(MOUNTD_CNI, kPlugins);
    fs::create_directories("/run/agent");
    ASSERT_EQ(::chown("/run/agent", kAgentUid, kAgentUid), 0);
    ASSERT_EQ(::chmod("/run/agent", 0755), 0);
    ASSERT_NO_FATAL_FAILURE(StartNode(ConfigFor(cgroup_)));
    for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
      std::ofstream(file) << "agent:200000:65536\n";
    }
  }

  void TearDown() override {
    if (!cgroup_.empty()) {
      const std::string top = kCgroups + cgroup_;
      std::ofstream(top + "/cgroup.kill") << "1" << std::flush;
      for (const char* leaf : {"/agent", "/shims", ""}) {
        EXPECT_TRUE(Eventually([&] {
          return ::rmdir((top + leaf).c_str()) == 0 || errno == ENOENT;
        })) << leaf;
      }
    }
    NodeFixture::TearDown();
  }

  // Gives the client's user a cgroup, as systemd's Delegate= does.
  void MakeCgroup() {
    cgroup_ = "/mountd-nomad-" + std::to_string(::getpid());
    const std::string top = kCgroups + cgroup_;
    ASSERT_EQ(::mkdir(top.c_str(), 0755), 0);
    for (const char* file :
         {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
      ASSERT_EQ(::chown((top + file).c_str(), kAgentUid, kAgentUid), 0);
    }
  }

  // Runs `body` as the client's user, in a child. The child's assertions count.
  void AsAgent(const std::function<void()>& body) const {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      std::ofstream(kCgroups + cgroup_ + "/cgroup.procs") << "0" << std::flush;
      ::syscall(SYS_setgroups, 0, nullptr);
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      ::prctl(PR_SET_DUMPABLE, 1);
      body();
      std::fflush(stdout);
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "the child's assertions failed";
  }

  // The allocation's directory with the FIFOs of its logs, as a client makes
  // it.
  static wire::TaskConfig MakeTask(const std::string& script) {
    const std::string alloc = kAlloc;
    for (const char* made : {"/alloc/logs", "/app/local", "/app/secrets"}) {
      fs::create_directories(alloc + made);
    }
    wire::TaskConfig task;
    task.set_id(kTask);
    task.set_name("app");
    task.set_alloc_id("a1");
    task.set_alloc_dir(alloc);
    task.set_stdout_path(alloc + "/alloc/logs/.app.stdout.fifo");
    task.set_stderr_path(alloc + "/alloc/logs/.app.stderr.fifo");
    EXPECT_EQ(::mkfifo(task.stdout_path().c_str(), 0600), 0);
    EXPECT_EQ(::mkfifo(task.stderr_path().c_str(), 0600), 0);
    (*task.mutable_env())["NOMAD_ALLOC_DIR"] = "/alloc";
    task.set_msgpack_driver_config(
        Msgpack({{"image", std::string("dir:") + kImage},
                 {"command", {"/bin/sh", "-c", script}}}));
    auto* mount = task.add_mounts();
    mount->set_task_path("/usr");
    mount->set_host_path("/usr");
    mount->set_readonly(true);
    return task;
  }

  // Runs a command with a stream that the client never ends.
  static std::string Exec(Host& host, const std::string& script) {
    grpc::ClientContext context;
    const auto stream = host.driver().ExecTaskStreaming(&context);
    wire::ExecTaskStreamingRequest request;
    request.mutable_setup()->set_task_id(kTask);
    for (const char* word : {"/bin/sh", "-c"}) {
      request.mutable_setup()->add_command(word);
    }
    request.mutable_setup()->add_command(script);
    stream->Write(request);
    std::string output;
    wire::ExecTaskStreamingResponse response;
    while (stream->Read(&response)) {
      output += response.stdout().data() + response.stderr().data();
      if (response.exited()) {
        output += "exit " + std::to_string(response.result().exit_code());
      }
    }
    const auto status = stream->Finish();
    return output + (status.ok() ? "" : status.error_message());
  }

  std::string cgroup_;  // beneath kCgroups
};

TEST_F(NomadNode, ATaskLivesFromItsNetworkToItsRelease) {
  AsAgent([this] {
    auto host = std::make_unique<Host>(cgroup_);
    wire::CreateNetworkRequest create;
    create.set_alloc_id("a1");
    create.set_hostname("web-1");
    const auto network = host->Call(&wire::Driver::Stub::CreateNetwork, create);
    EXPECT_TRUE(network.created());
    EXPECT_TRUE(fs::exists(network.isolation_spec().path()));
    EXPECT_FALSE(
        host->Call(&wire::Driver::Stub::CreateNetwork, create).created());

    wire::StartTaskRequest start;
    *start.mutable_task() = MakeTask(
        "echo in $NOMAD_ALLOC_DIR on $(hostname); trap 'exit 7' TERM; "
        "while :; do sleep 0.1; done");
    *start.mutable_task()->mutable_network_isolation_spec() =
        network.isolation_spec();
    // With an end to write to, so that a read waits for the task's line.
    const UniqueFd reader(
        ::open(start.task().stdout_path().c_str(), O_RDWR | O_CLOEXEC));
    const auto started = host->Call(&wire::Driver::Stub::StartTask, start);
    ASSERT_FALSE(HasFailure());
    std::array<char, 64> text{};
    const ssize_t got = ::read(reader.get(), text.data(), text.size());
    EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(got)),
              "in /alloc on web-1\n");
    EXPECT_EQ(Exec(*host, "ls /sys/class/net; exit 3"), "lo\nexit 3");

    // A client starts another plugin after the end of this one.
    host->Kill();
    host = std::make_unique<Host>(cgroup_);
    wire::RecoverTaskRequest recover;
    *recover.mutable_handle() = started.handle();
    host->Call(&wire::Driver::Stub::RecoverTask, recover);
    EXPECT_EQ(Exec(*host, "echo there"), "there\nexit 0");

    wire::StopTaskRequest stop;
    stop.set_task_id(kTask);
    stop.mutable_timeout()->set_seconds(1000);
    host->Call(&wire::Driver::Stub::StopTask, stop);
    wire::WaitTaskRequest wait;
    wait.set_task_id(kTask);
    EXPECT_EQ(
        host->Call(&wire::Driver::Stub::WaitTask, wait).result().exit_code(),
        7);
    wire::DestroyTaskRequest destroy;
    destroy.set_task_id(kTask);
    host->Call(&wire::Driver::Stub::DestroyTask, destroy);
    EXPECT_TRUE(fs::is_empty("/run/agent/state/tasks"));

    wire::DestroyNetworkRequest end;
    end.set_alloc_id("a1");
    *end.mutable_isolation_spec() = network.isolation_spec();
    host->Call(&wire::Driver::Stub::DestroyNetwork, end);
    host->Call(&wire::Driver::Stub::DestroyNetwork, end);
    EXPECT_FALSE(fs::exists(network.isolation_spec().path()));
    auto client = agent::Client::Connect();
    ASSERT_THAT(client, IsOk());
    EXPECT_THAT(client->GetAllocation("cni-a1"), IsErr(Code::kNotFound));
    EXPECT_THAT(client->GetReceipt("cni-a1"), IsOk());
  });
}

// A client runs the chain between CreateNetwork and StartTask, and ends the
// network after the task.
TEST_F(NomadNode, ATaskInABridgeHasPortsOfTheHost) {
  AsAgent([this] {
    Host host(cgroup_);
    wire::CreateNetworkRequest create;
    create.set_alloc_id("a1");
    const auto network = host.Call(&wire::Driver::Stub::CreateNetwork, create);
    NomadChain chain(kPlugins, "/run/agent", "a1");
    chain.set_netns(network.isolation_spec().path());
    const PluginAnswer added = chain.AddAll();
    ASSERT_EQ(added.status, 0) << added.json << added.err;

    wire::StartTaskRequest start;
    *start.mutable_task() = MakeTask(kServer);
    *start.mutable_task()->mutable_network_isolation_spec() =
        network.isolation_spec();
    const UniqueFd reader(
        ::open(start.task().stdout_path().c_str(), O_RDWR | O_CLOEXEC));
    host.Call(&wire::Driver::Stub::StartTask, start);
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(Exec(host, "ls /sys/class/net"), "eth0\nlo\nexit 0");
    EXPECT_TRUE(Eventually([] { return Ask("127.0.0.1", 8080) == "hello"; }));
    EXPECT_EQ(chain.CheckAll(), "");

    wire::StopTaskRequest stop;
    stop.set_task_id(kTask);
    stop.set_signal("SIGKILL");
    stop.mutable_timeout()->set_seconds(1000);
    host.Call(&wire::Driver::Stub::StopTask, stop);
    wire::DestroyTaskRequest destroy;
    destroy.set_task_id(kTask);
    host.Call(&wire::Driver::Stub::DestroyTask, destroy);
    EXPECT_EQ(chain.DelAll(), "");
    auto client = agent::Client::Connect();
    ASSERT_THAT(client, IsOk());
    EXPECT_THAT(client->GetAllocation("cni-a1"), IsOk()) << "the driver's";
    wire::DestroyNetworkRequest end;
    end.set_alloc_id("a1");
    *end.mutable_isolation_spec() = network.isolation_spec();
    host.Call(&wire::Driver::Stub::DestroyNetwork, end);
    EXPECT_THAT(client->GetAllocation("cni-a1"), IsErr(Code::kNotFound));
    // A client that has lost its state repeats the DEL.
    EXPECT_EQ(chain.DelAll(), "");
  });
}

// Such a task has no allocation at mountd, and mounts that the runtime binds.
TEST_F(NomadNode, ATaskNeedsNoNetworkOfItsOwn) {
  AsAgent([this] {
    Host host(cgroup_);
    wire::StartTaskRequest start;
    *start.mutable_task() = MakeTask("exec sleep 1000");
    host.Call(&wire::Driver::Stub::StartTask, start);
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(Exec(host, "echo there"), "there\nexit 0");
    auto client = agent::Client::Connect();
    ASSERT_THAT(client, IsOk());
    EXPECT_THAT(client->GetAllocation("cni-a1"), IsErr(Code::kNotFound));
    wire::DestroyTaskRequest destroy;
    destroy.set_task_id(kTask);
    destroy.set_force(true);
    host.Call(&wire::Driver::Stub::DestroyTask, destroy);
    EXPECT_TRUE(fs::is_empty("/run/agent/state/tasks"));
  });
}

TEST_F(NomadNode, TellsHowTheNodeIs) {
  AsAgent([this] {
    Host host(cgroup_);
    grpc::ClientContext context;
    const auto stream = host.driver().Fingerprint(&context, {});
    wire::FingerprintResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.health(), wire::FingerprintResponse::HEALTHY)
        << response.health_description();
    EXPECT_EQ(response.attributes().count("driver.mountd.mountd.version"), 1U);
    const auto capabilities = host.Call(&wire::Driver::Stub::Capabilities,
                                        wire::CapabilitiesRequest());
    EXPECT_TRUE(capabilities.capabilities().must_create_network());
    // The client itself reads the FIFOs of tasks only without this one.
    EXPECT_FALSE(capabilities.capabilities().disable_log_collection());
    context.TryCancel();
  });
}

}  // namespace
}  // namespace mountd::testing
