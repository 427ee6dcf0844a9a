// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The places where orchestrators without root have mountd-csi-proxy publish
// volumes: a Nomad client, and a kubelet in a user namespace and a mount
// namespace of its own (Kubernetes' KEP-2033). The same tests for both.
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <ostream>
#include <string>
#include <vector>

#include "tests/root/node/csi_proxy_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

struct Orchestrator {
  const char* name;
  // The target path's parent, below the orchestrator's directory.
  const char* place;
  const char* target;
  bool in_namespaces;

  friend void PrintTo(const Orchestrator& one, std::ostream* out) {
    *out << one.name;
  }
};

const Orchestrator kOrchestrators[] = {
    {"Nomad", "csi/monolith/fault/per-alloc/8f1c2f7e/database",
     "rw-file-system-single-node-writer", false},
    {"Kubelet", "pods/5d0a7d3a/volumes/kubernetes.io~csi/pvc-1", "mount", true},
};

// Says by files what it sees at "$1"/file, as a task of the orchestrator would.
constexpr char kWatch[] = R"(
: > /run/agent/ready
until read -r text 2>/dev/null < "$1/file"; do sleep 0.02; done
echo "$text" > /run/agent/seen
while [ -e "$1/file" ]; do sleep 0.02; done
: > /run/agent/gone
exec sleep 1000
)";

class CsiProxyOrchestrator
    : public CsiProxyNode,
      public ::testing::WithParamInterface<Orchestrator> {
 protected:
  void SetUp() override {
    CsiProxyNode::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    // A kubelet's mount namespace gets the host's later mounts if their parent
    // is shared, as all mounts of a host with systemd are.
    ASSERT_EQ(::mount("tmpfs", kTargets, "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, kTargets, nullptr, MS_SHARED, nullptr), 0);
    ASSERT_EQ(::chown(kTargets, kAgentUid, kAgentUid), 0);
    std::string made = kTargets;
    for (const fs::path& part : fs::path(GetParam().place)) {
      made += "/" + part.string();
      ASSERT_EQ(::mkdir(made.c_str(), 0755), 0);
      ASSERT_EQ(::chown(made.c_str(), kAgentUid, kAgentUid), 0);
    }
    target_ = made + "/" + GetParam().target;
    std::vector<std::string> command = {"/usr/bin/setpriv", "--reuid=60002",
                                        "--regid=60002", "--clear-groups"};
    if (GetParam().in_namespaces) {
      for (const char* word : {"/usr/bin/unshare", "--user", "--map-root-user",
                               "--mount", "--propagation", "slave"}) {
        command.emplace_back(word);
      }
    }
    for (const std::string& word :
         {std::string("/bin/sh"), std::string("-c"), std::string(kWatch),
          std::string("watch"), target_}) {
      command.push_back(word);
    }
    watch_ = Process(command);
    ASSERT_TRUE(Eventually([] { return fs::exists("/run/agent/ready"); }));
  }
  void TearDown() override {
    watch_ = Process();
    CsiProxyNode::TearDown();
    ::umount2(kTargets, MNT_DETACH);
  }

  static std::string Seen() {
    std::string text;
    std::getline(std::ifstream("/run/agent/seen"), text);
    return text;
  }
  // Expects that the orchestrator's directory is as before.
  void ExpectOnlyItsDirectory() {
    EXPECT_FALSE(fs::exists(target_));
    EXPECT_EQ(MountsOn(kTargets), 1U);
    EXPECT_TRUE(Eventually([&] { return NothingIsLeft(); })) << Recorded();
  }

  std::string target_;
  Process watch_;
};

TEST_P(CsiProxyOrchestrator, ATaskSeesItsVolumeWhileItIsPublished) {
  const grpc::Status published = PublishAt(target_);
  ASSERT_TRUE(published.ok()) << published.error_message();
  std::ofstream(std::string(kFaults) + "/data/76/file") << "text\n";
  EXPECT_TRUE(Eventually([] { return Seen() == "text"; }));
  const grpc::Status unpublished = UnpublishAt(target_);
  EXPECT_TRUE(unpublished.ok()) << unpublished.error_message();
  EXPECT_TRUE(Eventually([] { return fs::exists("/run/agent/gone"); }));
  ExpectOnlyItsDirectory();
}

TEST_P(CsiProxyOrchestrator, AKilledProxyIsNotMissed) {
  Tell("NodePublishVolume", "delay 800");
  auto told =
      std::async(std::launch::async, [&] { return PublishAt(target_); });
  EXPECT_TRUE(Eventually([] { return Asked("NodePublishVolume") > 0; }));
  KillProxy();
  EXPECT_EQ(told.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  StartProxy();
  EXPECT_TRUE(PublishAt(target_).ok());
  std::ofstream(std::string(kFaults) + "/data/76/file") << "text\n";
  EXPECT_TRUE(Eventually([] { return Seen() == "text"; }));
  EXPECT_TRUE(UnpublishAt(target_).ok());
  EXPECT_TRUE(Eventually([] { return fs::exists("/run/agent/gone"); }));
  ExpectOnlyItsDirectory();
}

INSTANTIATE_TEST_SUITE_P(Without, CsiProxyOrchestrator,
                         ::testing::ValuesIn(kOrchestrators),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace mountd::testing
