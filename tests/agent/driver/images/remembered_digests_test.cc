// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/remembered_digests.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

class Remembered : public ::testing::Test {
 protected:
  Result<void> Put(const std::string& key, const std::string& identity,
                   const std::string& digest) {
    return digests_.Put(key, identity, digest, directory_.File("new"));
  }

  TempDirectory directory_;
  const RememberedDigests digests_{directory_.File(".")};
  const std::string key_ = std::string(64, '1');
  const std::string digest_ = std::string(64, 'd');
};

TEST_F(Remembered, KnowsADigestForTheSameIdentityAlone) {
  EXPECT_EQ(digests_.Find(key_, "file 1"), std::nullopt);
  ASSERT_THAT(Put(key_, "file 1", digest_), IsOk());
  EXPECT_EQ(digests_.Find(key_, "file 1"), digest_);
  EXPECT_EQ(digests_.Find(key_, "file 2"), std::nullopt);
  ASSERT_THAT(Put(key_, "file 2", digest_), IsOk());
  EXPECT_EQ(digests_.Find(key_, "file 1"), std::nullopt);
}

TEST_F(Remembered, TakesACutOffFileForNone) {
  ASSERT_THAT(Put(key_, "file 1", digest_), IsOk());
  std::string whole;
  std::getline(std::ifstream(directory_.File(key_)), whole, '\0');
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(directory_.File(key_)) << whole.substr(0, size);
    EXPECT_EQ(digests_.Find(key_, "file 1"), std::nullopt) << size;
  }
}

TEST_F(Remembered, ForgetsTheDigestsThatAreGone) {
  const std::string other(64, '2');
  ASSERT_THAT(Put(key_, "file 1", digest_), IsOk());
  ASSERT_THAT(Put(other, "file 2", std::string(64, 'e')), IsOk());
  digests_.KeepOnly({digest_});
  EXPECT_EQ(digests_.Find(key_, "file 1"), digest_);
  EXPECT_EQ(digests_.Find(other, "file 2"), std::nullopt);
}

TEST_F(Remembered, TheIdentityOfAnArchiveChangesWithIt) {
  const ImageReference archive{ImageReference::Kind::kOciArchive,
                               directory_.File("a.tar"), ""};
  EXPECT_THAT(IdentityOf(archive), IsErr(Code::kNotFound));
  std::ofstream(archive.path) << "one";
  ASSERT_OK_AND_ASSIGN(const std::string one, IdentityOf(archive));
  EXPECT_THAT(IdentityOf(archive).value(), one);
  std::ofstream(archive.path) << "other";
  EXPECT_NE(IdentityOf(archive).value(), one);
}

TEST_F(Remembered, AnArchiveIsNoFifo) {
  const ImageReference archive{ImageReference::Kind::kOciArchive,
                               directory_.File("fifo"), ""};
  ASSERT_EQ(::mkfifo(archive.path.c_str(), 0600), 0);
  EXPECT_THAT(IdentityOf(archive),
              IsErrOf(Code::kInvalidArgument, "regular file"));
}

}  // namespace
}  // namespace mountd::driver
