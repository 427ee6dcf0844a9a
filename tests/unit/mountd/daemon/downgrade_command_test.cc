// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/downgrade_command.h"

#include <gtest/gtest.h>
#include <sysexits.h>

#include <string>

#include "mountd/store/boot_store.h"
#include "mountd/store/downgrade.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd {
namespace {

class DowngradeCommandTest : public ::testing::Test {
 protected:
  int Run() {
    ::testing::internal::CaptureStdout();
    const int status = DowngradeTheStores(boot_, state_);
    out_ = ::testing::internal::GetCapturedStdout();
    return status;
  }

  const TempDirectory directory_;
  const std::string boot_ = directory_.File("boot.db");
  const std::string state_ = directory_.File("state.db");
  std::string out_;
};

TEST_F(DowngradeCommandTest, SaysForEachStoreWhatBecameOfIt) {
  {
    const auto store = store::BootStore::Open(boot_);
    ASSERT_EQ(MessageOf(store), "Ok");
    HandedOutRecord record;
    record.mount.mount_id = 7;
    record.allocation = "web";
    ASSERT_EQ(MessageOf((*store)->handed_out.PutHandedOut(record)), "Ok");
  }
  EXPECT_EQ(Run(), EXIT_SUCCESS);
  const std::string released = std::to_string(store::kReleasedBoot.schema);
  EXPECT_NE(out_.find(" became schema " + released + " of mountd "),
            std::string::npos)
      << out_;
  EXPECT_NE(out_.find("\n  copy: " + boot_ + ".schema-"), std::string::npos)
      << out_;
  EXPECT_NE(out_.find("\n  lost: allocation web: that mount 7 was handed out"),
            std::string::npos)
      << out_;
  EXPECT_NE(out_.find(state_ + ": there is no store\n"), std::string::npos)
      << out_;
  EXPECT_EQ(Run(), EXIT_SUCCESS);
  EXPECT_NE(out_.find(boot_ + ": has schema " + released), std::string::npos)
      << out_;
}

TEST_F(DowngradeCommandTest, ExitsWith75WhileMountdHasAStore) {
  const auto held = store::BootStore::Open(boot_);
  ASSERT_EQ(MessageOf(held), "Ok");
  EXPECT_EQ(Run(), EX_TEMPFAIL);
  EXPECT_EQ(out_.find("became"), std::string::npos) << out_;
}

}  // namespace
}  // namespace mountd
