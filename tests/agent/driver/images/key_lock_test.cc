// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/key_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

using Mode = KeyLock::Mode;

class KeyLockOf : public ::testing::Test {
 protected:
  Result<KeyLock> Try(const std::string& key, Mode mode) {
    return KeyLock::TryTake(directory_.File("lock"), key, mode);
  }
  TempDirectory directory_;
  const std::string key_ = std::string(64, 'a');
};

TEST_F(KeyLockOf, ExcludesTheSameKeyAlone) {
  ASSERT_OK_AND_ASSIGN(KeyLock held, Try(key_, Mode::kExclusive));
  EXPECT_THAT(Try(key_, Mode::kExclusive), IsErr(Code::kBusy));
  EXPECT_THAT(Try(key_, Mode::kShared), IsErr(Code::kBusy));
  EXPECT_THAT(Try(std::string(64, 'b'), Mode::kExclusive), IsOk());
}

TEST_F(KeyLockOf, IsSharedWithoutAMomentOfNobody) {
  ASSERT_OK_AND_ASSIGN(KeyLock held, Try(key_, Mode::kExclusive));
  ASSERT_THAT(held.Share(), IsOk());
  EXPECT_THAT(Try(key_, Mode::kShared), IsOk());
  EXPECT_THAT(Try(key_, Mode::kExclusive), IsErr(Code::kBusy));
}

TEST_F(KeyLockOf, WaitsUntilTheDeadline) {
  ASSERT_OK_AND_ASSIGN(KeyLock held, Try(key_, Mode::kExclusive));
  EXPECT_THAT(KeyLock::Take(directory_.File("lock"), key_, Mode::kShared,
                            std::chrono::steady_clock::now() +
                                std::chrono::milliseconds(50)),
              IsErr(Code::kDeadlineExceeded));
}

TEST_F(KeyLockOf, LastsUntilTheLastProcessWithItHasEnded) {
  std::optional<KeyLock> held;
  { ASSERT_OK_AND_ASSIGN(held, Try(key_, Mode::kExclusive)); }
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  held.reset();
  EXPECT_THAT(Try(key_, Mode::kExclusive), IsErr(Code::kBusy));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(Try(key_, Mode::kExclusive), IsOk());
}

}  // namespace
}  // namespace mountd::driver
