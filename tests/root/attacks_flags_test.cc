// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of what is in a volume, and of the kernel's own file systems;
// as in attacks_test.cc.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr char kMounted[] = "/run/mountd/base/a/open/app/data";
constexpr char kNaiveTarget[] = "/run/naive";

class FlagAttacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(PlanKind::kPrepareAllocation,
                     [](PlanBody* body) {
                       body->allocation = {exec::ToWire("open"), kAttacker};
                     })),
        "");
    MakeDirectories(kNaiveTarget);
  }
  // "data", for the attacker and for those of a naive daemon.
  void MountBoth() {
    Request request = AttachRequest("data", Propagation::kPrivate);
    request.body.attach.target = exec::Target("open", "app", "data");
    ASSERT_EQ(ErrorOf(Send(request)), "");
    ASSERT_TRUE(NaiveBind("/run/host/data", kNaiveTarget));
  }
};

TEST_F(FlagAttacks, ASetuidProgramInAVolumeMakesNobodyRoot) {
  const std::string program = "/run/host/data/test";
  std::filesystem::copy_file("/usr/bin/test", program);
  ASSERT_EQ(::chown(program.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  MountBoth();
  // Whether who runs it is effectively root.
  const auto is_root = [](const std::string& directory) {
    return AsAttacker([&] {
             const std::string file = directory + "/test";
             ::execl(file.c_str(), "test", "-O", "/proc/1", nullptr);
             return 127;
           }) == 0;
  };
  EXPECT_FALSE(is_root(kMounted));
  EXPECT_TRUE(is_root(kNaiveTarget));
}

TEST_F(FlagAttacks, ADeviceInAVolumeIsNotOpened) {
  const std::string device = "/run/host/data/null";
  ASSERT_EQ(::mknod(device.c_str(), S_IFCHR | 0666, ::makedev(1, 3)), 0);
  ASSERT_EQ(::chmod(device.c_str(), 0666), 0);
  MountBoth();
  const auto opened = [](const std::string& directory) {
    return AsAttacker([&] {
      const UniqueFd fd(
          ::open((directory + "/null").c_str(), O_RDWR | O_CLOEXEC));
      return fd.valid() ? 0 : errno;
    });
  };
  EXPECT_EQ(opened(kMounted), EACCES);
  EXPECT_EQ(opened(kNaiveTarget), 0);
}

// Its path does not begin with /proc, which is all that a naive daemon looks
// at.
TEST_F(FlagAttacks, TheKernelsFileSystemsAreNoSourceWhereverTheyAre) {
  constexpr char kMoved[] = "/run/host/moved-proc";
  MakeDirectories(kMoved);
  ASSERT_EQ(::mount("/proc", kMoved, nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(CodeOf(Attach("moved-proc", Propagation::kPrivate)),
            "FailedPrecondition");
  EXPECT_FALSE(Exists(kTarget));
  ASSERT_FALSE(std::string(kMoved).starts_with("/proc"));
  ASSERT_TRUE(NaiveBind(kMoved, kNaiveTarget));
  EXPECT_TRUE(Exists(std::string(kNaiveTarget) + "/self"));
}

}  // namespace
}  // namespace mountd::testing
