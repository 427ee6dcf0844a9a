// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/state_dir.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "mountd/base/write_all.h"
#include "netns/cni/documents/names.h"
#include "netns/cni/trusted_files.h"

namespace mountd::cni {
namespace {

// mountd accepts no '@' in a container id, nor in an interface name.
constexpr char kSeparator = '@';
constexpr char kAll[] = "@";
constexpr mode_t kOwnersOnly = S_IRUSR | S_IWUSR;

std::string FileOf(const Attachment& attachment) {
  return attachment.container_id + kSeparator + attachment.ifname;
}

std::optional<Attachment> AttachmentOf(const std::string& file) {
  const std::size_t at = file.find(kSeparator);
  if (at == std::string::npos) {
    return std::nullopt;
  }
  Attachment attachment{file.substr(0, at), file.substr(at + 1)};
  return IsContainerId(attachment.container_id) &&
                 IsInterfaceName(attachment.ifname)
             ? std::optional<Attachment>(std::move(attachment))
             : std::nullopt;
}

// Writes the whole file, or leaves the old file unchanged.
Result<void> Replace(int directory, const Record& record, bool on_disk) {
  const std::string name = FileOf(record.attachment);
  const std::string object = record.attachment.ToText();
  // The holder of the lock alone writes this file.
  const std::string fresh = "." + name;
  const std::string text = ToText(ToJson(record));
  if (text.size() > kRecordBounds.max_bytes) {
    return MakeError(Code::kResourceExhausted, "record", object,
                     "has a record that is too large to store");
  }
  // O_TRUNC and not O_EXCL, because a run that was killed may have left the
  // file.
  const UniqueFd file(::openat(
      directory, fresh.c_str(),
      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kOwnersOnly));
  if (!file.valid()) {
    return ErrnoError(errno, "open", object);
  }
  MOUNTD_TRY(WriteAll(file.get(), text, object));
  // The data must be on disk before the rename, or a crash could leave an empty
  // file.
  if (on_disk && ::fdatasync(file.get()) != 0) {
    return ErrnoError(errno, "fdatasync", object);
  }
  if (::renameat(directory, fresh.c_str(), directory, name.c_str()) != 0) {
    return ErrnoError(errno, "rename", object);
  }
  // fsync(2): the directory's entry needs a sync of its own.
  return on_disk && ::fsync(directory) != 0
             ? Result<void>(ErrnoError(errno, "fsync", object))
             : Ok();
}

bool IsThere(int directory, const std::string& name) {
  return ::faccessat(directory, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// Returns whether the locked file is still at its name, because an earlier
// holder may have removed it.
bool IsStillThere(int directory, const std::string& name, int fd) {
  struct stat held {};
  struct stat there {};
  return ::fstat(fd, &held) == 0 &&
         ::fstatat(directory, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         held.st_ino == there.st_ino;
}

}  // namespace

StateDir::StateDir(UniqueFd records, UniqueFd locks, UniqueFd kept)
    : records_(std::move(records)),
      locks_(std::move(locks)),
      kept_(std::move(kept)) {}

Result<StateDir> StateDir::Open(const std::string& path,
                                const std::string& kept_path) {
  MOUNTD_ASSIGN(const UniqueFd top, OpenPrivateDirectory(path));
  MOUNTD_ASSIGN(UniqueFd records, OpenPrivateDirectoryAt(top.get(), "records"));
  MOUNTD_ASSIGN(UniqueFd locks, OpenPrivateDirectoryAt(top.get(), "locks"));
  UniqueFd kept;
  if (!kept_path.empty()) {
    MOUNTD_ASSIGN(kept, OpenPrivateDirectory(kept_path));
  }
  return StateDir(std::move(records), std::move(locks), std::move(kept));
}

bool StateDir::IsRecorded(const Attachment& attachment) const {
  return IsThere(records_.get(), FileOf(attachment));
}

bool StateDir::IsOfEarlierBoot(const Attachment& attachment) const {
  return kept_.valid() && !IsRecorded(attachment) &&
         IsThere(kept_.get(), FileOf(attachment));
}

Result<std::optional<Record>> StateDir::Load(
    const Attachment& attachment) const {
  const bool earlier_boot = IsOfEarlierBoot(attachment);
  const Result<std::string> text =
      ReadTrustedFile(earlier_boot ? kept_.get() : records_.get(),
                      FileOf(attachment), kRecordBounds.max_bytes);
  if (!text && text.error().code == Code::kNotFound) {
    return std::optional<Record>();
  }
  MOUNTD_TRY(text);
  MOUNTD_ASSIGN(const Json json,
                ParseObject(*text, kRecordBounds, attachment.ToText()));
  MOUNTD_ASSIGN(Record record, ReadRecord(json, attachment));
  // A record of an earlier boot is never complete (record.h).
  record.earlier_boot = earlier_boot;
  record.complete = record.complete && !earlier_boot;
  return std::optional<Record>(std::move(record));
}

Result<void> StateDir::Save(const Record& record) const {
  return Replace(records_.get(), record, /*on_disk=*/false);
}

Result<void> StateDir::Keep(const Record& record) const {
  return kept_.valid() ? Replace(kept_.get(), record, /*on_disk=*/true) : Ok();
}

// Removes this boot's record before the kept record. A kill between the two
// leaves the kept record alone, so the attachment looks like one of an earlier
// boot. mountd then detaches the attachment again, which does no harm.
Result<void> StateDir::Remove(const Attachment& attachment) const {
  const std::string name = FileOf(attachment);
  for (const int directory : {records_.get(), kept_.get()}) {
    // A kill in Replace leaves the file with the dot.
    for (const std::string& file : {"." + name, name}) {
      if (directory >= 0 && ::unlinkat(directory, file.c_str(), 0) != 0 &&
          errno != ENOENT) {
        return ErrnoError(errno, "unlink", attachment.ToText());
      }
    }
  }
  return Ok();
}

Result<std::vector<Attachment>> StateDir::List() const {
  std::set<Attachment> attachments;
  for (const int directory : {records_.get(), kept_.get()}) {
    if (directory < 0) {
      continue;
    }
    MOUNTD_ASSIGN(const std::vector<std::string> names, ListNames(directory));
    for (const std::string& name : names) {
      if (auto attachment = AttachmentOf(name)) {
        attachments.insert(std::move(*attachment));
      }
    }
  }
  return std::vector<Attachment>(attachments.begin(), attachments.end());
}

Result<void> StateDir::ForgetLocksWithoutRecords() const {
  MOUNTD_ASSIGN(const std::vector<std::string> names, ListNames(locks_.get()));
  for (const std::string& name : names) {
    const auto attachment = AttachmentOf(name);
    if (attachment && !IsRecorded(*attachment)) {
      ForgetLock(*attachment);
    }
  }
  return Ok();
}

Result<UniqueFd> StateDir::Lock(const Attachment& attachment,
                                const Deadline& deadline, int stop) const {
  return LockFile(FileOf(attachment), LOCK_EX, deadline, stop);
}

Result<UniqueFd> StateDir::LockAll(Share share, const Deadline& deadline,
                                   int stop) const {
  return LockFile(kAll, share == Share::kAlone ? LOCK_EX : LOCK_SH, deadline,
                  stop);
}

Result<UniqueFd> StateDir::LockFile(const std::string& name, int operation,
                                    const Deadline& deadline, int stop) const {
  // Polls, because flock(2) cannot wait until a deadline.
  constexpr int kPauseMs = 5;
  for (;;) {
    UniqueFd file(::openat(locks_.get(), name.c_str(),
                           O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                           kOwnersOnly));
    if (!file.valid()) {
      return ErrnoError(errno, "open", name);
    }
    while (::flock(file.get(), operation | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return ErrnoError(errno, "flock", name);
      }
      pollfd end = {stop, POLLIN, 0};
      if (::poll(&end, 1, kPauseMs) > 0) {
        return MakeError(Code::kAborted, "lock", name,
                         "mountd-cni-run must end before it gets the lock");
      }
      if (deadline.Passed()) {
        return MakeError(
            Code::kDeadlineExceeded, "lock", name,
            "another operation still holds the lock; call again later");
      }
    }
    if (IsStillThere(locks_.get(), name, file.get())) {
      return file;
    }
  }
}

void StateDir::ForgetLock(const Attachment& attachment) const {
  ::unlinkat(locks_.get(), FileOf(attachment).c_str(), 0);
}

}  // namespace mountd::cni
