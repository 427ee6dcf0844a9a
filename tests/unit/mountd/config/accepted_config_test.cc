// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/accepted_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "mountd/config/config.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd {
namespace {

constexpr gid_t kReaders = 65534;

class AcceptedConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    if (getuid() != 0) {
      GTEST_SKIP() << "the files have to be root's";
    }
    WriteFrom("[limits]\npeers_per_uid = 7\n");
  }
  void WriteFrom(const std::string& text) {
    std::ofstream(from_) << text;
    std::filesystem::permissions(from_, std::filesystem::perms(0640));
  }
  std::string Accepted() const {
    std::stringstream text;
    text << std::ifstream(to_).rdbuf();
    return text.str();
  }

  TempDirectory directory_;
  const std::string from_ = directory_.File("mountd.toml");
  const std::string to_ = directory_.File("accepted.toml");
};

TEST_F(AcceptedConfigTest, WhatIsRightIsThereForItsReaders) {
  std::filesystem::permissions(from_, std::filesystem::perms(0600));
  ASSERT_EQ(MessageOf(AcceptConfig(from_, to_, kReaders)), "Ok");
  EXPECT_EQ(LoadConfig(to_, true)->limits.peers_per_uid, 7U);
  struct stat status {};
  ASSERT_EQ(stat(to_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  EXPECT_EQ(status.st_uid, 0U);
  EXPECT_EQ(status.st_gid, kReaders);
}

TEST_F(AcceptedConfigTest, WhatIsWrongChangesNothing) {
  ASSERT_EQ(MessageOf(AcceptConfig(from_, to_, kReaders)), "Ok");
  const std::string before = Accepted();
  WriteFrom("[limits]\npeers_per_uid = \"many\"\n");
  const Result<void> refused = AcceptConfig(from_, to_, kReaders);
  EXPECT_EQ(Outcome(refused), "InvalidArgument");
  EXPECT_NE(MessageOf(refused).find(from_ + ":2"), std::string::npos)
      << MessageOf(refused);
  WriteFrom("");
  std::filesystem::permissions(from_, std::filesystem::perms(0666));
  EXPECT_EQ(Outcome(AcceptConfig(from_, to_, kReaders)), "PermissionDenied");
  EXPECT_EQ(Outcome(AcceptConfig(directory_.File("none"), to_, kReaders)),
            "NotFound");
  EXPECT_EQ(Accepted(), before);
}

TEST_F(AcceptedConfigTest, WhatAKilledOneHasLeftIsInNobodysWay) {
  std::ofstream(to_ + ".new") << "half";
  ASSERT_EQ(MessageOf(AcceptConfig(from_, to_, kReaders)), "Ok");
  EXPECT_FALSE(std::filesystem::exists(to_ + ".new"));
}

TEST_F(AcceptedConfigTest, WhereItCannotBeNothingIsLeft) {
  const std::string taken = directory_.File("taken");
  std::filesystem::create_directory(taken);
  EXPECT_FALSE(AcceptConfig(from_, taken, kReaders));
  EXPECT_FALSE(std::filesystem::exists(taken + ".new"));
  EXPECT_FALSE(
      AcceptConfig(from_, directory_.File("none/accepted.toml"), kReaders));
}

}  // namespace
}  // namespace mountd
