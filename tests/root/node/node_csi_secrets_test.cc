// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The places where a secret or a mount flag could be found.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/paths.h"
#include "tests/root/node/node_csi_fixture.h"
#include "tests/support/bus_client.h"
#include "tests/support/servers/private_bus.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// True if a sanitizer's shadow of the memory makes that terabytes large.
#ifdef MOUNTD_SANITIZED
constexpr bool kHasShadow = true;
#else
constexpr bool kHasShadow = false;
#endif

constexpr char kCanary[] = "canary-5f0e7b21d4";
constexpr char kSecret[] = "canary-5f0e7b21d4-secret";
constexpr char kFlag[] = "canary-5f0e7b21d4-flag";
constexpr char kProperties[] = "org.freedesktop.DBus.Properties";

std::string TextOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// True if the text is in any file below the directory.
bool IsInFiles(const std::string& directory, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)),
                              std::istreambuf_iterator<char>());
    if (content.find(text) != std::string::npos) {
      ADD_FAILURE() << entry.path();
      return true;
    }
  }
  return false;
}

pid_t PidOf(const UniqueFd& pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("Pid:")) {
      return std::stoi(line.substr(4));
    }
  }
  return -1;
}

// Returns the bytes around the text in this part of a process's memory, "" if
// the text is not there. Reads chunks that overlap, because reserved memory is
// larger than the memory in use.
std::string FindInRange(int memory, unsigned long begin, unsigned long end,
                        const std::string& text) {
  constexpr std::size_t kChunk = std::size_t{1} << 20U;
  constexpr std::size_t kAround = 256;
  std::string chunk(kChunk, '\0');
  for (unsigned long at = begin; at < end; at += kChunk - text.size()) {
    const ssize_t got =
        ::pread(memory, chunk.data(), std::min<std::size_t>(kChunk, end - at),
                static_cast<off_t>(at));
    if (got <= 0) {
      return "";
    }
    const std::string_view part(chunk.data(), static_cast<std::size_t>(got));
    const std::size_t found = part.find(text);
    if (found != std::string_view::npos) {
      return std::string(
          part.substr(found - std::min(found, kAround), 2 * kAround));
    }
    if (end - at <= kChunk) {
      return "";
    }
  }
  return "";
}

// Returns where the text is in a process's writable memory, which a core dump
// would hold, and the bytes around it; "" if it is nowhere.
std::string FindInMemory(pid_t pid, const std::string& text) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream maps(process + "/maps");
  const UniqueFd memory(
      ::open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(memory.valid());
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0;
    unsigned long end = 0;
    std::array<char, 5> mode{};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode.data()) !=
            3 ||
        mode[1] != 'w') {
      continue;
    }
    const std::string found = FindInRange(memory.get(), begin, end, text);
    if (!found.empty()) {
      return line + ": " + ::testing::PrintToString(found);
    }
  }
  return "";
}

// Runs mountd on the bus, too, where root asks for all that mountd logs.
class NodeCsiSecrets : public NodeCsi {
 protected:
  void BeforeStart() override {
    fs::create_directories(kBusDirectory);
    bus_ = std::make_unique<test::PrivateBus>(kBusDirectory);
  }
  void TearDown() override {
    clients_.clear();
    NodeCsi::TearDown();
    bus_.reset();
  }

  // Connects the agent and root, on the socket and on the bus.
  void ConnectAll() {
    for (const uid_t uid : {kAgentUid, uid_t{0}}) {
      for (const bool on_the_bus : {false, true}) {
        auto client = test::BusClient::Connect(
            {on_the_bus ? bus_->address()
                        : "unix:path=" + std::string(paths::kBusSocket),
             on_the_bus, uid});
        ASSERT_NE(client, nullptr) << uid << on_the_bus;
        const auto subscribed = client->Call("Subscribe", "a{sv}", 0);
        ASSERT_TRUE(subscribed.ok()) << subscribed.message;
        clients_.push_back(std::move(client));
      }
    }
    const auto level = clients_.back()->CallOn(
        "/org/freedesktop/LogControl1", kProperties, "Set", "ssv",
        "org.freedesktop.LogControl1", "LogLevel", "s", "debug");
    ASSERT_TRUE(level.ok()) << level.message;
  }
  // Returns all signals and all answers of the lists.
  std::string AllThatIsTold() {
    std::string text;
    for (const auto& client : clients_) {
      for (const char* method :
           {"ListVolumes", "ListAllocations", "ListOwed", "ListOperations",
            "ListPlugins", "ListHostVolumes", "ListFilesystems",
            "ListNetworks"}) {
        text += client->Call(method, "a{sv}", 0).text;
      }
      text += client->Call("GetStatistics", "a{sv}", 0).text;
      text += client->Call("GetAllocation", "sa{sv}", "web", 0).text;
      const auto objects =
          client->CallOn("/org/mountd1", "org.freedesktop.DBus.ObjectManager",
                         "GetManagedObjects", "");
      text += objects.text;
      for (const char* path : {"/", "/org", "/org/mountd1"}) {
        text += client
                    ->CallOn(path, "org.freedesktop.DBus.Introspectable",
                             "Introspect", "")
                    .text;
      }
      text += client
                  ->CallOn("/org/mountd1", kProperties, "GetAll", "s",
                           "org.mountd1.Manager")
                  .text;
      client->Fence();
      for (const test::Signal& signal : client->signals()) {
        text += signal.member + signal.text + "\n";
      }
    }
    return text;
  }
  // Returns where a daemon has the secret in its memory; "" if none has it.
  static std::string FindInDaemons(const std::string& secret) {
    for (const char* name :
         {"mountd", "mountd-exec", "mountd-csi", "mountd-closer"}) {
      for (const UniqueFd& process : Node::Processes(name)) {
        const std::string found =
            kHasShadow ? "" : FindInMemory(PidOf(process), secret);
        if (!found.empty()) {
          return name + (": " + found);
        }
      }
    }
    return "";
  }
  void ExpectNotToldByProc() {
    for (const char* name : {"mountd", "mountd-exec", "mountd-csi"}) {
      const std::vector<UniqueFd> processes = Node::Processes(name);
      EXPECT_FALSE(processes.empty()) << name;
      for (const UniqueFd& process : processes) {
        const std::string proc = "/proc/" + std::to_string(PidOf(process));
        for (const char* file : {"/cmdline", "/environ"}) {
          EXPECT_EQ(TextOf(proc + file).find(kCanary), std::string::npos)
              << proc << file;
        }
        // The /proc files of a process that is not dumpable belong to root,
        // whatever its user (proc(5)).
        struct stat memory = {};
        ASSERT_EQ(::stat((proc + "/mem").c_str(), &memory), 0);
        EXPECT_EQ(memory.st_uid, 0U) << name;
        // Mount flags come to mountd in a message, but mountd has no core
        // dumps.
        EXPECT_NE(TextOf(proc + "/limits").find("Max core file size        0 "),
                  std::string::npos)
            << name;
      }
    }
  }
  agent::VolumeSpec Spec() const {
    agent::VolumeSpec spec = Volume();
    spec.secrets = {{"password", kSecret}};
    spec.usage.mount_flags = {kFlag};
    return spec;
  }
  // Returns the errors of publishing while the plugin does each of these.
  std::string FailToPublish(const std::vector<std::string>& actions) {
    std::string texts;
    for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
      for (const std::string& action : actions) {
        Tell(rpc, action);
        const auto published = client_->PublishVolume("web", Spec());
        EXPECT_FALSE(published) << rpc << action;
        texts += MessageOf(published) + "\n";
      }
    }
    Tell("", "");
    return texts;
  }
  // Publishes with a patience of 1 ms, so that the answer comes as a signal.
  void PublishWithoutPatience(test::BusClient& client) {
    Tell("NodeStageVolume", "echo-late 3");
    const auto answer =
        client.Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "data",
                    "v", "fault", 1, "mount_flags", "as", 1, kFlag, 0, 0, 1,
                    "patience_ms", "u", 1U);
    EXPECT_EQ(answer.error, "org.mountd1.Error.InProgress") << answer.message;
    const std::string done = client.AwaitSignal("OperationDone").text;
    EXPECT_NE(done.find("cannot log in with [REDACTED]"), std::string::npos)
        << done;
    EXPECT_EQ(done.find(kCanary), std::string::npos) << done;
    Tell("", "");
  }

  std::unique_ptr<test::PrivateBus> bus_;
  std::vector<std::unique_ptr<test::BusClient>> clients_;
};

TEST_F(NodeCsiSecrets, ASecretIsFoundNowhere) {
  ASSERT_NO_FATAL_FAILURE(ConnectAll());
  std::string texts = FailToPublish({"code 3", "code 14"});
  ASSERT_EQ(MessageOf(client_->PublishVolume("web", Spec())), "Ok");
  agent::VolumeSpec other = Spec();
  other.usage.mount_flags = {std::string(kFlag) + "2"};
  texts += MessageOf(client_->PublishVolume("web", other));
  texts += AllThatIsTold();
  const std::string log = node_->Log();
  EXPECT_NE(log.find("debug: "), std::string::npos) << log;
  texts += log;
  EXPECT_EQ(texts.find(kCanary), std::string::npos) << texts;
  EXPECT_FALSE(IsInFiles("/var/lib", kCanary));
  EXPECT_FALSE(IsInFiles("/run/mountd/state", kCanary));
  ExpectNotToldByProc();
  // mountd-csi had to pass the secret on, and has overwritten it by now. The
  // plugin quotes no secret in this test, because gRPC would keep such a text
  // in buffers and on stacks.
  EXPECT_EQ(FindInDaemons(kSecret), "");
  ExpectReleased();
}

TEST_F(NodeCsiSecrets, APluginThatQuotesASecretTellsItToNobody) {
  ASSERT_NO_FATAL_FAILURE(ConnectAll());
  std::string texts = FailToPublish({"echo 3", "echo 14"});
  // The plugin's text arrives without the secrets that it quotes.
  EXPECT_NE(texts.find("cannot log in with password=[REDACTED] [REDACTED]"),
            std::string::npos)
      << texts;
  EXPECT_TRUE(Eventually([this] { return Unpublish() == "Ok"; }));
  for (const auto* client : {&clients_[0], &clients_[1]}) {  // the agent's
    PublishWithoutPatience(**client);
    EXPECT_TRUE(Eventually([this] { return Unpublish() == "Ok"; }));
  }
  agent::VolumeCreation creation;
  creation.plugin = "fault";
  creation.name = "created";
  creation.secrets = {{"password", kSecret}};
  Tell("CreateVolume", "echo 13");
  const auto created = client_->CreateVolume(creation);
  EXPECT_NE(MessageOf(created).find("password=[REDACTED]"), std::string::npos);
  Tell("", "");
  texts += MessageOf(created) + AllThatIsTold() + node_->Log();
  EXPECT_EQ(texts.find(kCanary), std::string::npos) << texts;
  EXPECT_FALSE(IsInFiles("/var/lib", kCanary));
  EXPECT_FALSE(IsInFiles("/run/mountd/state", kCanary));
  ExpectReleased();
}

}  // namespace
}  // namespace mountd::testing
