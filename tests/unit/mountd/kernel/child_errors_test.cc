// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include <cstdint>

#include "mountd/kernel/kernel.h"
#include "tests/support/outcome.h"

namespace mountd::exec {
namespace {

TEST(ChildErrorsTest, ALimitOfProcessesIsAResourceThatIsExhausted) {
  const auto none = NamedOfChild(Sys<std::uint8_t>(EAGAIN), "fork", "web");
  EXPECT_EQ(Outcome(none), "ResourceExhausted");
  EXPECT_EQ(none.error().sys_errno, EAGAIN);
  EXPECT_EQ(Outcome(NamedOfChild(Sys<std::uint8_t>(ENOMEM), "fork", "web")),
            "ResourceExhausted");
  EXPECT_EQ(Outcome(NamedOfChild(Sys<std::uint8_t>(ETIMEDOUT), "fork", "web")),
            "DeadlineExceeded");
}

// Limits of mounts count, too: fs.mount-max is ENOSPC of open_tree(2) and
// move_mount(2).
TEST(ChildErrorsTest, OtherLimitsAreToo) {
  for (const int limit : {ENOSPC, ENOMEM, EMFILE, ENFILE, EDQUOT}) {
    EXPECT_EQ(Outcome(Named(Sys<void>(limit), "move_mount", "web")),
              "ResourceExhausted")
        << limit;
  }
  // EAGAIN of a socket ends soon, so it is no limit.
  EXPECT_EQ(Outcome(Named(Sys<void>(EAGAIN), "connect", "web")), "Unavailable");
}

}  // namespace
}  // namespace mountd::exec
