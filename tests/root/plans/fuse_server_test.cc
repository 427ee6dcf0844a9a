// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/servers/fuse_server.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "tests/support/private_namespaces.h"

namespace mountd::testing {
namespace {

constexpr char kPath[] = "/run/fuse";

class Fuse : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (!IsSkipped()) {
      ASSERT_EQ(::mkdir(kPath, 0755), 0);
    }
  }
};

// Returns 0 or the errno of a stat(2) of a file below `kPath`.
int StatErrno(const char* name) {
  struct stat st = {};
  return ::stat((std::string(kPath) + name).c_str(), &st) == 0 ? 0 : errno;
}

TEST_F(Fuse, ShowsAFileAndDirectories) {
  const FuseServer server(kPath);
  ASSERT_TRUE(server.valid()) << errno;
  std::string text;
  std::ifstream(std::string(kPath) + "/file") >> text;
  EXPECT_EQ(text, "content");
  EXPECT_EQ(StatErrno("/dir/inner"), 0);
  EXPECT_EQ(StatErrno("/none"), ENOENT);
}

TEST_F(Fuse, AnswersNothingWhileItHangsAndAllLater) {
  FuseServer server(kPath);
  ASSERT_TRUE(server.valid()) << errno;
  ASSERT_EQ(StatErrno("/file"), 0);
  server.Hang();
  const pid_t child = StatInChild(std::string(kPath) + "/file");
  ASSERT_TRUE(AwaitWaiting(child));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  server.GoOn();
  EXPECT_EQ(ExitOf(child), 0);
}

TEST_F(Fuse, WhoWaitsWhenItDiesGetsAnError) {
  FuseServer server(kPath);
  ASSERT_TRUE(server.valid()) << errno;
  ASSERT_EQ(StatErrno("/file"), 0);
  server.Hang();
  const pid_t child = StatInChild(std::string(kPath) + "/file");
  ASSERT_TRUE(AwaitWaiting(child));
  server.Die();
  EXPECT_EQ(ExitOf(child), ECONNABORTED);
  EXPECT_EQ(StatErrno("/file"), ENOTCONN);
  EXPECT_EQ(::umount2(kPath, 0), 0);
}

// Fact: SIGKILL ends the wait for a server that has not read the request, and
// not the wait for a server that has read it.
TEST_F(Fuse, WhoWaitsForAReadRequestEndsOnlyWithTheServer) {
  FuseServer server(kPath);
  ASSERT_TRUE(server.valid()) << errno;
  ASSERT_EQ(StatErrno("/file"), 0);
  server.Hang();
  const pid_t unread = StatInChild(std::string(kPath) + "/file");
  ASSERT_TRUE(AwaitWaiting(unread));
  ::kill(unread, SIGKILL);
  EXPECT_EQ(ExitOf(unread), 128 + SIGKILL);
  server.GoOn();
  server.Swallow();
  const pid_t read = StatInChild(std::string(kPath) + "/file");
  ASSERT_TRUE(server.AwaitSwallowed());
  ::kill(read, SIGKILL);
  EXPECT_TRUE(AwaitUnkillable(read));
  EXPECT_EQ(::waitpid(read, nullptr, WNOHANG), 0);
  server.Die();
  EXPECT_EQ(ExitOf(read), 128 + SIGKILL);
}

TEST_F(Fuse, ItsRootCanBeBoundWhileItHangs) {
  FuseServer server(kPath);
  ASSERT_TRUE(server.valid()) << errno;
  ASSERT_EQ(StatErrno("/file"), 0);
  server.Hang();
  ASSERT_EQ(::mkdir("/run/copy", 0755), 0);
  EXPECT_EQ(::mount(kPath, "/run/copy", nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(::umount2("/run/copy", UMOUNT_NOFOLLOW), 0);
}

}  // namespace
}  // namespace mountd::testing
