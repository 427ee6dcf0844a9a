// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A driver that keeps spare namespaces gives them to one task.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;

// Returns the network namespace that this process has open, "" for none.
std::string SpareNetwork() {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string target = fs::read_symlink(entry.path(), closed);
    if (!closed && target.starts_with("net:[")) {
      return target;
    }
  }
  return "";
}

// The maker of the spare namespaces has them open before it gives them to the
// driver, and then ends.
bool HasEndedMaker() {
  const fs::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads)) == 1;
}

using OciNamespaces = OciFixture;

TEST_F(OciNamespaces, OneTaskGetsTheSpareOnes) {
  AsUser([this] {
    OciDriverOptions options = Options();
    options.keeps_spare_namespaces = true;
    const auto driver = MakeWith(options);
    EXPECT_EQ(SpareNetwork(), "");
    std::string spare;
    for (const char* name : {"first", "second", "third"}) {
      // The task stays, because the kernel gives the number of a namespace that
      // has ended to another one.
      const TaskConfig config =
          Shell(name, "readlink /proc/self/ns/net; exec sleep 1000000");
      ASSERT_THAT(driver->StartTask(config), IsOk());
      EXPECT_TRUE(Eventually([&] { return LogOf(name).ends_with("\n"); }));
      EXPECT_TRUE(spare.empty() || LogOf(name) == spare + "\n")
          << LogOf(name) << spare;
      const std::string before = spare;
      // A naive driver gives the same namespaces to the next task, too.
      ASSERT_TRUE(Eventually([&] {
        const bool has_ended = HasEndedMaker();
        spare = SpareNetwork();
        return has_ended && !spare.empty() && spare != before;
      })) << spare;
      EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    }
    EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); })) << Leftovers();
  });
}

}  // namespace
}  // namespace mountd::driver::testing
