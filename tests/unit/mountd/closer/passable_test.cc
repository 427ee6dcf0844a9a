// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/passable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>

#include "mountd/base/unique_fd.h"
#include "mountd/closer/passed_fd.h"
#include "tests/support/temp_directory.h"

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

// A write end that mountd had would keep the pipe of a lease alive.
TEST(Passable, OfPipesOnlyTheReadEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(reading.get());
  const UniqueFd both(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(IsPassable(reading.get()));
  EXPECT_FALSE(IsPassable(writing.get()));
  EXPECT_FALSE(IsPassable(both.get()));
  EXPECT_TRUE(IsPipeReadEnd(reading.get()));
  EXPECT_FALSE(IsPipeReadEnd(writing.get()));
  EXPECT_TRUE(HasWriter(reading.get()));
}

TEST(Passable, NoFifoOfAFileSystem) {
  const TempDirectory directory;
  const std::string path = directory.File("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd fifo(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(fifo.valid());
  EXPECT_FALSE(IsPassable(fifo.get()));
  EXPECT_FALSE(IsPipeReadEnd(fifo.get()));
}

TEST(Passable, APipeWithoutAWriterIsSeen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  // Data that nobody reads changes nothing.
  ASSERT_EQ(::write(writing.get(), "x", 1), 1);
  EXPECT_TRUE(HasWriter(reading.get()));
  writing.reset();
  EXPECT_FALSE(HasWriter(reading.get()));
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
                             &memory, &writing, &one, &other}) {
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
