// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/out_of_memory.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace mountd {
namespace {

// The test calls the handler that operator new calls, because a sanitizer's
// operator new may never call it.
TEST(OutOfMemoryDeathTest, TheProcessEndsAndSaysWhich) {
  EXPECT_EXIT(
      {
        EndWhenOutOfMemory("some-program");
        std::get_new_handler()();
      },
      ::testing::KilledBySignal(SIGABRT), "^some-program: out of memory\n$");
}

#ifndef MOUNTD_SANITIZED
TEST(OutOfMemoryDeathTest, NothingIsThrown) {
  EXPECT_EXIT(
      {
        EndWhenOutOfMemory("some-program");
        try {
          static_cast<void>(::operator new (std::size_t{1} << 62U));
        } catch (const std::bad_alloc&) {
          std::_Exit(0);
        }
      },
      ::testing::KilledBySignal(SIGABRT), "some-program: out of memory");
}
#endif

}  // namespace
}  // namespace mountd
