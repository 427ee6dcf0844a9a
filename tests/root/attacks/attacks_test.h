// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"

namespace mountd::testing {

// A directory of root's, which no volume may show.
inline constexpr char kSecret[] = "/run/host/secret";
inline constexpr char kNaiveTarget[] = "/run/naive";
inline constexpr int kTimes = 50;

inline void NaiveUnmount(const std::string& path) {
  ::umount2(path.c_str(), 0);
}

// Runs an executor with an allocation of the test's and one of the attacker's.
// The attacker wants to see kSecret.
class Attacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(exec::PlanKind::kPrepareAllocation,
                     [](exec::PlanBody* body) {
                       body->allocation = {exec::ToWire("open"), kAttacker};
                     })),
        "");
    MakeDirectories(std::string(kSecret) + "/inner");
    WriteFile(std::string(kSecret) + "/key", "");
    WriteFile(std::string(kSecret) + "/inner/key", "");
    MakeDirectories(kNaiveTarget);
  }

  // Declares a volume in a directory that the attacker owns.
  void DeclarePool(const std::string& path) {
    MakeDirectories("/run/host/pool/volume/inner");
    ASSERT_EQ(::symlink(kSecret, "/run/host/pool/link"), 0);
    Give("/run/host/pool");
    Give("/run/host/pool/volume");
    config_.host_volumes["pool"] = {path, false, {exec::Propagation::kPrivate}};
  }
  // Releases the volume, with retries, because the attacker may exchange its
  // path at any moment.
  bool ReleasePool() {
    return Within([&] { return ReleaseHostVolume("pool", 0).code == 0; });
  }

  // Attaches the volume until it has succeeded often enough, while the attacker
  // works.
  void AttachOverAndOver(const std::string& volume) {
    int attached = 0;
    EXPECT_TRUE(Within([&] {
      const exec::Reply reply = Attach(volume, exec::Propagation::kPrivate);
      if (reply.code == 0) {
        ++attached;
        EXPECT_FALSE(Exists(std::string(kTarget) + "/key"));
        EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
      }
      return !ReleasePool() || attached == kTimes || HasFailure();
    }));
    EXPECT_EQ(attached, kTimes);
  }
};

}  // namespace mountd::testing
