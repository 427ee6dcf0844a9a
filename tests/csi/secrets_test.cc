// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/types/secrets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mountd::csi {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

UniqueFd SealedMemfd(std::string_view bytes, int seals) {
  UniqueFd fd(::memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(static_cast<ssize_t>(bytes.size()),
            ::write(fd.get(), bytes.data(), bytes.size()));
  EXPECT_EQ(0, ::fcntl(fd.get(), F_ADD_SEALS, seals));
  return fd;
}

constexpr int kAllSeals =
    F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

Code DecodeError(std::string_view bytes) {
  const Result<Secrets> secrets = DecodeSecrets(SealedMemfd(bytes, kAllSeals));
  return secrets ? Code{} : secrets.error().code;
}

TEST(Secrets, ComeBackSortedAsTheyWereEncoded) {
  const Result<UniqueFd> fd = EncodeSecrets(
      Entries{{"user", "anna"}, {"key", "p\xc3\xa4ss"}, {"e", ""}});
  ASSERT_TRUE(fd);
  const Result<Secrets> secrets = DecodeSecrets(*fd);
  ASSERT_TRUE(secrets);
  const std::vector<Secrets::Entry> expected{
      {"e", ""}, {"key", "p\xc3\xa4ss"}, {"user", "anna"}};
  EXPECT_EQ(expected, secrets->entries());
}

TEST(Secrets, NoneAreAnEmptyMemfd) {
  const Result<UniqueFd> fd = EncodeSecrets({});
  ASSERT_TRUE(fd);
  const Result<Secrets> secrets = DecodeSecrets(*fd);
  ASSERT_TRUE(secrets);
  EXPECT_TRUE(secrets->empty());
}

TEST(Secrets, AreValidAfterAMove) {
  Result<Secrets> secrets = DecodeSecrets(*EncodeSecrets({{"k", "v"}}));
  ASSERT_TRUE(secrets);
  const Secrets moved = std::move(*secrets);
  ASSERT_EQ(1U, moved.entries().size());
  EXPECT_EQ("v", moved.entries()[0].second);
}

TEST(Secrets, TheEncodedMemfdCannotBeChanged) {
  const Result<UniqueFd> fd = EncodeSecrets({{"k", "v"}});
  ASSERT_TRUE(fd);
  EXPECT_EQ(-1, ::pwrite(fd->get(), "x", 1, 0));
  EXPECT_EQ(-1, ::ftruncate(fd->get(), 0));
  EXPECT_EQ(kAllSeals, ::fcntl(fd->get(), F_GET_SEALS));
}

TEST(Secrets, EncodingRefusesWhatCannotCross) {
  EXPECT_FALSE(EncodeSecrets({{"", "v"}}));
  EXPECT_FALSE(EncodeSecrets({{"k", "1"}, {"k", "2"}}));
  EXPECT_FALSE(EncodeSecrets({{"k", std::string("a\0b", 3)}}));
  EXPECT_FALSE(EncodeSecrets({{"k", "\xff"}}));
  EXPECT_FALSE(EncodeSecrets({{"k", std::string(kMaxSecretsBytes, 'x')}}));
}

TEST(Secrets, DecodingRefusesEverythingNotSealedByAllFourSeals) {
  const std::string_view bytes("k\0v", 4);
  for (const int missing :
       {F_SEAL_WRITE, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SEAL}) {
    const Result<Secrets> secrets =
        DecodeSecrets(SealedMemfd(bytes, kAllSeals & ~missing));
    ASSERT_FALSE(secrets);
    EXPECT_EQ(Code::kInvalidArgument, secrets.error().code);
  }
  EXPECT_FALSE(DecodeSecrets(UniqueFd(::open("/dev/null", O_RDONLY))));
  EXPECT_FALSE(DecodeSecrets(UniqueFd()));
}

TEST(Secrets, DecodingRefusesWhatIsNotPairsOfText) {
  for (const std::string_view bytes :
       {std::string_view("k"), std::string_view("k\0v", 3),
        std::string_view("k\0", 2), std::string_view("\0v\0", 3),
        std::string_view("k\0a\0k\0b\0", 8),
        std::string_view("k\0\xff\0", 4)}) {
    EXPECT_EQ(Code::kInvalidArgument, DecodeError(bytes));
  }
  EXPECT_EQ(Code::kInvalidArgument,
            DecodeError(std::string(kMaxSecretsBytes + 1, 'x')));
}

TEST(Secrets, AnErrorNeverHoldsASecret) {
  const Result<Secrets> secrets =
      DecodeSecrets(SealedMemfd("hunter2", kAllSeals));
  ASSERT_FALSE(secrets);
  EXPECT_EQ(std::string::npos, secrets.error().Message().find("hunter2"));
}

}  // namespace
}  // namespace mountd::csi
