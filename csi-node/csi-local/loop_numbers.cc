// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/loop_numbers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <string>

#include "csi-node/csi-local/files.h"
#include "mountd/base/number.h"
#include "mountd/base/write_all.h"

namespace mountd::csi_local {
namespace {

constexpr char kNumbersFile[] = "loop-numbers";
constexpr char kNewNumbersFile[] = "loop-numbers~";
constexpr std::size_t kMaxNumbersFile = 16;
// Reserves this many numbers with one write to the disk. A restart skips the
// unused ones.
constexpr int kReserved = 64;

bool IsLoopNumber(int number) {
  return number >= kFirstLoopNumber && number < kEndLoopNumber;
}

// Starts at a random number, so that two data directories, or one that was made
// again, begin far apart.
int AnyNumber() {
  std::random_device random;
  return std::uniform_int_distribution<int>(kFirstLoopNumber,
                                            kEndLoopNumber - 1)(random);
}

}  // namespace

Result<int> LoopNumbers::ReadNext() const {
  const UniqueFd file(::openat(directory_.get(), kNumbersFile,
                               O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT
               ? Result<int>(AnyNumber())
               : Result<int>(ErrnoError(errno, "openat", kNumbersFile));
  }
  MOUNTD_ASSIGN(const std::string text,
                ReadAll(file.get(), kMaxNumbersFile, kNumbersFile));
  const auto number = ParseNumber<int>(text);
  // A damaged file counts as missing.
  return number && IsLoopNumber(*number) ? *number : AnyNumber();
}

Result<void> LoopNumbers::WriteNext(int next) const {
  // O_TRUNC and not O_EXCL, because a crash before the rename leaves this file.
  const UniqueFd file(
      ::openat(directory_.get(), kNewNumbersFile,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return ErrnoError(errno, "openat", kNewNumbersFile);
  }
  MOUNTD_TRY(WriteAll(file.get(), std::to_string(next), kNewNumbersFile));
  // Writes the file to the disk before anybody uses the numbers, so that no
  // number is used twice after a power cut.
  if (::fsync(file.get()) != 0 ||
      ::renameat(directory_.get(), kNewNumbersFile, directory_.get(),
                 kNumbersFile) != 0 ||
      ::fsync(directory_.get()) != 0) {
    return ErrnoError(errno, "replace", kNumbersFile);
  }
  return Ok();
}

Result<int> LoopNumbers::Take() {
  const std::lock_guard guard(mutex_);
  if (left_ == 0) {
    MOUNTD_ASSIGN(int next, ReadNext());
    if (next + kReserved > kEndLoopNumber) {
      next = kFirstLoopNumber;
    }
    MOUNTD_TRY(WriteNext(next + kReserved == kEndLoopNumber
                             ? kFirstLoopNumber
                             : next + kReserved));
    next_ = next;
    left_ = kReserved;
  }
  --left_;
  return next_++;
}

}  // namespace mountd::csi_local
