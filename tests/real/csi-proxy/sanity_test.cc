// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs csi-sanity as an ordinary user over mountd-csi-proxy, mountd and
// csi-local. tests/real/csi-proxy/run runs this program.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/csi/process.h"
#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// mountd takes RESOURCE_EXHAUSTED for no final answer, and tries again.
constexpr char kConfig[] = R"(
[[rule]]
users = ["agent"]
plugins = ["csi-local"]
register_plugins = ["csi-local"]
control_plugins = ["csi-local"]
alloc_roots = ["/run/agent/csi"]
[timeouts]
rpc_retries_ms = 1000
)";
constexpr char kWork[] = "/run/agent/csi";
constexpr char kData[] = "/run/csi-local";
constexpr char kSocket[] = "/run/agent/csi.sock";

// Returns the command as the user "agent" runs it.
std::vector<std::string> AsAgent(const std::vector<std::string>& command) {
  std::vector<std::string> all = {"/usr/bin/setpriv", "--reuid=60002",
                                  "--regid=60002", "--clear-groups"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

class CsiSanityProxy : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* made : {"/run/agent", kWork}) {
      ASSERT_EQ(::mkdir(made, 0755), 0);
      ASSERT_EQ(::chown(made, kAgentUid, kAgentUid), 0);
    }
    ASSERT_NO_FATAL_FAILURE(StartNode(kConfig));
    const auto registered = client_->RegisterPlugin(
        {.plugin = "csi-local", .type = agent::PluginType::kMonolith});
    ASSERT_TRUE(registered) << registered.error().Message();
    plugin_ =
        Process({CSI_LOCAL, "--endpoint", registered->endpoint, "--data-dir",
                 kData, "--node-id", "node-1", "--max-volumes", "8"});
    ASSERT_TRUE(Eventually([&] {
      const auto plugin = client_->GetPlugin("csi-local");
      return plugin && plugin->state == "healthy";
    }));
    proxy_ = Process(AsAgent(
        {MOUNTD_CSI_PROXY, "--plugin", std::string("csi-local=") + kSocket}));
    ASSERT_TRUE(ConnectWithin(kSocket, 20).valid());
  }
  void TearDown() override {
    proxy_ = Process();
    plugin_ = Process();
    NodeFixture::TearDown();
  }

  Process plugin_;
  Process proxy_;
};

TEST_F(CsiSanityProxy, EveryTestOfWhatIsOffered) {
  const char* sanity = std::getenv("CSI_SANITY");
  ASSERT_NE(sanity, nullptr);
  Process suite(AsAgent(
      {sanity, "-endpoint", std::string("unix:") + kSocket, "-directory", kWork,
       "-kind", std::getenv("CSI_SANITY_KIND"), "-access", "mount", "-least",
       std::getenv("CSI_SANITY_LEAST"), "-left", std::getenv("CSI_SANITY_LEFT"),
       "-ginkgo.no-color", "-ginkgo.succinct", "-test.timeout", "10m"}));
  EXPECT_EQ(suite.Wait(), 0);
  const auto left = client_->ListAllocations();
  ASSERT_TRUE(left);
  EXPECT_TRUE(left->empty());
  const auto volumes = client_->ListVolumes();
  ASSERT_TRUE(volumes);
  EXPECT_TRUE(volumes->empty());
  EXPECT_TRUE(MountPointsUnder(kWork).empty());
  for (const auto& directory : fs::directory_iterator(kData)) {
    EXPECT_TRUE(!directory.is_directory() || fs::is_empty(directory))
        << directory;
  }
}

}  // namespace
}  // namespace mountd::testing
