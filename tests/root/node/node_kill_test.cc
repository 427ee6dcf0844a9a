// SPDX-License-Identifier: LGPL-2.1-or-later
//
// SIGKILL of a real mountd, and of its executors, at moments spread over the
// calls that change several objects. Each answer must be true. The same call
// finishes what was interrupted, or the release removes it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node.h"
#include "tests/support/outcome.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using agent::BindMountSpec;
using agent::SourceType;
using Clock = std::chrono::steady_clock;

constexpr int kMoments = 12;

// Returns whether trial `i` is made. On a busy machine the kill may come too
// late at each moment, so the moments are tried again until one call is cut
// off.
bool GoesOn(int i, int cut_off) {
  constexpr int kMostTrials = 50 * kMoments;
  return i < kMoments || (cut_off == 0 && i < kMostTrials);
}

constexpr char kConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
[host_volume.b]
path = "/run/host/b"
[filesystem.box]
type = "fuse.bindfs"
source = "/run/host/a"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
filesystems = ["*"]
)";

constexpr char kInbox[] = "/run/mountd/base/a/web/app";

BindMountSpec Spec(const std::string& name, const std::string& source,
                   SourceType type = SourceType::kHostVolume) {
  BindMountSpec spec = HostVolumeSpec(name, source);
  spec.source_type = type;
  return spec;
}

// Returns the volume that the mount "d" shows; "" if there is none.
std::string Shown() { return VolumeShownAt(std::string(kInbox) + "/d"); }

// Owns a thread that looks at the mount "d" again and again.
class Watcher {
 public:
  Watcher()
      : thread_([this] {
          while (!stop_) {
            gaps_ += Shown().empty() ? 1 : 0;
          }
        }) {}
  int Gaps() {
    stop_ = true;
    thread_.join();
    return gaps_;
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> gaps_ = 0;
  std::thread thread_;
};

class NodeKill : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeHostVolumes();
    auto node = Node::Start(kConfig);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    Connect();
    Prepare();
  }
  void TearDown() override {
    client_.reset();
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    Node::Kill(Node::Processes("bindfs"));
    PrivateNamespaces::TearDown();
  }

  // Connects without automatic calls, so that a lost connection shows.
  void Connect() {
    auto client = node_->Connect({.reconnect = false});
    ASSERT_TRUE(client) << client.error().Message();
    client_.emplace(*std::move(client));
  }
  void Prepare() {
    ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
  }
  // Expects that the release leaves nothing, whatever was interrupted.
  void Release() {
    ASSERT_EQ(Outcome(client_->ReleaseAllocation("web")), "Ok");
    EXPECT_TRUE(Eventually(
        [] { return MountPointsUnder("/run/mountd/base/a").empty(); }));
    const auto owed = client_->ListOwed();
    ASSERT_TRUE(owed) << owed.error().Message();
    EXPECT_TRUE(owed->empty());
  }
  // Waits, because mountd removes anchors and file systems in its own time.
  static void ExpectNothingIsLeft() {
    EXPECT_TRUE(Eventually([] {
      return MountPointsUnder("/run/host").empty() &&
             MountPointsUnder("/run/mountd/base").size() == 1 &&
             Node::Processes("bindfs").empty();
    }));
  }
  std::vector<agent::MountStatus> Known() {
    auto status = client_->GetAllocation("web");
    EXPECT_TRUE(status) << status.error().Message();
    return status ? status->mounts : std::vector<agent::MountStatus>();
  }

  // Makes the call, and kills all processes of that name at the i-th of
  // kMoments, spread over the time that the call takes without a kill. Returns
  // the caller's outcome.
  std::string CutOff(const char* process, int i, Clock::duration takes,
                     const std::function<std::string()>& call) {
    const std::vector<UniqueFd> victims = Node::Processes(process);
    auto told = std::async(std::launch::async, call);
    std::this_thread::sleep_for(takes * (i % kMoments) / kMoments);
    Node::Kill(victims);
    std::string outcome = told.get();
    EXPECT_TRUE(outcome == "Ok" || outcome == "Unavailable") << outcome;
    Connect();
    return outcome;
  }
  bool CanReplace() {
    const auto capabilities = client_->GetCapabilities();
    return capabilities && capabilities->features.at("mount-beneath");
  }
  static Clock::duration TimeOf(const std::function<std::string()>& call) {
    const auto started = Clock::now();
    EXPECT_EQ(call(), "Ok");
    return Clock::now() - started;
  }
  void ReplacementsAreCutOff(const char* process);

  std::unique_ptr<Node> node_;
  std::optional<agent::Client> client_;
};

TEST_F(NodeKill, OfASetThereIsAllOrNothing) {
  std::vector<BindMountSpec> set;
  for (int i = 0; i < 6; ++i) {
    set.push_back(Spec("m" + std::to_string(i), i % 2 == 0 ? "a" : "b"));
  }
  const auto bind = [&] { return Outcome(client_->BindMounts("web", set)); };
  const Clock::duration takes = TimeOf(bind);
  Release();
  int cut_off = 0;
  for (int i = 0; GoesOn(i, cut_off); ++i) {
    SCOPED_TRACE(i);
    Prepare();
    const std::string told = CutOff("mountd", i, takes, bind);
    cut_off += told == "Ok" ? 0 : 1;
    const std::size_t known = Known().size();
    EXPECT_TRUE(known == set.size() || (known == 0 && told != "Ok")) << known;
    // An executor that was at work still undoes a mount whose answer nobody
    // takes.
    EXPECT_TRUE(
        Eventually([&] { return MountPointsUnder(kInbox).size() == known; }));
    if (i % 2 == 0) {
      EXPECT_EQ(bind(), "Ok");
      EXPECT_EQ(Known().size(), set.size());
      EXPECT_EQ(MountPointsUnder(kInbox).size(), set.size());
    }
    Release();
  }
  EXPECT_GT(cut_off, 0);
  ExpectNothingIsLeft();
}

// A process that looks finds one of the two volumes at any moment.
void NodeKill::ReplacementsAreCutOff(const char* process) {
  if (!CanReplace()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  const auto bind = [&] {
    return Outcome(client_->BindMount("web", Spec("d", "a")));
  };
  const auto replace = [&] {
    return Outcome(client_->ReplaceMount("web", Spec("d", "b")));
  };
  ASSERT_EQ(bind(), "Ok");
  const Clock::duration takes = TimeOf(replace);
  Release();
  int cut_off = 0;
  for (int i = 0; GoesOn(i, cut_off); ++i) {
    SCOPED_TRACE(i);
    Prepare();
    ASSERT_EQ(bind(), "Ok");
    Watcher watcher;
    const std::string told = CutOff(process, i, takes, replace);
    cut_off += told == "Ok" ? 0 : 1;
    EXPECT_EQ(Known().size(), 1U);
    EXPECT_TRUE(told != "Ok" || Shown() == "b");
    if (i % 3 == 0) {
      EXPECT_EQ(replace(), "Ok");
      EXPECT_EQ(Shown(), "b");
      EXPECT_EQ(MountPointsUnder(kInbox).size(), 1U);
    }
    EXPECT_EQ(watcher.Gaps(), 0);
    if (i % 3 == 1) {
      EXPECT_EQ(Outcome(client_->Unmount("web", "app", "d")), "Ok");
      EXPECT_TRUE(MountPointsUnder(kInbox).empty());
    }
    Release();
  }
  EXPECT_GT(cut_off, 0);
  ExpectNothingIsLeft();
}

TEST_F(NodeKill, AReplacementCutOffByMountdsEndIsFinishedOrGoes) {
  ReplacementsAreCutOff("mountd");
}

TEST_F(NodeKill, AReplacementCutOffByItsExecutorsEndIsFinishedOrGoes) {
  ReplacementsAreCutOff("mountd-exec");
}

TEST_F(NodeKill, ARepairThatMountsAnewIsFinishedOrGoes) {
  if (!CanReplace()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  const auto bind = [&] {
    return Outcome(
        client_->BindMount("web", Spec("d", "box", SourceType::kFilesystem)));
  };
  const auto repair = [&] {
    return Outcome(client_->RepairMount("web", "app", "d"));
  };
  ASSERT_EQ(bind(), "Ok");
  Node::Kill(Node::Processes("bindfs"));
  ASSERT_EQ(Shown(), "");
  const Clock::duration takes = TimeOf(repair);
  ASSERT_EQ(Shown(), "a");
  Release();
  for (int i = 0; i < 2 * kMoments; ++i) {
    SCOPED_TRACE(i);
    Prepare();
    // A killed executor's mount(8) may still be at work. Its late server makes
    // the next mount fail once.
    ASSERT_TRUE(Eventually([&] { return bind() == "Ok"; }));
    Node::Kill(Node::Processes("bindfs"));
    const std::string told = CutOff(i < kMoments ? "mountd" : "mountd-exec",
                                    i % kMoments, takes, repair);
    EXPECT_TRUE(told != "Ok" || Shown() == "a");
    if (i % 2 == 0) {
      EXPECT_TRUE(Eventually([&] { return repair() == "Ok"; }));
      EXPECT_EQ(Shown(), "a");
      EXPECT_EQ(MountPointsUnder(kInbox).size(), 1U);
    }
    Release();
  }
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace mountd::testing
