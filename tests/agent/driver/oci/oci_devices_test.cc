// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Device nodes of the host in tasks.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/agent/driver/as_user.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMemory = 1;  // the major number of /dev/zero and /dev/full
constexpr unsigned kZero = 5;
constexpr unsigned kFull = 7;
constexpr unsigned kLoop = 7;  // the major number of /dev/loop0

class OciDevices : public OciFixture {
 protected:
  // Nodes of root's, as udev makes them.
  void MakeNodes() const {
    Make("full", S_IFCHR, makedev(kMemory, kFull), 0666);
    Make("read-only", S_IFCHR, makedev(kMemory, kFull), 0644);
    Make("disk", S_IFBLK, makedev(kLoop, 0), 0660);
    fs::create_symlink(path("disk"), path("to-disk"));
    fs::create_directory_symlink(path(""), path("here"));
    std::ofstream(path("file")) << "text";
    fs::permissions(path("file"), fs::perms(0666));
    EXPECT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  }
  void Make(const char* name, mode_t type, dev_t number, mode_t mode) const {
    EXPECT_EQ(::mknod(path(name).c_str(), type | mode, number), 0);
    EXPECT_EQ(::chmod(path(name).c_str(), mode), 0);
  }
  void MakeOwn(mode_t mode) const {
    Make("own", S_IFCHR, makedev(kMemory, kZero), mode);
    EXPECT_EQ(::chown(path("own").c_str(), mountd::testing::kDriverUser,
                      mountd::testing::kDriverUser),
              0);
  }
  TaskConfig WithDevice(const std::string& host_path,
                        const std::string& permissions,
                        const std::string& task_path = "/dev/given") const {
    TaskConfig config = Shell("device", "exit 0");
    config.devices = {{task_path, host_path, permissions}};
    return config;
  }
};

TEST_F(OciDevices, ATaskOpensANodeThatItsUserMayOpen) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        TaskConfig config =
            Shell("device",
                  "head -c 3 /dev/net/given | wc -c; "
                  "(echo x >/dev/net/given) 2>&- || echo full; "
                  "head -c 3 /dev/reader | wc -c; "
                  "(echo x >/dev/reader) 2>&- || echo closed; "
                  "mknod /dev/own c 1 3 2>&- || echo none; ls /dev");
        config.devices = {{"/dev/net/given", path("full"), "wr"},
                          {"/dev/reader", path("read-only"), "r"}};
        ASSERT_THAT(driver->StartTask(config), IsOk());
        EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
        const std::string log = LogOf("device");
        EXPECT_TRUE(log.starts_with("3\nfull\n3\nclosed\nnone\n")) << log;
        EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
        EXPECT_EQ(Leftovers(), "");
      },
      [this] { MakeNodes(); });
}

// The user is the node's owner, and so is the container's root.
TEST_F(OciDevices, ATaskChangesNoModeOfTheHostsNode) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        TaskConfig config = Shell("device",
                                  "chmod 666 /dev/given 2>&- || echo kept; "
                                  "head -c 3 /dev/given | wc -c; "
                                  "echo x >/dev/given && echo written");
        config.devices = {{"/dev/given", path("own"), "rw"}};
        ASSERT_THAT(driver->StartTask(config), IsOk());
        EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
        EXPECT_EQ(LogOf("device"), "kept\n3\nwritten\n");
        struct stat node = {};
        EXPECT_EQ(::stat(path("own").c_str(), &node), 0);
        EXPECT_EQ(node.st_mode & 0777U, 0600U);
        EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
        EXPECT_EQ(Leftovers(), "");
      },
      [this] { MakeOwn(0600); });
}

TEST_F(OciDevices, WhatTheUserMayNotOpenIsRefused) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        const auto start = [&](const TaskConfig& config) {
          return driver->StartTask(config);
        };
        EXPECT_THAT(start(WithDevice(path("disk"), "r")),
                    IsErrOf(Code::kPermissionDenied, "may not open"));
        EXPECT_THAT(start(WithDevice(path("to-disk"), "r")),
                    IsErrOf(Code::kInvalidArgument, "symlink"));
        EXPECT_THAT(start(WithDevice(path("here/full"), "rw")),
                    IsErrOf(Code::kInvalidArgument, "symlink"));
        for (const char* name : {"file", "fifo", ""}) {
          EXPECT_THAT(
              start(WithDevice(fs::path(path(name)).lexically_normal(), "rw")),
              IsErr(Code::kInvalidArgument))
              << name;
        }
        EXPECT_THAT(start(WithDevice(path("none"), "rw")),
                    IsErr(Code::kNotFound));
        EXPECT_THAT(start(WithDevice(path("read-only"), "rw")),
                    IsErr(Code::kPermissionDenied));
        EXPECT_EQ(Leftovers(), "");
      },
      [this] { MakeNodes(); });
}

// A task's permissions are never wider than asked for, because nothing else
// would narrow them.
TEST_F(OciDevices, PermissionsThatNothingKeepsAreRefused) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        EXPECT_THAT(driver->StartTask(WithDevice(path("own"), "r")),
                    IsErr(Code::kNotSupported));
        for (const char* permissions : {"r", "w", "rwm"}) {
          EXPECT_THAT(driver->StartTask(WithDevice(path("full"), permissions)),
                      IsErr(Code::kNotSupported))
              << permissions;
        }
        for (const char* permissions : {"", "x", "rw "}) {
          EXPECT_THAT(driver->StartTask(WithDevice(path("full"), permissions)),
                      IsErr(Code::kInvalidArgument))
              << permissions;
        }
        EXPECT_EQ(Leftovers(), "");
      },
      [this] {
        MakeNodes();
        MakeOwn(0400);
      });
}

TEST_F(OciDevices, ADeviceCoversNothingOfTheContainers) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        for (const char* task_path :
             {"/dev", "/dev/null", "/dev/pts/7", "/dev/shm/x", "/dev/../etc/x",
              "/etc/passwd", "/proc/sys/x", "/dev/fd", "relative", ""}) {
          EXPECT_THAT(
              driver->StartTask(WithDevice(path("full"), "rw", task_path)),
              IsErr(Code::kInvalidArgument))
              << task_path;
        }
        TaskConfig twice = WithDevice(path("full"), "rw");
        twice.devices.push_back(twice.devices.front());
        EXPECT_THAT(driver->StartTask(twice), IsErr(Code::kInvalidArgument));
        EXPECT_EQ(Leftovers(), "");
      },
      [this] { MakeNodes(); });
}

}  // namespace
}  // namespace mountd::driver::testing
