// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/log_pump.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "mountd/base/number.h"

namespace mountd::shim {
namespace {

// Other events of the shim wait while the pump moves so many pieces.
constexpr int kMostMoves = 16;
// A log is for its owner alone, as the task's directory is.
constexpr mode_t kLogMode = 0600;

std::uint64_t BytesIn(int pipe) {
  int bytes = 0;
  return ::ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > 0
             ? static_cast<std::uint64_t>(bytes)
             : 0;
}

// False if all writers have closed the pipe, so that no byte can come.
bool HasWriterLeft(int pipe) {
  pollfd end = {pipe, POLLIN, 0};
  return ::poll(&end, 1, 0) <= 0 || (end.revents & POLLHUP) == 0;
}

// A pipe is full once all its pages are in use, and a task can fill pages with
// a few bytes each (sendfile(2)). So the byte count alone is not enough. This
// function also tries to make the pipe smaller, because the kernel refuses that
// while too many pages are in use.
bool IsHalfFull(int pipe) {
  const int capacity = ::fcntl(pipe, F_GETPIPE_SZ);
  if (capacity <= ::sysconf(_SC_PAGESIZE) ||
      BytesIn(pipe) >= static_cast<std::uint64_t>(capacity) / 2) {
    return true;
  }
  if (::fcntl(pipe, F_SETPIPE_SZ, capacity / 2) < 0) {
    return errno == EBUSY;
  }
  ::fcntl(pipe, F_SETPIPE_SZ, capacity);
  return false;
}

// Returns the number after the highest N of the files "PATH.N", 0 without any.
std::uint64_t NextFileOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string prefix = path.substr(slash + 1) + ".";
  std::uint64_t next = 0;
  DIR* const entries = ::opendir(directory.c_str());
  if (entries == nullptr) {
    return next;
  }
  while (const dirent* const entry = ::readdir(entries)) {
    const std::string_view name = &entry->d_name[0];
    if (name.starts_with(prefix)) {
      const auto number =
          ParseNumber<std::uint64_t>(name.substr(prefix.size()));
      next = number ? std::max(next, *number + 1) : next;
    }
  }
  ::closedir(entries);
  return next;
}

}  // namespace

Result<int> LogPump::OpenTasksEnd() {
  if (stream_->sink == Sink::kPassed) {
    tasks_end_ = std::move(stream_->passed);
    return tasks_end_.get();
  }
  if (stream_->sink == Sink::kNone) {
    tasks_end_.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    return tasks_end_.valid() ? Result<int>(tasks_end_.get())
                              : ErrnoError(errno, "open", "/dev/null");
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(errno, "pipe2", "the task's output");
  }
  pipe_.reset(ends[0]);
  const UniqueFd writing(ends[1]);
  // Opens the task's end for reading, too. So a task whose shim was killed
  // keeps running, because a write to a pipe with a reader causes no SIGPIPE.
  const std::string again = "/proc/self/fd/" + std::to_string(writing.get());
  tasks_end_.reset(::open(again.c_str(), O_RDWR | O_CLOEXEC));
  if (!tasks_end_.valid()) {
    return ErrnoError(errno, "open", "the task's output");
  }
  return tasks_end_.get();
}

int LogPump::WaitFd() const {
  if (!pipe_.valid() || !full_since_ || is_dropping_) {
    return pipe_.get();
  }
  // A file is always writable for poll(2), even on a full disk.
  return IsFiles() ? -1 : sink_.get();
}

short LogPump::WaitEvents() const {
  return WaitFd() == pipe_.get() ? POLLIN : POLLOUT;
}

std::optional<Milliseconds> LogPump::WakeAt() const {
  if (!pipe_.valid() || !full_since_ || is_dropping_) {
    return std::nullopt;
  }
  return next_try_;
}

void LogPump::Pump(Milliseconds now) {
  for (int i = 0; i < kMostMoves && pipe_.valid(); ++i) {
    switch (MoveSome(now)) {
      case Moved::kSome:
        full_since_.reset();
        is_dropping_ = false;
        break;
      case Moved::kNothing:
        // A task can read its own output, so the pipe can be empty although the
        // sink took nothing. An empty pipe waits for no sink. A pump that drops
        // bytes continues to drop, because its pipe is empty after each drop.
        if (!is_dropping_) {
          full_since_.reset();
        }
        return;
      case Moved::kEnd:
        pipe_.reset();
        sink_.reset();
        return;
      case Moved::kSinkFull:
        DropIfTooLong(now);
        return;
    }
  }
}

LogPump::Moved LogPump::MoveSome(Milliseconds now) {
  const std::uint64_t waiting = BytesIn(pipe_.get());
  if (waiting == 0) {
    // Looks at the bytes again, because the last write may have come after the
    // first look.
    return HasWriterLeft(pipe_.get()) || BytesIn(pipe_.get()) > 0
               ? Moved::kNothing
               : Moved::kEnd;
  }
  if (IsFiles() && sink_.valid() && file_size_ >= stream_->file_bytes) {
    sink_.reset();
  }
  if (!sink_.valid() && !OpenSink(now)) {
    return Moved::kSinkFull;
  }
  std::uint64_t most = waiting;
  if (IsFiles()) {
    most = std::min(most, stream_->file_bytes - file_size_);
  }
  const ssize_t moved = ::splice(pipe_.get(), nullptr, sink_.get(), nullptr,
                                 most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (moved <= 0) {
    return AfterFailedMove(now);
  }
  file_size_ += static_cast<std::uint64_t>(moved);
  return Moved::kSome;
}

LogPump::Moved LogPump::AfterFailedMove(Milliseconds now) {
  if (errno == EAGAIN && BytesIn(pipe_.get()) == 0) {
    return Moved::kNothing;
  }
  if (errno != EAGAIN && errno != EINTR) {
    // The FIFO's reader has gone (EPIPE), or the disk is full. The next try
    // opens the sink again.
    sink_.reset();
    next_try_ = now + kPatience;
  }
  return Moved::kSinkFull;
}

void LogPump::DropIfTooLong(Milliseconds now) {
  if (!full_since_) {
    full_since_ = now;
  }
  next_try_ = std::max(next_try_, *full_since_ + kPatience);
  if (next_try_ <= now) {
    next_try_ = now + kPatience;
  }
  is_dropping_ = is_dropping_ ||
                 (now - *full_since_ >= kPatience && IsHalfFull(pipe_.get()));
  if (!is_dropping_) {
    return;
  }
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const ssize_t moved = ::splice(pipe_.get(), nullptr, null.get(), nullptr,
                                 BytesIn(pipe_.get()), SPLICE_F_NONBLOCK);
  dropped_ += static_cast<std::uint64_t>(std::max<ssize_t>(moved, 0));
}

bool LogPump::OpenSink(Milliseconds now) {
  if (now < next_try_) {
    return false;
  }
  const bool is_open = IsFiles() ? OpenFile() : OpenFifo();
  if (!is_open) {
    sink_.reset();
    next_try_ = now + kPatience;
  }
  return is_open;
}

// ENXIO: nobody reads. The task may write to a directory above the FIFO, so no
// link on the way leads the shim to another file of its user.
bool LogPump::OpenFifo() {
  open_how how{};
  how.flags = O_WRONLY | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  sink_.reset(static_cast<int>(::syscall(
      SYS_openat2, AT_FDCWD, stream_->path.c_str(), &how, sizeof(how))));
  struct stat file = {};
  return sink_.valid() && ::fstat(sink_.get(), &file) == 0 &&
         S_ISFIFO(file.st_mode);
}

// Makes a new file, because the shim of an earlier start may still write to the
// last file. Neither shim appends, so they would overwrite each other's bytes.
// After an error the pump opens its own file again.
bool LogPump::OpenFile() {
  for (;;) {
    const bool is_new = !file_;
    const std::uint64_t number = is_new ? NextFileOf(stream_->path) : *file_;
    // Without O_APPEND, because splice(2) refuses such a file.
    sink_.reset(::open(FilePath(number).c_str(),
                       O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                           O_NONBLOCK | (is_new ? O_EXCL : 0),
                       kLogMode));
    struct stat file = {};
    if (!sink_.valid() || ::fstat(sink_.get(), &file) != 0 ||
        !S_ISREG(file.st_mode) || ::lseek(sink_.get(), 0, SEEK_END) < 0) {
      return false;
    }
    file_ = number;
    file_size_ = static_cast<std::uint64_t>(file.st_size);
    if (is_new) {
      RemoveOldFiles();
    }
    if (file_size_ < stream_->file_bytes) {
      return true;
    }
    file_.reset();
  }
}

void LogPump::RemoveOldFiles() const {
  for (std::uint64_t number = *file_; number >= stream_->files; --number) {
    if (::unlink(FilePath(number - stream_->files).c_str()) != 0) {
      return;
    }
  }
}

std::string LogPump::FilePath(std::uint64_t number) const {
  return stream_->path + "." + std::to_string(number);
}

}  // namespace mountd::shim
