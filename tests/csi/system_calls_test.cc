// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/system_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "csi-node/mountd-csi/harden.h"

namespace mountd::csi {
namespace {

// Ends this process, a child of a death test, with the result of `act` after
// giving up all that mountd-csi gives up.
void Confined(const std::function<bool()>& act) {
  if (!GiveUpPrivileges() || !RestrictSystemCalls()) {
    ::_exit(3);
  }
  ::_exit(act() ? 0 : 1);
}

TEST(SystemCalls, WhatIsNeededWorks) {
  EXPECT_EXIT(Confined([] {
                const std::vector<char> memory(std::size_t{8} << 20U, 'x');
                std::thread thread([] { std::this_thread::yield(); });
                thread.join();
                struct stat file {};
                return ::fstat(0, &file) == 0 && memory.back() == 'x';
              }),
              ::testing::ExitedWithCode(0), "");
}

TEST(SystemCalls, AProgramEndsTheProcess) {
  EXPECT_EXIT(Confined([] {
                ::execl("/bin/true", "true", nullptr);
                return true;
              }),
              ::testing::KilledBySignal(SIGSYS), "");
}

#ifndef MOUNTD_SANITIZED
bool Refused(long result) { return result < 0 && errno == EACCES; }

TEST(SystemCalls, FilesAndSocketsAreRefused) {
  EXPECT_EXIT(Confined([] {
                struct stat file {};
                return Refused(::open("/etc/passwd", O_RDONLY)) &&
                       Refused(::socket(AF_UNIX, SOCK_STREAM, 0)) &&
                       Refused(::socket(AF_INET, SOCK_STREAM, 0)) &&
                       Refused(::stat("/etc/passwd", &file)) &&
                       Refused(::access("/", F_OK));
              }),
              ::testing::ExitedWithCode(0), "");
}

TEST(SystemCalls, WhatOnlyAnIntruderDoesEndsTheProcess) {
  const std::vector<std::function<void()>> acts{
      [] { ::fork(); },
      [] { ::kill(::getppid(), 0); },
      [] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); },
      [] { ::unlink("/nothing"); },
      [] { ::syscall(SYS_io_uring_setup, 1, nullptr); },
      [] {
        ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      }};
  for (const auto& act : acts) {
    EXPECT_EXIT(Confined([&] {
                  act();
                  return true;
                }),
                ::testing::KilledBySignal(SIGSYS), "");
  }
}
#endif

}  // namespace
}  // namespace mountd::csi
