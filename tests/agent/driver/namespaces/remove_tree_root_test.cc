// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Files of subordinate ids that a container left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/driver/namespaces/namespaces.h"
#include "agent/driver/namespaces/remove_tree.h"
#include "tests/agent/driver/as_user.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

using testing::AsUserSetup;
using testing::RunAsUser;

namespace fs = std::filesystem;

// Runs `body` in a child as `id` of the user namespace.
int As(const UniqueFd& user_namespace, uid_t id,
       const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool done = ::setns(user_namespace.get(), CLONE_NEWUSER) == 0 &&
                      ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
                      ::syscall(SYS_setresgid, id, id, id) == 0 &&
                      ::syscall(SYS_setresuid, id, id, id) == 0 && body();
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// Makes a user namespace, a directory of the user's, and in it the tree "task"
// that `make` fills as root of the namespace. Then runs `then`.
struct Scene {
  UniqueFd user_namespace;
  std::string path;
  UniqueFd directory;
};

std::string InScene(const std::string& path,
                    const std::function<bool(const std::string&)>& make,
                    const std::function<std::string(const Scene&)>& then,
                    AsUserSetup setup = {}) {
  const auto before = setup.as_root;
  setup.as_root = [&path, before] {
    fs::permissions(path, fs::perms(0777));
    before();
  };
  return RunAsUser(
      [&]() -> std::string {
        const auto maps = ChooseIdMaps();
        if (!maps) {
          return ErrorText(maps.error());
        }
        auto made = MakeNamespaces(*maps, WithNetwork::kNo);
        if (!made) {
          return ErrorText(made.error());
        }
        Scene scene;
        scene.user_namespace = std::move(made->user);
        scene.path = path;
        scene.directory.reset(
            ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ::mkdir((path + "/task").c_str(), 0755);
        ::chmod((path + "/task").c_str(), 0777);
        if (As(scene.user_namespace, 0, [&] { return make(path + "/task"); }) !=
            0) {
          return "the tree could not be made";
        }
        return then(scene);
      },
      setup);
}

std::string RemoveTask(const Scene& scene) {
  const auto removed = RemoveTreeAsRootOf(scene.user_namespace.get(),
                                          scene.directory.get(), "task");
  return removed ? "" : ErrorText(removed.error());
}

// Returns "left" if the tree is still there after the call.
std::string RemoveWholeTask(const Scene& scene) {
  std::string text = RemoveTask(scene);
  if (fs::exists(scene.path + "/task")) {
    text += " left";
  }
  return text;
}

bool Touch(const std::string& path) {
  return std::ofstream(path).put('x').flush().good();
}

bool GiveAway(const std::string& path) {
  return ::lchown(path.c_str(), 1000, 1000) == 0;
}

class DriverRemoveTree : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = testing::WhyNotAsUser();
    if (!why.empty()) {
      GTEST_SKIP() << why;
    }
  }
  std::string path() const { return directory_.File("."); }

 private:
  const TempDirectory directory_;
};

TEST_F(DriverRemoveTree, FilesOfSubordinateIdsGo) {
  EXPECT_EQ(InScene(
                path(),
                [](const std::string& task) {
                  fs::create_directories(task + "/a/b/c");
                  fs::create_directories(task + "/work/work/full");
                  fs::create_directory(task + "/empty");
                  return Touch(task + "/a/b/c/file") && Touch(task + "/a/x") &&
                         Touch(task + "/new\nline") &&
                         GiveAway(task + "/a/b/c/file") &&
                         GiveAway(task + "/a/b/c") && GiveAway(task + "/a/b") &&
                         GiveAway(task + "/a") &&
                         ::chmod((task + "/a/b").c_str(), 0) == 0 &&
                         ::chmod((task + "/work/work").c_str(), 0) == 0 &&
                         ::mkfifo((task + "/fifo").c_str(), 0600) == 0;
                },
                [](const Scene& scene) -> std::string {
                  std::error_code naive;
                  fs::remove_all(scene.path + "/task/a", naive);
                  if (!naive) {
                    return "the user could have removed the files himself";
                  }
                  const std::string text = RemoveWholeTask(scene);
                  return text + RemoveTask(scene);
                }),
            "");
}

TEST_F(DriverRemoveTree, SymlinksLeadNowhere) {
  const TempDirectory outside;
  ASSERT_TRUE(Touch(outside.File("kept")));
  AsUserSetup setup;
  setup.as_root = [&] { fs::permissions(outside.File("."), fs::perms(0777)); };
  EXPECT_EQ(InScene(
                path(),
                [&](const std::string& task) {
                  fs::create_directory(task + "/inner");
                  fs::create_symlink(outside.File("."), task + "/link");
                  fs::create_symlink(outside.File("."), task + "/inner/link");
                  fs::create_symlink("..", task + "/inner/up");
                  fs::create_symlink("/", task + "/root");
                  return true;
                },
                [](const Scene& scene) -> std::string {
                  fs::create_symlink("task", scene.path + "/alias");
                  const auto removed =
                      RemoveTreeAsRootOf(scene.user_namespace.get(),
                                         scene.directory.get(), "alias");
                  if (!removed || !fs::exists(scene.path + "/task/inner")) {
                    return "the link was followed";
                  }
                  return RemoveWholeTask(scene);
                },
                setup),
            "");
  EXPECT_TRUE(fs::exists(outside.File("kept")));
}

// A tree that is deeper than a path or the number of files that are open.
TEST_F(DriverRemoveTree, DepthAndBreadthHaveNoLimit) {
  EXPECT_EQ(InScene(
                path(),
                [](const std::string& task) {
                  if (::chdir(task.c_str()) != 0) {
                    return false;
                  }
                  for (int i = 0; i < 1200; ++i) {
                    if (::mkdir("deep", 0700) != 0 || ::chdir("deep") != 0) {
                      return false;
                    }
                  }
                  for (int i = 0; i < 500; ++i) {
                    if (!Touch(task + "/file" + std::to_string(i))) {
                      return false;
                    }
                  }
                  return true;
                },
                [](const Scene& scene) -> std::string {
                  const rlimit few{20, 20};
                  ::setrlimit(RLIMIT_NOFILE, &few);
                  return RemoveWholeTask(scene);
                }),
            "");
}

TEST_F(DriverRemoveTree, AMountStaysWithItsContent) {
  const TempDirectory volume;
  ASSERT_TRUE(Touch(volume.File("data")));
  AsUserSetup setup;
  setup.as_root = [&] {
    fs::permissions(volume.File("."), fs::perms(0777));
    fs::permissions(volume.File("data"), fs::perms(0666));
    fs::create_directories(path() + "/task/a/volume");
    for (const char* made : {"/task", "/task/a", "/task/a/volume"}) {
      ASSERT_EQ(::chown((path() + made).c_str(), testing::kDriverUser,
                        testing::kDriverUser),
                0);
    }
    ASSERT_EQ(
        ::mount(volume.File(".").c_str(), (path() + "/task/a/volume").c_str(),
                nullptr, MS_BIND, nullptr),
        0);
  };
  const std::string text = InScene(
      path(), [](const std::string& task) { return Touch(task + "/a/other"); },
      [](const Scene& scene) -> std::string {
        const std::string removed = RemoveTask(scene);
        return removed +
               (fs::exists(scene.path + "/task/a/other") ? " other left" : "");
      },
      setup);
  EXPECT_EQ(text.rfind("Busy: ", 0), 0U) << text;
  EXPECT_EQ(text.find("other left"), std::string::npos) << text;
  EXPECT_TRUE(fs::exists(volume.File("data")));
}

TEST_F(DriverRemoveTree, AStrangersFilesStay) {
  AsUserSetup setup;
  setup.as_root = [&] {
    fs::create_directories(path() + "/task/theirs");
    Touch(path() + "/task/theirs/file");
    ASSERT_EQ(::chown((path() + "/task").c_str(), testing::kDriverUser,
                      testing::kDriverUser),
              0);
  };
  const std::string text = InScene(
      path(), [](const std::string& task) { return Touch(task + "/mine"); },
      [](const Scene& scene) -> std::string {
        const std::string removed = RemoveTask(scene);
        return removed +
               (fs::exists(scene.path + "/task/mine") ? " mine left" : "") +
               (fs::exists(scene.path + "/task/theirs/file") ? "" : " gone");
      },
      setup);
  EXPECT_EQ(text.rfind("PermissionDenied: ", 0), 0U) << text;
  EXPECT_EQ(text.find("mine left"), std::string::npos) << text;
  EXPECT_EQ(text.find("gone"), std::string::npos) << text;
}

TEST_F(DriverRemoveTree, OnlyOneComponentIsAName) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string("/"), std::string("a\0b", 3), std::string(256, 'x')}) {
    EXPECT_THAT(RemoveTreeAsRootOf(0, 0, name), IsErr(Code::kInvalidArgument));
  }
  EXPECT_FALSE(RemoveTreeAsRootOf(-1, -1, "task"));
}

TEST_F(DriverRemoveTree, AStrangersNamespaceIsRefused) {
  EXPECT_EQ(InScene(
                path(), [](const std::string&) { return true; },
                [](const Scene& scene) -> std::string {
                  const UniqueFd own(
                      ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
                  const auto removed = RemoveTreeAsRootOf(
                      own.get(), scene.directory.get(), "task");
                  return removed ? "entered"
                                 : std::string(fs::exists(scene.path + "/task")
                                                   ? ""
                                                   : "gone");
                }),
            "");
}

}  // namespace
}  // namespace mountd::driver
