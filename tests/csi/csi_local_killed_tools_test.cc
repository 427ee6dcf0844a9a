// SPDX-License-Identifier: LGPL-2.1-or-later
//
// csi-local's tools are killed during their work, and csi-local is killed while
// a tool works. A script in the tool's place writes to the image and goes on
// until it is killed.
#include <sys/mount.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "mountd/base/number.h"
#include "tests/csi/csi_local.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;

constexpr char kHalfWork[] =
    "#!/bin/sh\n"
    "echo half of it >&3\n"
    "while :; do :; done\n";

std::string Line(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) {
      return line.substr(key.size());
    }
  }
  return "";
}

class CsiLocalKilledTools : public CsiLocalPlugin {
 protected:
  void TearDown() override {
    Restore();
    CsiLocalPlugin::TearDown();
  }
  void Replace(const std::string& tool) {
    // The script covers the file that a symbolic link leads to.
    covered_ = fs::canonical("/usr/sbin/" + tool);
    const std::string script = root() + "/script";
    std::ofstream(script) << kHalfWork;
    ASSERT_EQ(0, ::chmod(script.c_str(), 0755));
    ASSERT_EQ(0, ::mount(script.c_str(), covered_.c_str(), nullptr, MS_BIND,
                         nullptr));
  }
  void Restore() {
    if (!covered_.empty()) {
      EXPECT_EQ(0, ::umount2(covered_.c_str(), MNT_DETACH));
      covered_.clear();
    }
  }
  // Returns the pid of the tool that this csi-local has started, once it is
  // confined; -1 if there is none.
  static pid_t AtWork(const std::string& tool, pid_t plugin) {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator("/proc", gone)) {
      const auto pid = ParseNumber<pid_t>(entry.path().filename().string());
      const fs::path status = entry.path() / "status";
      if (pid && Line(status, "Name:\t") == tool &&
          Line(status, "PPid:\t") == std::to_string(plugin)) {
        return *pid;
      }
    }
    return -1;
  }
  pid_t AwaitTool(const std::string& tool) {
    pid_t found = -1;
    EXPECT_TRUE(Eventually([&] {
      found = AtWork(tool, plugin_.pid());
      return found > 0;
    }));
    return found;
  }
  // True if the process has ended, or is a zombie.
  static bool HasEnded(pid_t pid) {
    const std::string state =
        Line("/proc/" + std::to_string(pid) + "/status", "State:\t");
    return state.empty() || state.starts_with("Z") || state.starts_with("X");
  }
  // Expects that the volume works as a whole.
  void ExpectToWork(const std::string& volume) {
    ASSERT_EQ(StatusCode::OK, Stage(volume));
    ASSERT_EQ(StatusCode::OK, Publish(volume, "web"));
    std::ofstream(Target("web") + "/file") << "text" << std::flush;
    EXPECT_EQ(4U, fs::file_size(Target("web") + "/file"));
    EXPECT_EQ(StatusCode::OK, Unpublish(volume, "web"));
    EXPECT_EQ(StatusCode::OK, Unstage(volume));
  }

  std::string covered_;
};

TEST_F(CsiLocalKilledTools, AKilledMkfsIsAnErrorAndTheNextOneMakesIt) {
  const auto request = CreateRequest("web", "image", 16 * kMiB);
  Replace("mkfs.ext4");
  auto created =
      std::async(std::launch::async, [&] { return Create(request); });
  const pid_t tool = AwaitTool("mkfs.ext4");
  ASSERT_GT(tool, 0);
  ASSERT_EQ(0, ::kill(tool, SIGKILL));
  const auto failed = created.get();
  EXPECT_EQ(StatusCode::INTERNAL, failed.code) << failed.message;
  EXPECT_NE(std::string::npos, failed.message.find("killed")) << failed.message;
  EXPECT_EQ(0, List().response.entries_size());
  Restore();
  ExpectToWork(MustCreate(request));
}

// csi-local grows an unused image before it mounts the image.
TEST_F(CsiLocalKilledTools, KilledWhileItGrowsAnImageLeavesTheImageWhole) {
  const std::string volume =
      MustCreate(CreateRequest("web", "image", 16 * kMiB));
  ExpectToWork(volume);
  std::int64_t bytes = 16 * kMiB;
  for (const char* name : {"e2fsck", "resize2fs"}) {
    SCOPED_TRACE(name);
    bytes *= 2;
    ASSERT_EQ(StatusCode::OK, Expand(volume, bytes).code);
    Replace(name);
    auto staged = std::async(std::launch::async, [&] { return Stage(volume); });
    const pid_t tool = AwaitTool(name);
    ASSERT_GT(tool, 0);
    ASSERT_EQ(0, ::kill(tool, SIGKILL));
    EXPECT_EQ(StatusCode::INTERNAL, staged.get());
    EXPECT_EQ(0, MountsAt(Staging(volume)));
    EXPECT_TRUE(Loops().empty());
    Restore();
    ExpectToWork(volume);
  }
}

TEST_F(CsiLocalKilledTools, AToolEndsWithItsCsiLocal) {
  const auto request = CreateRequest("web", "image", 16 * kMiB);
  Replace("mkfs.ext4");
  auto created =
      std::async(std::launch::async, [&] { return Create(request); });
  const pid_t tool = AwaitTool("mkfs.ext4");
  ASSERT_GT(tool, 0);
  plugin_.KillAndWait();
  EXPECT_EQ(StatusCode::UNAVAILABLE, created.get().code);
  const bool ended = Eventually([&] { return HasEnded(tool); });
  EXPECT_TRUE(ended) << "it goes on with an image that is another's now";
  if (!ended) {
    ::kill(tool, SIGKILL);
  }
  Restore();
  Start();
  EXPECT_EQ(0, List().response.entries_size());
  ExpectToWork(MustCreate(request));
}

}  // namespace
}  // namespace mountd::testing
