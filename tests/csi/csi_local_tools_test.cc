// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mkfs, e2fsck and resize2fs parse images. A shell in their place tries the
// attacks of a tool that a file system has taken over.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "tests/csi/process.h"
#include "tests/csi/sandbox.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

// The script uses builtins only, except in its last line, which ends a shell
// that may not fork.
constexpr char kAttacks[] = R"(
while read -r line; do echo "$line" >&2; done </proc/self/status
echo x >"$1/made" && echo attack: a file is made >&2
echo x >>"$1/there" && echo attack: a file of root is written to >&2
read -r line <"$1/secret" && echo attack: a file of root is read >&2
read -r line <"/proc/$2/fd/3" && echo attack: another image is read >&2
kill -0 $PPID && echo attack: a process is signalled >&2
echo tried all but one >&2
/bin/true && echo attack: a program is started >&2
)";

std::string Text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CsiLocalTools : public Sandbox {
 protected:
  void SetUp() override {
    Sandbox::SetUp();
    if (IsSkipped()) {
      return;
    }
    image_.reset(::open((root() + "/image").c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    ASSERT_EQ(6, ::write(image_.get(), "image\n", 6));
    ASSERT_EQ(0, ::ftruncate(image_.get(), 1 << 20));
    // csi-local lends the image to the tool with this mode.
    ASSERT_EQ(0, ::fchmod(image_.get(), 0666));
    std::ofstream(root() + "/there") << "root's\n";
    std::ofstream(root() + "/secret") << "root's\n";
    ASSERT_EQ(0, ::chmod((root() + "/secret").c_str(), 0600));
  }

  // Returns the program's stderr.
  std::string Run(const std::vector<std::string>& before,
                  const std::string& script) {
    const std::string log = root() + "/log";
    std::vector<std::string> argv{"/bin/sh", "-c", "exec \"$@\" 2>" + log,
                                  "sh"};
    argv.insert(argv.end(), before.begin(), before.end());
    argv.insert(argv.end(), {"/bin/sh", "-c", script, "sh", root(),
                             std::to_string(other_.pid())});
    Process shell(argv, image_);
    shell.Wait();
    return Text(log);
  }

  // Starts a tool that works all the time.
  void StartOther() {
    other_ = Process(
        {CSI_LOCAL, "--run-tool", "/bin/sh", "-c", "while :; do :; done"},
        image_);
    const std::string status =
        "/proc/" + std::to_string(other_.pid()) + "/status";
    ASSERT_TRUE(Eventually([&status] {
      const std::string text = Text(status);
      return text.find("Name:\tsh") != std::string::npos &&
             text.find("Seccomp:\t2") != std::string::npos;
    }));
  }

  UniqueFd image_;
  Process other_;
};

TEST_F(CsiLocalTools, DoNothingToAnythingButTheirImage) {
  ASSERT_NO_FATAL_FAILURE(StartOther());
  const std::string naive = Run({"/usr/bin/env"}, kAttacks);
  for (const char* attack :
       {"a file is made", "a file of root is written to",
        "a file of root is read", "another image is read",
        "a process is signalled", "a program is started"}) {
    EXPECT_NAIVE(naive.find(attack) != std::string::npos) << attack << "\n"
                                                          << naive;
  }
  ASSERT_EQ(0, ::unlink((root() + "/made").c_str()));
  const std::string confined = Run({CSI_LOCAL, "--run-tool"}, kAttacks);
  EXPECT_EQ(std::string::npos, confined.find("attack:")) << confined;
  EXPECT_NE(std::string::npos, confined.find("tried all but one")) << confined;
  EXPECT_EQ(std::string::npos, confined.find("Uid:\t0")) << confined;
  for (const char* line :
       {"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"}) {
    EXPECT_NE(std::string::npos, confined.find(line)) << line << "\n"
                                                      << confined;
  }
  EXPECT_NE(0, ::access((root() + "/made").c_str(), F_OK));
}

TEST_F(CsiLocalTools, HaveNamespacesOfTheirOwnAndMakeNoLargerFile) {
  ASSERT_NO_FATAL_FAILURE(StartOther());
  const std::string process = "/proc/" + std::to_string(other_.pid());
  for (const char* kind : {"mnt", "net", "ipc", "uts"}) {
    const std::string name = std::string("/ns/") + kind;
    EXPECT_NE(std::filesystem::read_symlink("/proc/self" + name),
              std::filesystem::read_symlink(process + name));
  }
  const std::string limits = Text(process + "/limits");
  EXPECT_TRUE(std::regex_search(limits, std::regex("Max file size +1048576 ")))
      << limits;
  std::ifstream mounts(process + "/mountinfo");
  int seen = 0;
  for (std::string line; std::getline(mounts, line); ++seen) {
    EXPECT_TRUE(std::regex_search(line, std::regex("^([^ ]+ ){5}ro,nosuid")))
        << line;
  }
  EXPECT_LT(0, seen);
}

}  // namespace
}  // namespace mountd::testing
