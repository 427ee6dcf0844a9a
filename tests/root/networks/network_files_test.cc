// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/root/networks/network_fixture.h"

// The files hosts, hostname and resolv.conf of an allocation on the real
// kernel.
namespace mountd::testing {
namespace {

using exec::NetworkFileKind;
using exec::PlanKind;
using exec::Reply;

constexpr char kFilesOfWeb[] = "/run/mountd/base/d/web";

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

UniqueFd Memory(const std::string& text) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
  return fd;
}

class NetworkFiles : public Networks {
 protected:
  Reply Write(NetworkFileKind kind, const std::string& text) {
    return Passing(Memory(text), kind);
  }
  Reply Passing(UniqueFd fd, NetworkFileKind kind) {
    fds_.clear();
    fds_.push_back(std::move(fd));
    const Reply reply = Call(PlanKind::kWriteNetworkFile, [&](auto* body) {
      body->network_file = {exec::ToWire("web"), 1234, kind};
    });
    fds_.clear();
    return reply;
  }
  Reply Remove() {
    return Call(PlanKind::kRemoveNetworkFiles, [](auto* body) {
      body->network_file = {exec::ToWire("web"), 0, NetworkFileKind::kHosts};
    });
  }
};

TEST_F(NetworkFiles, AreRootsAndTheirOwnerMayReachThem) {
  ASSERT_EQ(ErrorOf(Write(NetworkFileKind::kHosts, "127.0.0.1 localhost\n")),
            "");
  ASSERT_EQ(ErrorOf(Write(NetworkFileKind::kHostname, "web\n")), "");
  ASSERT_EQ(ErrorOf(Write(NetworkFileKind::kResolvConf, "search a\n")), "");
  const std::string directory = kFilesOfWeb;
  EXPECT_EQ(TextOf(directory + "/hosts"), "127.0.0.1 localhost\n");
  EXPECT_EQ(TextOf(directory + "/hostname"), "web\n");
  EXPECT_EQ(TextOf(directory + "/resolv.conf"), "search a\n");
  struct stat facts {};
  ASSERT_EQ(::stat(kFilesOfWeb, &facts), 0);
  EXPECT_EQ(facts.st_mode, static_cast<mode_t>(S_IFDIR | 0710));
  EXPECT_EQ(facts.st_uid, 0U);
  EXPECT_EQ(facts.st_gid, 0U);
  ASSERT_EQ(::stat((directory + "/hosts").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode, static_cast<mode_t>(S_IFREG | 0644));
  EXPECT_EQ(facts.st_uid, 0U);
  EXPECT_EQ(ErrorOf(Remove()), "");
  EXPECT_FALSE(Exists(kFilesOfWeb));
  EXPECT_EQ(ErrorOf(Remove()), "");
}

// A task that has the old file open keeps its content.
TEST_F(NetworkFiles, OneThatIsThereIsReplacedAndNotWrittenTo) {
  ASSERT_EQ(ErrorOf(Write(NetworkFileKind::kHosts, "a longer text\n")), "");
  const std::string path = std::string(kFilesOfWeb) + "/hosts";
  std::ifstream held(path);
  ASSERT_EQ(ErrorOf(Write(NetworkFileKind::kHosts, "new\n")), "");
  EXPECT_EQ(TextOf(path), "new\n");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(held), {}),
            "a longer text\n");
  EXPECT_EQ(ErrorOf(Remove()), "");
}

TEST_F(NetworkFiles, WhatIsNoMemoryOrTooMuchIsRefused) {
  EXPECT_EQ(ErrorOf(Write(NetworkFileKind::kHosts,
                          std::string(exec::kMaxNetworkFileBytes, 'x'))),
            "");
  EXPECT_EQ(ErrorOf(Remove()), "");
  EXPECT_NE(ErrorOf(Write(NetworkFileKind::kHosts,
                          std::string(exec::kMaxNetworkFileBytes + 1, 'x'))),
            "");
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd writer(ends[1]);
  EXPECT_NE(ErrorOf(Passing(UniqueFd(ends[0]), NetworkFileKind::kHosts)), "");
  EXPECT_NE(ErrorOf(Write(static_cast<NetworkFileKind>(4), "x")), "");
  EXPECT_FALSE(Exists(kFilesOfWeb));
}

TEST_F(NetworkFiles, EachCallOfAWriteMayFailOrBeTheLast) {
  for (const int error : exec::kEndOrErrorsOfAnyCall) {
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      kernel_.FailOrDieAt(k, error);
      const Reply reply = Write(NetworkFileKind::kHosts, "text\n");
      reached = kernel_.calls().size() >= k;
      kernel_.FailAt(0, 0);
      if (error != 0 && !ErrorOf(reply).empty()) {
        EXPECT_FALSE(Exists(kFilesOfWeb)) << k;
      }
      ASSERT_EQ(ErrorOf(Write(NetworkFileKind::kHosts, "text\n")), "") << k;
      EXPECT_EQ(TextOf(std::string(kFilesOfWeb) + "/hosts"), "text\n");
      ASSERT_EQ(ErrorOf(Remove()), "") << k;
      EXPECT_FALSE(Exists(kFilesOfWeb));
    }
  }
}

}  // namespace
}  // namespace mountd::testing
