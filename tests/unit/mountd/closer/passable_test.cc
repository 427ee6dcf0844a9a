// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/passable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "mountd/base/unique_fd.h"

namespace mountd::closer {
namespace {

constexpr off_t kMiB = off_t{1} << 20U;

UniqueFd SealedMemory(off_t size, off_t behind) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), size), 0);
  if (behind > 0) {
    EXPECT_EQ(::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, size, behind), 0);
  }
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS,
                    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
            0);
  return fd;
}

TEST(Passable, WhatMethodsTake) {
  const UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd path(::open("/proc/self/status", O_PATH | O_CLOEXEC));
  const UniqueFd process(
      static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const UniqueFd netns(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(IsPassable(directory.get()));
  EXPECT_TRUE(IsPassable(path.get()));
  EXPECT_TRUE(IsPassable(process.get()));
  EXPECT_TRUE(IsPassable(netns.get()));
  EXPECT_TRUE(IsPassable(SealedMemory(4096, 0).get()));
}

TEST(Passable, NothingElse) {
  const UniqueFd file(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  const UniqueFd device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd mounts(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd inotify(::inotify_init1(IN_CLOEXEC));
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
            0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  for (const UniqueFd* fd : {&file, &device, &mounts, &event, &inotify, &epoll,
                             &memory, &reading, &writing, &one, &other}) {
    ASSERT_TRUE(fd->valid());
    EXPECT_FALSE(IsPassable(fd->get())) << fd->get();
  }
  EXPECT_FALSE(IsPassable(-1));
}

// The last process to close such memory frees all its pages, also those beyond
// its end, and that takes time.
TEST(Passable, NoMemoryThatTakesItsTime) {
  EXPECT_FALSE(IsPassable(SealedMemory(2 * kMiB, 0).get()));
  EXPECT_FALSE(IsPassable(SealedMemory(4096, 2 * kMiB).get()));
}

}  // namespace
}  // namespace mountd::closer
