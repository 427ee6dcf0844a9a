// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace mountd {

// Makes this process unable to write files while this object lives. Each
// write(2) that would leave a file with any bytes fails with EFBIG
// (setrlimit(2), RLIMIT_FSIZE).
class FullDisk {
 public:
  FullDisk() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  ~FullDisk() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, old_handler_);
  }

  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*const old_handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

}  // namespace mountd
