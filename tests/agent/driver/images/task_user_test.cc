// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/task_user.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/driver/images/beneath.h"
#include "tests/support/matchers.h"
#include "tests/support/naive.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

constexpr char kPasswd[] =
    "# a comment\n"
    "root:x:0:0:root:/root:/bin/sh\n"
    "broken:x:1\n"
    "bad:x:abc:1::/:/bin/sh\n"
    "huge:x:4294967295:1::/:/bin/sh\n"
    "www:x:33:34:web:/var/www:/bin/false\n"
    "1234:x:77:78::/:/bin/sh\n"
    "nohome:x:55:56::relative:/bin/sh\n";
constexpr char kGroup[] =
    "root:x:0:\n"
    "www:x:34:www\n"
    "log:x:4:syslog,www\n"
    "log2:x:4:www\n"
    "ssl:x:110:wwwx,xwww\n"
    "big:x:4294967296:www\n"
    "adm:x:7:www\n";

class ResolveUserIn : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(directory_.File("root"));
    std::filesystem::create_directory(directory_.File("root/etc"));
    Write("root/etc/passwd", kPasswd);
    Write("root/etc/group", kGroup);
    ASSERT_OK_AND_ASSIGN(root_, OpenTree(directory_.File("root")));
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.File(name)) << text;
  }
  void Remove(const std::string& name) {
    std::filesystem::remove(directory_.File(name));
  }
  Result<TaskUser> Resolve(std::string_view user) {
    return ResolveUser(root_.get(), user);
  }

  TempDirectory directory_;
  UniqueFd root_;
};

TEST_F(ResolveUserIn, ReadsEachForm) {
  struct Case {
    const char* text;
    TaskUser user;
  };
  const Case cases[] = {
      {"", {0, 0, {}, "root", "/root"}},
      {"root", {0, 0, {}, "root", "/root"}},
      {"www", {33, 34, {4, 7}, "www", "/var/www"}},
      {"33", {33, 34, {4, 7}, "www", "/var/www"}},
      {"www:log", {33, 4, {}, "www", "/var/www"}},
      {"www:9", {33, 9, {}, "www", "/var/www"}},
      {"33:log", {33, 4, {}, "www", "/var/www"}},
      {"1000", {1000, 0, {}, "", "/"}},
      {"1000:1001", {1000, 1001, {}, "", "/"}},
      // A text of digits is an id, though a user has that name.
      {"1234", {1234, 0, {}, "", "/"}},
      {"nohome", {55, 56, {}, "nohome", "/"}},
      {":log", {0, 4, {}, "root", "/root"}},
      {"2147483647", {2147483647, 0, {}, "", "/"}},
  };
  for (const Case& one : cases) {
    ASSERT_OK_AND_ASSIGN(const TaskUser user, Resolve(one.text));
    EXPECT_EQ(user, one.user) << one.text;
  }
}

TEST_F(ResolveUserIn, RefusesNamesThatAreNotThere) {
  for (const char* user : {"nobody", "broken", "bad", "huge", "www:nobody",
                           "www:big", "-1", "+1", " root"}) {
    EXPECT_THAT(Resolve(user), IsErrOf(Code::kNotFound, "give a")) << user;
  }
}

TEST_F(ResolveUserIn, RefusesMalformedUsers) {
  const std::string cases[] = {"2147483648",
                               "4294967295",
                               "99999999999999999999",
                               "0:2147483648",
                               "www:",
                               ":",
                               "a:b:c",
                               std::string(600, 'a'),
                               std::string("ro\0ot", 5)};
  for (const std::string& user : cases) {
    EXPECT_THAT(Resolve(user), IsErr(Code::kInvalidArgument)) << user;
  }
}

TEST_F(ResolveUserIn, TakesIdsWithoutTheFiles) {
  Remove("root/etc/passwd");
  Remove("root/etc/group");
  ASSERT_OK_AND_ASSIGN(const TaskUser user, Resolve("7:8"));
  EXPECT_EQ(user, (TaskUser{7, 8, {}, "", "/"}));
  EXPECT_THAT(Resolve("www"), IsErrOf(Code::kNotFound, "no /etc/passwd"));
  ASSERT_OK_AND_ASSIGN(const TaskUser root, Resolve(""));
  EXPECT_EQ(root, (TaskUser{0, 0, {}, "", "/"}));
}

TEST_F(ResolveUserIn, LinksLeadToFilesOfTheImage) {
  Write("passwd", "evil:x:0:0::/:/bin/sh\n");
  for (const std::string& target :
       {directory_.File("passwd"), std::string("../../passwd"),
        std::string("../../../../../../../../etc/passwd")}) {
    Remove("root/etc/passwd");
    std::filesystem::create_symlink(target, directory_.File("root/etc/passwd"));
    EXPECT_NAIVE(std::filesystem::exists(directory_.File("root/etc/passwd")));
    EXPECT_THAT(Resolve("evil"), ::testing::Not(IsOk())) << target;
    EXPECT_THAT(Resolve("daemon"), ::testing::Not(IsOk())) << target;
  }
  // "/usr/passwd" is the image's.
  std::filesystem::create_directory(directory_.File("root/usr"));
  Write("root/usr/passwd", "own:x:5:6::/:/bin/sh\n");
  Remove("root/etc/passwd");
  std::filesystem::create_symlink("/usr/passwd",
                                  directory_.File("root/etc/passwd"));
  ASSERT_OK_AND_ASSIGN(const TaskUser own, Resolve("own"));
  EXPECT_EQ(own.uid, 5U);
}

TEST_F(ResolveUserIn, AWholeDirectoryThatIsALinkStaysInTheImage) {
  std::filesystem::remove_all(directory_.File("root/etc"));
  std::filesystem::create_symlink("/etc", directory_.File("root/usr"));
  std::filesystem::create_symlink("../../../../etc",
                                  directory_.File("root/etc"));
  // The link leads to itself in the image.
  EXPECT_THAT(Resolve("root"), ::testing::Not(IsOk()));
}

TEST_F(ResolveUserIn, NeverWaitsForAFifoOrReadsADevice) {
  Remove("root/etc/passwd");
  ASSERT_EQ(::mkfifo(directory_.File("root/etc/passwd").c_str(), 0666), 0);
  EXPECT_THAT(Resolve("www"), IsErrOf(Code::kInvalidArgument, "regular file"));
  Remove("root/etc/passwd");
  std::filesystem::create_directory(directory_.File("root/etc/passwd"));
  EXPECT_THAT(Resolve("www"), IsErrOf(Code::kInvalidArgument, "regular file"));
}

TEST_F(ResolveUserIn, BoundsTheFiles) {
  std::filesystem::resize_file(directory_.File("root/etc/passwd"),
                               std::uintmax_t{1} << 40U);
  EXPECT_THAT(Resolve("www"), IsErrOf(Code::kInvalidArgument, "at most"));
}

TEST_F(ResolveUserIn, BoundsTheGroups) {
  std::string groups;
  for (int gid = 1; gid < 3000; ++gid) {
    groups +=
        "g" + std::to_string(gid) + ":x:" + std::to_string(gid) + ":www\n";
  }
  Write("root/etc/group", groups);
  EXPECT_THAT(Resolve("www"),
              IsErrOf(Code::kResourceExhausted, "give user:group"));
  EXPECT_THAT(Resolve("www:g5"), IsOk());
}

}  // namespace
}  // namespace mountd::driver
