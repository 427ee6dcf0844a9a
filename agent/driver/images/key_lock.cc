// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/key_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include "mountd/base/number.h"

namespace mountd::driver {
namespace {

// Take polls, because the kernel's own wait for such a lock has no deadline.
constexpr auto kPoll = std::chrono::milliseconds(10);
// 15 hexadecimal digits fit off_t.
constexpr std::size_t kOffsetDigits = 15;

}  // namespace

Result<void> KeyLock::Set(Mode mode) {
  const auto offset =
      ParseNumber<off_t>(std::string_view(key_).substr(0, kOffsetDigits), 16);
  if (!offset) {
    return MakeError(Code::kInternal, "lock", key_, "is no key");
  }
  struct flock lock {};
  lock.l_type = mode == Mode::kShared ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = *offset;
  lock.l_len = 1;
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) != 0) {
    const int err = errno;
    if (err == EAGAIN || err == EACCES) {
      return MakeError(Code::kBusy, "lock", key_, "is in use");
    }
    return ErrnoError(err, "lock", key_);
  }
  return Ok();
}

Result<KeyLock> KeyLock::TryTake(const std::string& file,
                                 const std::string& key, Mode mode) {
  KeyLock lock(
      UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                      S_IRUSR | S_IWUSR)),
      key);
  if (!lock.fd_.valid()) {
    return ErrnoError(errno, "open", file);
  }
  MOUNTD_TRY(lock.Set(mode));
  return lock;
}

Result<KeyLock> KeyLock::Take(const std::string& file, const std::string& key,
                              Mode mode,
                              std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    Result<KeyLock> lock = TryTake(file, key, mode);
    if (lock || lock.error().code != Code::kBusy) {
      return lock;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return MakeError(Code::kDeadlineExceeded, "lock", key,
                       "another process works on this image; call again");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

Result<void> KeyLock::Share() { return Set(Mode::kShared); }

}  // namespace mountd::driver
