// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/user_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/outcome.h"

namespace mountd {
namespace {

constexpr uid_t kUser = 1000;
constexpr gid_t kPrimary = 5000;

// Answers with an entry that needs a buffer of `length`, or fails with `err`.
auto Entry(int err, std::size_t length = 0) {
  return [err, length](uid_t uid, passwd* entry, char* /*buffer*/,
                       std::size_t size, passwd** found) {
    static char name[] = "user";
    *found = nullptr;
    if (err != 0 || size < length) {
      return err != 0 ? err : ERANGE;
    }
    entry->pw_name = name;
    entry->pw_uid = uid;
    entry->pw_gid = kPrimary;
    *found = entry;
    return 0;
  };
}

// Answers with so many groups from the primary one on, as getgrouplist(3) does.
auto Groups(int number) {
  return
      [number](const char* /*name*/, gid_t primary, gid_t* groups, int* count) {
        const int room = std::exchange(*count, number);
        std::iota(groups, groups + std::min(room, number), primary);
        return *count <= room ? *count : -1;
      };
}

std::vector<gid_t> FromPrimaryOn(int number) {
  std::vector<gid_t> groups(static_cast<std::size_t>(number));
  std::iota(groups.begin(), groups.end(), kPrimary);
  return groups;
}

TEST(UserGroupsTest, RootIsOfItsGroup) {
  const Result<UserGroups> groups = GroupsOf(0);
  ASSERT_EQ(MessageOf(groups), "Ok");
  EXPECT_EQ(groups->primary, 0U);
  EXPECT_EQ(std::count(groups->all.begin(), groups->all.end(), 0U), 1);
}

TEST(UserGroupsTest, FewAndManyGroupsAreFound) {
  for (const int number : {1, 63, 64, 65, 300}) {
    const Result<UserGroups> groups =
        GroupsOf(kUser, {Entry(0), Groups(number)});
    ASSERT_EQ(MessageOf(groups), "Ok");
    EXPECT_EQ(groups->primary, kPrimary);
    EXPECT_EQ(groups->all, FromPrimaryOn(number));
  }
}

// The element that nobody has written must not make the user one of root's
// group.
TEST(UserGroupsTest, GroupsThatBecomeMoreMeanwhileAreFound) {
  int calls = 0;
  // 70 groups at first, and 71 from then on.
  const auto growing = [&calls](const char* name, gid_t primary, gid_t* into,
                                int* count) {
    return Groups(std::min(70 + calls++, 71))(name, primary, into, count);
  };
  const Result<UserGroups> groups = GroupsOf(kUser, {Entry(0), growing});
  ASSERT_EQ(MessageOf(groups), "Ok");
  EXPECT_EQ(groups->all, FromPrimaryOn(71));
}

// glibc answers -1, and leaves the count alone, if memory is short.
TEST(UserGroupsTest, WithoutMemoryNobodyIsOfRootsGroup) {
  const auto no_memory = [](const char*, gid_t, gid_t*, int*) { return -1; };
  EXPECT_EQ(Outcome(GroupsOf(kUser, {Entry(0), no_memory})), "Unavailable");
}

TEST(UserGroupsTest, ALongEntryIsRead) {
  const Result<UserGroups> groups =
      GroupsOf(kUser, {Entry(0, 100'000), Groups(2)});
  ASSERT_EQ(MessageOf(groups), "Ok");
  EXPECT_EQ(groups->primary, kPrimary);
  EXPECT_EQ(groups->all, FromPrimaryOn(2));
}

TEST(UserGroupsTest, AnEntryWithoutEndIsRefused) {
  EXPECT_EQ(Outcome(GroupsOf(kUser, {Entry(ERANGE), Groups(1)})),
            "Unavailable");
}

TEST(UserGroupsTest, AnUnknownUserHasNoGroup) {
  for (const int err : {ENOENT, ESRCH, EBADF, EPERM}) {
    const Result<UserGroups> groups = GroupsOf(kUser, {Entry(err), Groups(1)});
    ASSERT_EQ(MessageOf(groups), "Ok");
    EXPECT_EQ(groups->primary, UINT32_MAX);
    EXPECT_TRUE(groups->all.empty());
  }
  EXPECT_EQ(GroupsOf(UINT32_MAX - 2)->primary, UINT32_MAX);
}

// An empty answer would be remembered as long as the caller is connected.
TEST(UserGroupsTest, ADatabaseThatDoesNotAnswerIsAnError) {
  for (const int err : {EIO, EMFILE, ENOMEM, EAGAIN}) {
    EXPECT_EQ(Outcome(GroupsOf(kUser, {Entry(err), Groups(1)})), "Unavailable");
  }
}

}  // namespace
}  // namespace mountd
