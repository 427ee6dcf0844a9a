// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/unreadable_maps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

constexpr std::size_t kPage = 4096;

// Aborts without memory, because no test can go on then.
template <typename T>
T* NewShared() {
  void* const page = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    std::abort();
  }
  return std::construct_at(static_cast<T*>(page));
}

}  // namespace

UnreadableMaps::UnreadableMaps(FuseServer* server, std::string file)
    : server_(server), file_(std::move(file)), steps_(NewShared<Steps>()) {
  server_->FailReadAndSwallow();
}

UnreadableMaps::~UnreadableMaps() { ::munmap(steps_, sizeof(Steps)); }

bool UnreadableMaps::Begin() const {
  const int file = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  void* const page = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0);
  // Without reading ahead the kernel asks for this page alone.
  if (page == MAP_FAILED || ::madvise(page, kPage, MADV_RANDOM) != 0) {
    return false;
  }
  std::thread([steps = steps_] {
    steps->writer = ::gettid();
    while (!steps->may_write) {
      ::usleep(1000);
    }
    (void)::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }).detach();
  // A sanitizer maps memory as a thread starts, which the fault would prevent.
  while (steps_->writer == 0) {
    ::usleep(1000);
  }
  std::thread([page] {
    (void)*static_cast<volatile const char*>(page);
  }).detach();
  return true;
}

bool UnreadableMaps::Await() const {
  if (!server_->AwaitSwallowed() ||
      !Eventually([this] { return steps_->writer != 0; })) {
    return false;
  }
  steps_->may_write = true;
  return AwaitUnkillable(steps_->writer);
}

bool NaiveReaderWaits(pid_t process) {
  const pid_t naive = ::fork();
  if (naive == 0) {
    std::error_code ignored;
    const std::filesystem::directory_iterator files(
        "/proc/" + std::to_string(process) + "/map_files", ignored);
    const auto count = std::distance(begin(files), end(files));
    ::_exit(static_cast<int>(std::min<std::ptrdiff_t>(count, 127)));
  }
  const bool waits =
      AwaitUnkillable(naive) && ::waitpid(naive, nullptr, WNOHANG) == 0;
  ::kill(naive, SIGKILL);
  return ExitOf(naive) == 128 + SIGKILL && waits;
}

}  // namespace mountd::testing
