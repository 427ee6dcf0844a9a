// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace mountd::testing {

// Makes it impossible to start a thread while this object lives, because no
// stack can be that large.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t none = before_;
    EXPECT_EQ(pthread_attr_setstacksize(&none, std::size_t{1} << 47U), 0);
    EXPECT_EQ(pthread_setattr_default_np(&none), 0);
  }
  ~NoThreads() { EXPECT_EQ(pthread_setattr_default_np(&before_), 0); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace mountd::testing
