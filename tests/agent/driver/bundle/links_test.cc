// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/links.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mountd/base/unique_fd.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

namespace fs = std::filesystem;

class DriverLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(path(""));
    rootfs_.reset(::open(path("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  std::string path(const std::string& name) const {
    return directory_.File("rootfs" + name);
  }
  std::string outside() const { return directory_.File("outside"); }
  Result<void> Place(const std::string& destination) const {
    return PlaceLink(rootfs_.get(), destination, "/inbox/data");
  }
  std::string LinkAt(const std::string& name) const {
    std::error_code error;
    const fs::path target = fs::read_symlink(path(name), error);
    return error ? "no link" : target.string();
  }

 private:
  const TempDirectory directory_;
  UniqueFd rootfs_;
};

TEST_F(DriverLinks, ALinkAndItsDirectoriesAreMade) {
  EXPECT_THAT(Place("/var/lib/data"), IsOk());
  EXPECT_EQ(LinkAt("/var/lib/data"), "/inbox/data");
  EXPECT_THAT(Place("/var/lib/data"), IsOk());
  EXPECT_THAT(Place("/data"), IsOk());
  EXPECT_EQ(LinkAt("/data"), "/inbox/data");
}

TEST_F(DriverLinks, AnEmptyDirectoryGivesWay) {
  fs::create_directories(path("/data"));
  EXPECT_THAT(Place("/data"), IsOk());
  EXPECT_EQ(LinkAt("/data"), "/inbox/data");
}

TEST_F(DriverLinks, TheImagesOwnFilesStay) {
  fs::create_directories(path("/full/inner"));
  std::ofstream(path("/file")) << "x";
  fs::create_symlink("/elsewhere", path("/link"));
  for (const char* name : {"/full", "/file", "/link"}) {
    EXPECT_THAT(Place(name), IsErr(Code::kAlreadyExists)) << name;
  }
  EXPECT_TRUE(fs::exists(path("/full/inner")));
  EXPECT_EQ(LinkAt("/link"), "/elsewhere");
  EXPECT_FALSE(Place("/file/data"));
}

// A hostile image leads the directories of the link out of the rootfs.
TEST_F(DriverLinks, TheImagesSymlinksStayWithin) {
  fs::create_directory(outside());
  fs::create_symlink(outside(), path("/absolute"));
  fs::create_symlink("../outside", path("/relative"));
  fs::create_symlink("../../../../../..", path("/up"));
  fs::create_symlink("real", path("/good"));
  fs::create_directory(path("/real"));
  EXPECT_FALSE(Place("/absolute/data"));
  EXPECT_FALSE(Place("/relative/data"));
  EXPECT_THAT(Place("/up/data"), IsOk());
  EXPECT_EQ(LinkAt("/data"), "/inbox/data");
  EXPECT_THAT(Place("/good/data"), IsOk());
  EXPECT_EQ(LinkAt("/real/data"), "/inbox/data");
  EXPECT_TRUE(fs::is_empty(outside()));
}

TEST_F(DriverLinks, ADestinationIsChecked) {
  for (const char* bad : {"", "/", "data", "/../data", "/proc/data", "/dev"}) {
    EXPECT_THAT(Place(bad), IsErr(Code::kInvalidArgument)) << bad;
  }
}

}  // namespace
}  // namespace mountd::driver
