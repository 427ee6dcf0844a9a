// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A whole mountd, as an unprivileged agent sees it, with a real CSI plugin that
// fails as it is told: for each call and fault what the caller is told, what is
// recorded, and that a retry or the release ends with nothing left.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/csi/process.h"
#include "tests/support/eventually.h"
#include "tests/support/node.h"
#include "tests/support/outcome.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kFaults[] = "/run/host/fault";
constexpr char kPluginDirectory[] = "/run/mountd/base/p/fault";
constexpr char kCanary[] = "canary-5f0e7b21d4";

// One try of each call, so that each fault is seen; the next is a new call's.
constexpr char kConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
plugins = ["*"]
register_plugins = ["*"]
[limits]
operations_per_uid = 512
peers_per_uid = 256
rpcs_per_plugin = 50
[timeouts]
rpc_ms = 700
rpc_retries_ms = 1
probe_starting_ms = 50
probe_timeout_ms = 700
)";

class NodeCsi : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::create_directories("/run/host/a");
    fs::create_directories(kFaults);
    StartNode(kConfig);
  }
  void TearDown() override {
    client_.reset();
    plugin_ = Process();
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    PrivateNamespaces::TearDown();
  }

  void StartNode(const std::string& config) {
    auto node = Node::Start(config);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    auto client = node_->Connect();
    ASSERT_TRUE(client) << client.error().Message();
    client_.emplace(*std::move(client));
    const auto registered = client_->RegisterPlugin({.plugin = "fault"});
    ASSERT_EQ(MessageOf(registered), "Ok");
    StartPlugin();
    ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
  }
  void StartPlugin() {
    const std::string socket = std::string(kPluginDirectory) + "/csi.sock";
    fs::remove(socket);
    plugin_ = Process({FAULT_PLUGIN, socket, kFaults});
    ASSERT_TRUE(AwaitPlugin("healthy"));
  }
  bool AwaitPlugin(const std::string& state) {
    return Eventually([&] {
      const auto plugin = client_->GetPlugin("fault");
      return plugin && plugin->state == state;
    });
  }
  // A fault is of the next call of that RPC, and of no other.
  void Tell(const std::string& rpc, const std::string& action) {
    fs::remove(std::string(kFaults) + "/faults");
    if (!action.empty()) {
      std::ofstream(std::string(kFaults) + "/faults")
          << rpc << " * " << action << "\n";
    }
  }

  static agent::VolumeSpec Volume(const std::string& id = "v") {
    agent::VolumeSpec spec;
    spec.alias = "data";
    spec.volume = id;
    spec.plugin = "fault";
    return spec;
  }
  std::string Publish() {
    return Outcome(client_->PublishVolume("web", Volume()));
  }
  std::string Unpublish() {
    return Outcome(client_->UnpublishVolume("web", "data"));
  }
  // "<volume's state> <publication's>", "" of what is not recorded.
  std::string Recorded() {
    const auto volumes = client_->ListVolumes();
    const auto allocation = client_->GetAllocation("web");
    if (!volumes || !allocation) {
      return "?";
    }
    return (volumes->empty() ? "" : volumes->front().state) + " " +
           (allocation->volumes.empty() ? ""
                                        : allocation->volumes.front().state);
  }
  bool NothingIsLeft() {
    const auto owed = client_->ListOwed();
    return Recorded() == " " && owed && owed->empty() &&
           MountPointsUnder(kPluginDirectory).size() == 1;
  }
  // Whatever happened: the same call goes on, and the release ends it.
  void ExpectAGoodEnd() {
    Tell("", "");
    EXPECT_TRUE(Eventually([&] { return Publish() == "Ok"; })) << Recorded();
    EXPECT_EQ(Recorded(), "staged published");
    ExpectReleased();
  }
  void ExpectReleased() {
    EXPECT_TRUE(Eventually([&] { return Unpublish() == "Ok"; })) << Recorded();
    EXPECT_TRUE(Eventually([&] { return NothingIsLeft(); })) << Recorded();
  }

  std::unique_ptr<Node> node_;
  std::optional<agent::Client> client_;
  Process plugin_;
};

// gRPC's codes, and what a caller is told of them.
struct CodeRow {
  int code;
  const char* told;
  bool final;
};
constexpr CodeRow kCodes[] = {
    {1, "Unavailable", false},       {2, "Internal", false},
    {3, "InvalidArgument", true},    {4, "DeadlineExceeded", false},
    {5, "NotFound", true},           {6, "AlreadyExists", true},
    {7, "PermissionDenied", true},   {8, "ResourceExhausted", false},
    {9, "FailedPrecondition", true}, {10, "Aborted", false},
    {11, "InvalidArgument", true},   {12, "NotSupported", true},
    {13, "Internal", true},          {14, "Unavailable", false},
    {15, "Internal", false},         {16, "PermissionDenied", true},
};

TEST_F(NodeCsi, EachCodeOnTheWayUp) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    const bool stage = std::strcmp(rpc, "NodeStageVolume") == 0;
    for (const char* action : {"code ", "code-after "}) {
      for (const CodeRow& row : kCodes) {
        SCOPED_TRACE(std::string(rpc) + " " + action +
                     std::to_string(row.code));
        Tell(rpc, action + std::to_string(row.code));
        EXPECT_EQ(Publish(), row.told);
        const bool done = std::strcmp(action, "code-after ") == 0;
        if (!row.final) {
          EXPECT_EQ(Recorded(),
                    stage ? "uncertain uncertain" : "staged uncertain");
        } else if (stage || !done) {
          EXPECT_EQ(Recorded(), " ");
        } else {
          // It said that it failed, and mounted all the same.
          EXPECT_EQ(Recorded(), "staged uncertain");
        }
        ExpectAGoodEnd();
      }
    }
  }
}

TEST_F(NodeCsi, EachCodeOnTheWayDown) {
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    for (const char* action : {"code ", "code-after "}) {
      for (const CodeRow& row : kCodes) {
        SCOPED_TRACE(std::string(rpc) + " " + action +
                     std::to_string(row.code));
        ASSERT_EQ(Publish(), "Ok");
        const bool done = std::strcmp(action, "code-after ") == 0;
        Tell(rpc, action + std::to_string(row.code));
        if (row.code == 5) {
          // It is not there; and a mount that is nevertheless is no success.
          EXPECT_EQ(Unpublish(), done ? "Ok" : "Busy");
        } else {
          EXPECT_EQ(Unpublish(), row.told);
          EXPECT_EQ(Recorded().substr(Recorded().find(' ') + 1),
                    "unpublishing");
          EXPECT_EQ(client_->ListOwed()->size(), 1U);
        }
        Tell("", "");
        ExpectReleased();
      }
    }
  }
}

TEST_F(NodeCsi, OneThatHangsOrDies) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    SCOPED_TRACE(rpc);
    Tell(rpc, "hang");
    EXPECT_EQ(Publish(), "DeadlineExceeded");
    ExpectAGoodEnd();
    for (const char* action : {"die", "die-after"}) {
      SCOPED_TRACE(action);
      Tell(rpc, action);
      EXPECT_EQ(Publish(), "Unavailable");
      Tell("", "");
      StartPlugin();
      ExpectAGoodEnd();
    }
  }
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    SCOPED_TRACE(rpc);
    ASSERT_EQ(Publish(), "Ok");
    Tell(rpc, "hang");
    EXPECT_EQ(Unpublish(), "DeadlineExceeded");
    EXPECT_EQ(client_->ListOwed()->size(), 1U);
    Tell("", "");
    ExpectReleased();
  }
}

TEST_F(NodeCsi, APluginThatDiesFirstKeepsNoAllocation) {
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    for (const char* action : {"die", "die-after"}) {
      SCOPED_TRACE(std::string(rpc) + " " + action);
      ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
      ASSERT_EQ(Publish(), "Ok");
      Tell(rpc, action);
      // Told once mountd knows that the plugin is away: else it is owed, too.
      EXPECT_TRUE(Eventually([&] { return Unpublish() == "Ok"; }));
      const auto receipt = client_->ReleaseAllocation("web");
      ASSERT_EQ(MessageOf(receipt), "Ok");
      ASSERT_EQ(receipt->owed.size(), 1U);
      EXPECT_FALSE(receipt->node_detached);
      ASSERT_EQ(client_->ListOwed()->size(), 1U);
      EXPECT_EQ(client_->ListOwed()->front().kind, "unstage");
      Tell("", "");
      StartPlugin();
      EXPECT_TRUE(Eventually([&] {
        const auto later = client_->GetReceipt("web");
        return later && later->node_detached && later->owed.empty();
      }));
      EXPECT_TRUE(client_->ListOwed()->empty());
      EXPECT_EQ(MountPointsUnder(kPluginDirectory).size(), 1U);
    }
  }
}

TEST_F(NodeCsi, OneThatLies) {
  Tell("NodePublishVolume", "lie");
  EXPECT_EQ(Publish(), "Internal");
  EXPECT_EQ(Recorded(), "staged uncertain");
  ExpectAGoodEnd();
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    SCOPED_TRACE(rpc);
    ASSERT_EQ(Publish(), "Ok");
    Tell(rpc, "lie");
    EXPECT_EQ(Unpublish(), "Busy");
    EXPECT_EQ(client_->ListOwed()->size(), 1U);
    Tell("", "");
    ExpectReleased();
  }
}

TEST_F(NodeCsi, WhatGotNoAnswerIsSettledWithoutItsAgent) {
  Tell("NodePublishVolume", "code-after 14");
  EXPECT_EQ(Publish(), "Unavailable");
  Tell("", "");
  EXPECT_TRUE(Eventually([&] { return Recorded() == "staged published"; }));
  ExpectReleased();
}

TEST_F(NodeCsi, MountdCsisEndOnlyDelays) {
  Tell("NodeStageVolume", "delay 300");
  auto other = node_->Connect();
  ASSERT_TRUE(other) << other.error().Message();
  auto told = std::async(std::launch::async, [&] {
    return Outcome(other->PublishVolume("web", Volume()));
  });
  EXPECT_TRUE(Eventually([&] { return Recorded() == "staging publishing"; }));
  Node::Kill(Node::Processes("mountd-csi"));
  const std::string outcome = told.get();
  EXPECT_TRUE(outcome == "Ok" || outcome == "Unavailable") << outcome;
  ASSERT_TRUE(AwaitPlugin("healthy"));
  ExpectAGoodEnd();
}

// As a FUSE plugin's mounts do; a task's mount of it is swapped for one of what
// is there anew.
TEST_F(NodeCsi, WhatWentWithItsPluginIsPublishedAnew) {
  const auto published = client_->PublishVolume("web", Volume());
  ASSERT_EQ(MessageOf(published), "Ok");
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "data";
  spec.source_type = agent::SourceType::kVolume;
  spec.source = "data";
  ASSERT_EQ(MessageOf(client_->BindMount("web", spec)), "Ok");
  const auto inode_of = [&] {
    struct stat there {};
    return ::stat("/run/mountd/base/a/web/app/data", &there) == 0 ? there.st_ino
                                                                  : 0;
  };
  const ino_t before = inode_of();

  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  const std::string staged = std::string(kPluginDirectory) + "/staging/" +
                             fs::path(published->host_path).filename().string();
  ASSERT_EQ(::umount2(published->host_path.c_str(), MNT_DETACH), 0);
  ASSERT_EQ(::umount2(staged.c_str(), MNT_DETACH), 0);
  // The volume's data is another directory from now on, so that a task's mount
  // of the old one can be told from one of the new.
  fs::rename(std::string(kFaults) + "/data", "/run/host/old");
  StartPlugin();
  EXPECT_TRUE(Eventually([&] {
    return Recorded() == "staged published" &&
           MountPointsUnder(published->host_path).size() == 1;
  })) << Recorded();
  const auto capabilities = client_->GetCapabilities();
  if (capabilities && capabilities->features.at("mount-beneath")) {
    EXPECT_TRUE(Eventually([&] { return inode_of() != before; }));
  }
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "data")), "Ok");
  ExpectReleased();
}

// ---- Secrets ----

// Whether the text is in any file below it.
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

// Whether the text is in this part of a process's memory; in chunks that
// overlap, as reserved memory is larger than what is there.
bool IsInRange(int memory, unsigned long begin, unsigned long end,
               const std::string& text) {
  constexpr std::size_t kChunk = std::size_t{1} << 20U;
  std::string chunk(kChunk, '\0');
  for (unsigned long at = begin; at < end; at += kChunk - text.size()) {
    const ssize_t got =
        ::pread(memory, chunk.data(), std::min<std::size_t>(kChunk, end - at),
                static_cast<off_t>(at));
    if (got <= 0) {
      return false;
    }
    if (std::string_view(chunk.data(), static_cast<std::size_t>(got))
            .find(text) != std::string_view::npos) {
      return true;
    }
    if (end - at <= kChunk) {
      return false;
    }
  }
  return false;
}

// Whether the text is in the writable memory of a process: what a core of it
// would hold.
bool IsInMemory(pid_t pid, const std::string& text) {
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
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode.data()) ==
            3 &&
        mode[1] == 'w' && IsInRange(memory.get(), begin, end, text)) {
      ADD_FAILURE() << process << ": " << line;
      return true;
    }
  }
  return false;
}

TEST_F(NodeCsi, ASecretIsFoundNowhere) {
  const std::string secret = std::string(kCanary) + "-secret";
  const std::string flag = std::string(kCanary) + "-flag";
  agent::VolumeSpec spec = Volume();
  spec.secrets = {{"password", secret}};
  spec.usage.mount_flags = {flag};
  std::string texts;
  for (const char* action : {"code 3", "code 14", ""}) {
    Tell("NodeStageVolume", action);
    const auto published = client_->PublishVolume("web", spec);
    texts += published ? "" : published.error().Message();
  }
  const auto published = client_->PublishVolume("web", spec);
  ASSERT_EQ(MessageOf(published), "Ok");
  spec.usage.mount_flags = {flag + "2"};
  const auto other = client_->PublishVolume("web", spec);
  texts += other ? "" : other.error().Message();
  const auto volumes = client_->ListVolumes();
  ASSERT_TRUE(volumes) << volumes.error().Message();
  for (const agent::StagedVolume& volume : *volumes) {
    texts += volume.plugin + volume.volume + volume.state + volume.fs_type;
  }
  texts += node_->Log();
  EXPECT_EQ(texts.find(kCanary), std::string::npos) << texts;
  EXPECT_FALSE(IsInFiles("/var/lib", kCanary));
  EXPECT_FALSE(IsInFiles("/run/mountd/state", kCanary));
  for (const char* name : {"mountd", "mountd-exec", "mountd-csi"}) {
    for (const UniqueFd& process : Node::Processes(name)) {
      const std::string proc = "/proc/" + std::to_string(PidOf(process));
      for (const char* file : {"/cmdline", "/environ"}) {
        std::ifstream in(proc + file, std::ios::binary);
        const std::string content((std::istreambuf_iterator<char>(in)),
                                  std::istreambuf_iterator<char>());
        EXPECT_EQ(content.find(kCanary), std::string::npos) << proc << file;
      }
    }
  }
  // The secret is the plugin's host's to read; mountd never has it. The flags
  // come to it in a message, but no core of it can be.
  for (const UniqueFd& process : Node::Processes("mountd")) {
    EXPECT_FALSE(IsInMemory(PidOf(process), secret));
    std::ifstream limits("/proc/" + std::to_string(PidOf(process)) + "/limits");
    const std::string text((std::istreambuf_iterator<char>(limits)),
                           std::istreambuf_iterator<char>());
    EXPECT_NE(text.find("Max core file size        0 "), std::string::npos)
        << text;
  }
  ExpectReleased();
}

// ---- Many at once ----

// A plugin that takes its time keeps nobody else waiting.
TEST_F(NodeCsi, TwoHundredVolumesHoldUpNoMount) {
  constexpr int kVolumes = 200;
  for (int i = 0; i < kVolumes; ++i) {
    ASSERT_EQ(Outcome(client_->PrepareAllocation("a" + std::to_string(i))),
              "Ok");
  }
  const auto bind = [&](const std::string& name) {
    const auto begun = Clock::now();
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = name;
    spec.source_type = agent::SourceType::kHostVolume;
    spec.source = "a";
    EXPECT_EQ(Outcome(client_->BindMount("web", spec)), "Ok");
    return std::chrono::duration<double, std::milli>(Clock::now() - begun)
        .count();
  };
  const auto median = [&](const std::string& prefix) {
    std::array<double, 9> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      all.at(i) = bind(prefix + std::to_string(i));
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  };
  const double alone = median("alone");

  Tell("NodePublishVolume", "delay 500");
  const auto begun = Clock::now();
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < kVolumes; ++i) {
    all.push_back(std::async(std::launch::async, [this, i] {
      auto client = node_->Connect();
      return client ? Outcome(client->PublishVolume(
                          "a" + std::to_string(i),
                          Volume("v" + std::to_string(i))))
                    : Outcome(client);
    }));
  }
  EXPECT_TRUE(Eventually([&] {
    const auto volumes = client_->ListVolumes();
    return volumes && volumes->size() == kVolumes;
  }));
  const double beside = median("beside");
  const auto pending = std::count_if(all.begin(), all.end(), [](auto& one) {
    return one.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  });
  EXPECT_GT(pending, 0);
  for (auto& one : all) {
    EXPECT_EQ(one.get(), "Ok");
  }
  std::cerr << kVolumes << " volumes, 50 calls of 500 ms at once: "
            << std::chrono::duration<double>(Clock::now() - begun).count()
            << " s; a mount alone " << alone << " ms, beside them " << beside
            << " ms\n";
  Tell("", "");
  for (int i = 0; i < kVolumes; ++i) {
    EXPECT_EQ(Outcome(client_->ReleaseAllocation("a" + std::to_string(i))),
              "Ok");
  }
  EXPECT_EQ(Outcome(client_->ReleaseAllocation("web")), "Ok");
  EXPECT_TRUE(Eventually([&] {
    const auto volumes = client_->ListVolumes();
    return volumes && volumes->empty() &&
           MountPointsUnder(kPluginDirectory).size() == 1;
  }));
}

}  // namespace
}  // namespace mountd::testing
