// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The directories alloc/, local/ and secrets/ of tasks.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/driver/images/digest.h"
#include "agent/driver/images/key_lock.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;

std::string TextIn(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OciDirectories : public OciFixture {
 protected:
  TaskConfig WithDirectories(const std::string& name,
                             const std::string& script) const {
    TaskConfig config = Shell(name, script);
    config.directories.alloc = path("shared");
    config.directories.local = path("local-" + name);
    config.directories.secrets = path("secrets-" + name);
    for (const std::string& directory :
         {config.directories.alloc, config.directories.local,
          config.directories.secrets}) {
      fs::create_directories(directory);
      fs::permissions(directory, fs::perms::owner_all);
    }
    return config;
  }
  std::string EndOf(TaskDriver& driver, const TaskConfig& config) const {
    const auto started = driver.StartTask(config);
    if (!started) {
      return ErrorText(started.error());
    }
    const std::string status = TextOf(driver.WaitTask(config.id));
    EXPECT_THAT(driver.DestroyTask(config.id, false), IsOk());
    return LogOf(config.name) + status;
  }
};

TEST_F(OciDirectories, TasksShareAllocAndHaveTheOthersForThemselves) {
  AsUser([this] {
    const auto driver = MakeDriver();
    EXPECT_EQ(
        EndOf(*driver, WithDirectories("one",
                                       "echo a >/alloc/a; echo l >/local/l; "
                                       "echo s >/secrets/s; "
                                       "cp /usr/bin/id /local/id; "
                                       "chmod 4755 /local/id; "
                                       "grep -c ' /local .*nosuid,nodev' "
                                       "/proc/self/mountinfo")),
        "1\ncode 0");
    EXPECT_EQ(EndOf(*driver,
                    WithDirectories("two", "cat /alloc/a; ls /local /secrets")),
              "a\n/local:\n\n/secrets:\ncode 0");
    EXPECT_EQ(TextIn(path("local-one/l")), "l\n");
    EXPECT_EQ(TextIn(path("secrets-one/s")), "s\n");
    EXPECT_EQ(Leftovers(), "");
  });
}

// The runtime follows a symlink at a mount's destination. By a link to /proc
// the next start would have a /proc of the task's own choice.
TEST_F(OciDirectories, ASymlinkOfATaskLeadsNoMountElsewhere) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = WithDirectories("link", "ls /proc/mine; exit 0");
    EXPECT_EQ(EndOf(*driver,
                    WithDirectories("link",
                                    "ln -s /proc /local/data; mkdir /alloc/d; "
                                    "ln -s / /alloc/d/e; ln -s x /alloc/x")),
              "code 0");
    fs::create_directories(path("volume/mine"));
    const auto start_at = [&](const std::string& task_path) {
      TaskConfig next = config;
      next.mounts.push_back({task_path, path("volume"), false, false,
                             MountPropagation::kPrivate, ""});
      return driver->StartTask(next);
    };
    EXPECT_THAT(start_at("/local/data"),
                IsErrOf(Code::kInvalidArgument, "symlink"));
    EXPECT_THAT(start_at("/alloc/d/e/proc"), IsErr(Code::kInvalidArgument));
    EXPECT_THAT(start_at("/alloc/x"), IsErr(Code::kInvalidArgument));
    EXPECT_EQ(Leftovers(), "");
    ASSERT_THAT(start_at("/alloc/d/new"), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// The driver's user may not look where a directory is a subordinate id's alone.
TEST_F(OciDirectories, ASymlinkThatATaskHidesLeadsNoMountElsewhere) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = WithDirectories("hide", "ls /proc/mine; exit 0");
    EXPECT_EQ(EndOf(*driver,
                    WithDirectories("hide",
                                    "mkdir /local/d; ln -s /proc /local/d/e; "
                                    "chmod 700 /local/d; chown 7:7 /local/d")),
              "code 0");
    fs::create_directories(path("volume/mine"));
    config.mounts.push_back({"/local/d/e", path("volume"), false, false,
                             MountPropagation::kPrivate, ""});
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kPermissionDenied));
    EXPECT_EQ(EndOf(*driver, WithDirectories(
                                 "hide", "chown 0:0 /local/d; rm -r /local/d")),
              "code 0");
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciDirectories, TheDriverRemovesTheFilesOfATasksUsers) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config =
        WithDirectories("own",
                        "mkdir -p /local/d/e; touch /local/d/e/f; "
                        "ln -s /alloc /local/d/link; touch /alloc/stays; "
                        "chown -R 7:7 /local/d; chmod 700 /local/d");
    EXPECT_EQ(EndOf(*driver, config), "code 0");
    std::error_code failed;
    fs::remove_all(config.directories.local, failed);
    EXPECT_TRUE(failed);
    EXPECT_THAT(driver->RemoveDirectory(config.directories.local), IsOk());
    EXPECT_FALSE(fs::exists(config.directories.local));
    EXPECT_TRUE(fs::exists(path("shared/stays")));
    EXPECT_THAT(driver->RemoveDirectory(config.directories.local), IsOk());
    EXPECT_THAT(driver->RemoveDirectory(path("nothing/at/all")), IsOk());
    EXPECT_THAT(driver->RemoveDirectory("relative"),
                IsErr(Code::kInvalidArgument));
    EXPECT_THAT(driver->RemoveDirectory(path("shared/../shared")),
                IsErr(Code::kInvalidArgument));
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciDirectories, ARunningTaskIsFoundWhateverItsState) {
  AsUser([this] {
    const auto driver = MakeDriver();
    OciDriverOptions options = Options();
    options.state = path("other");
    const auto other = MakeWith(options);
    const TaskConfig config = Shell("one", "exec sleep 1000");
    TaskConfig elsewhere = config;
    elsewhere.id += "0";
    const auto running = [](const std::string& allocation) {
      const auto found = DirectoriesOfRunningTasks(allocation);
      return found ? *found : std::vector<std::string>{"error", "", ""};
    };
    EXPECT_EQ(running(config.allocation).size(), 0U);
    ASSERT_THAT(driver->StartTask(config), IsOk());
    ASSERT_THAT(other->StartTask(elsewhere), IsOk());
    ASSERT_EQ(running(config.allocation).size(), 2U);
    EXPECT_TRUE(
        running(config.allocation)[0].starts_with(path("other/tasks/")));
    EXPECT_EQ(running("another").size(), 0U);
    // The shim of a task that has ended still has the task's overlay.
    ASSERT_THAT(driver->StopTask(config.id, std::chrono::milliseconds(0), ""),
                IsOk());
    EXPECT_EQ(running(config.allocation).size(), 1U);
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_THAT(other->DestroyTask(elsewhere.id, true), IsOk());
    EXPECT_EQ(running(config.allocation).size(), 0U);
  });
}

// An id is new for each start, so nobody calls again with the id of a call that
// was killed. A call that removes a directory just now holds its lock.
TEST_F(OciDirectories, WhatAKilledRemovalLeftIsRemovedByTheNext) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const std::string left =
        path("state/removed/") + Sha256Hex("l").substr(0, 32);
    const std::string held =
        path("state/removed/") + Sha256Hex("h").substr(0, 32);
    fs::create_directories(left + "/upper/usr");
    fs::create_directories(held + "/upper");
    auto lock = KeyLock::TryTake(path("state/lock"), Sha256Hex("h"),
                                 KeyLock::Mode::kExclusive);
    ASSERT_THAT(lock, IsOk());
    EXPECT_EQ(EndOf(*driver, Shell("one", "exit 0")), "code 0");
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(held + "/upper"));
    lock = Error{};
    EXPECT_EQ(EndOf(*driver, Shell("two", "exit 0")), "code 0");
    EXPECT_EQ(Leftovers(), "");
  });
}

}  // namespace
}  // namespace mountd::driver::testing
