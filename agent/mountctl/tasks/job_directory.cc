// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/job_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/mountctl/tasks/random_hex.h"
#include "mountd/base/names.h"
#include "mountd/base/write_all.h"

namespace mountd::agent {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPrivateDirectory = 0700;
constexpr mode_t kPrivateFile = 0600;
constexpr char kLock[] = "lock";
constexpr char kCgroup[] = "cgroup";
constexpr char kWatcherLock[] = "watcher.lock";
constexpr std::string_view kRecordEnd = ".json";
constexpr std::string_view kRemoved = "removed-";

Result<void> MakePrivate(const std::string& path) {
  if (::mkdir(path.c_str(), kPrivateDirectory) < 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", path);
  }
  return Ok();
}

Result<void> MakeParents(const std::string& path) {
  std::string part;
  for (const fs::path& name : fs::path(path)) {
    part = (fs::path(part) / name).string();
    struct stat status {};
    if (::stat(part.c_str(), &status) < 0) {
      MOUNTD_TRY(MakePrivate(part));
    }
  }
  return Ok();
}

// Removes a directory of a job. If this process may not remove all of it, calls
// `remove_tree`.
Result<void> RemoveJob(const fs::path& path,
                       const JobDirectory::RemoveTree& remove_tree) {
  constexpr int kTries = 10;
  std::error_code failed;
  for (int i = 0; i < kTries; ++i) {
    fs::remove_all(path, failed);
    // Another process may put a file there meanwhile, because it makes the same
    // job. Its Lock then fails.
    if (failed != std::errc::directory_not_empty) {
      break;
    }
  }
  if (!failed) {
    return Ok();
  }
  return remove_tree ? remove_tree(path.string())
                     : ErrnoError(failed.value(), "remove", path.string());
}

// Makes a directory to which every user may write who can reach it.
Result<void> MakeForTasks(int parent, const std::string& name,
                          const std::string& path) {
  // The umask takes permissions from mkdir(2) alone.
  constexpr mode_t kForAll = 01777;
  if (::mkdirat(parent, name.c_str(), kPrivateDirectory) < 0 &&
      errno != EEXIST) {
    return ErrnoError(errno, "mkdir", path);
  }
  const UniqueFd made(::openat(
      parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!made.valid() || ::fstat(made.get(), &status) < 0) {
    return ErrnoError(errno, "open", path);
  }
  // A task's root may have given the directory to another user of the task.
  const bool is_own = status.st_uid == ::geteuid();
  if (is_own && ::fchmod(made.get(), kForAll) < 0) {
    return ErrnoError(errno, "chmod", path);
  }
  return Ok();
}

std::string JobPath(const std::string& state, const std::string& allocation) {
  return state + "/jobs/" + allocation;
}

Result<std::string> ReadAll(int fd, const std::string& path) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0) {
      return ErrnoError(errno, "read", path);
    }
    if (size == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

// Returns a lock of the whole file that belongs to the open file description.
// So a forked child holds the lock as long as it has the fd (fcntl(2)).
struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<std::string> StatePath(const std::string& option) {
  if (!option.empty()) {
    std::error_code failed;
    const std::string path = fs::absolute(option, failed).string();
    if (failed) {
      return ErrnoError(failed.value(), "resolve", option);
    }
    return path;
  }
  const auto variable = [](const char* name) -> std::string {
    const char* value = ::secure_getenv(name);
    // Relative paths are invalid in these variables (the XDG Base Directory
    // Specification).
    return value != nullptr && *value == '/' ? value : "";
  };
  if (const std::string base = variable("XDG_STATE_HOME"); !base.empty()) {
    return base + "/mountd";
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    return home + "/.local/state/mountd";
  }
  return MakeError(Code::kFailedPrecondition, "find", "the state of tasks",
                   "neither --state nor XDG_STATE_HOME nor HOME names an "
                   "absolute path");
}

Result<std::vector<std::string>> ListJobs(const std::string& state) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator one(state + "/jobs", failed), end;
       !failed && one != end; one.increment(failed)) {
    std::string name = one->path().filename().string();
    std::error_code unknown;
    // A file in this place is no job. For a directory that is no job, Open has
    // the error.
    if (IsValidName(name) && (one->is_directory(unknown) || unknown)) {
      names.push_back(std::move(name));
    }
  }
  if (failed && failed != std::errc::no_such_file_or_directory &&
      failed != std::errc::permission_denied) {
    return ErrnoError(failed.value(), "list", state + "/jobs");
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<JobDirectory> JobDirectory::OpenPath(const std::string& allocation,
                                            const std::string& path) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  // The user owns the directory, so a directory above it denies the access:
  // HOME may be another user's, as after setpriv(1). No task of this user is
  // there.
  if (!fd.valid() && errno == EACCES) {
    return MakeError(Code::kNotFound, "open", path,
                     "this user may not enter its parent directories; choose "
                     "another --state");
  }
  if (!fd.valid()) {
    return ErrnoError(errno, "open", path,
                      errno == ENOENT ? "mountctl runs no tasks of it" : "");
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) < 0) {
    return ErrnoError(errno, "stat", path);
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 022U) != 0) {
    return MakeError(
        Code::kFailedPrecondition, "open", path,
        status.st_uid != ::geteuid()
            ? path + " belongs to uid " + std::to_string(status.st_uid) +
                  "; run mountctl as that user, or choose another "
                  "--state"
            : "others may write to " + path + "; take their permission away");
  }
  return JobDirectory(allocation, path, std::move(fd));
}

Result<JobDirectory> JobDirectory::Open(const std::string& state,
                                        const std::string& allocation) {
  MOUNTD_TRY(Name::Parse("allocation", allocation));
  return OpenPath(allocation, JobPath(state, allocation));
}

Result<JobDirectory> JobDirectory::Make(const std::string& state,
                                        const std::string& allocation) {
  MOUNTD_TRY(Name::Parse("allocation", allocation));
  const std::string path = JobPath(state, allocation);
  MOUNTD_TRY(MakeParents(path));
  MOUNTD_ASSIGN(JobDirectory directory, OpenPath(allocation, path));
  MOUNTD_TRY(MakePrivate(directory.logs()));
  for (const char* name : {kLock, kWatcherLock}) {
    const UniqueFd made(::openat(directory.fd_.get(), name,
                                 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                                 kPrivateFile));
    if (!made.valid()) {
      return ErrnoError(errno, "create", path + "/" + name);
    }
  }
  return directory;
}

Result<JobDirectory::Locked> JobDirectory::MakeLocked(
    const std::string& state, const std::string& allocation,
    const TakeLock& lock) {
  for (;;) {
    Result<JobDirectory> directory = Make(state, allocation);
    Result<UniqueFd> taken = directory ? lock(*directory) : directory.error();
    if (directory && taken) {
      return Locked{*std::move(directory), *std::move(taken)};
    }
    const Code code = taken.error().code;
    if (code != Code::kAborted && code != Code::kNotFound) {
      return taken.error();
    }
  }
}

Result<UniqueFd> JobDirectory::OpenLock(const char* name) const {
  // Never makes the file, because that could hinder a removal under way.
  UniqueFd file(::openat(fd_.get(), name, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT
               ? MakeError(Code::kAborted, "lock", path_,
                           "the job was removed meanwhile; call again")
               : ErrnoError(errno, "open", path_ + "/" + name);
  }
  return file;
}

Result<UniqueFd> JobDirectory::Lock() const {
  MOUNTD_ASSIGN(UniqueFd file, OpenLock(kLock));
  while (::flock(file.get(), LOCK_EX) < 0) {
    if (errno != EINTR) {
      return ErrnoError(errno, "lock", path_);
    }
  }
  MOUNTD_TRY(CheckName());
  return file;
}

Result<std::optional<UniqueFd>> JobDirectory::TryLock() const {
  MOUNTD_ASSIGN(UniqueFd file, OpenLock(kLock));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    MOUNTD_TRY(CheckName());
    return std::optional(std::move(file));
  }
  if (errno == EWOULDBLOCK) {
    return std::optional<UniqueFd>();
  }
  return ErrnoError(errno, "lock", path_);
}

// Remove renames the directory before it removes anything. So a directory
// without its name belongs to a job that was removed.
Result<void> JobDirectory::CheckName() const {
  struct stat held {};
  struct stat named {};
  if (::fstat(fd_.get(), &held) < 0) {
    return ErrnoError(errno, "stat", path_);
  }
  if (::lstat(path_.c_str(), &named) < 0 && errno != ENOENT) {
    return ErrnoError(errno, "stat", path_);
  }
  if (named.st_ino != held.st_ino || named.st_dev != held.st_dev) {
    return MakeError(Code::kAborted, "lock", path_,
                     "the job was removed meanwhile; call again");
  }
  return Ok();
}

Result<bool> JobDirectory::IsLocked() const {
  MOUNTD_ASSIGN(const UniqueFd file, OpenLock(kLock));
  // Takes a shared lock, because two processes that look at once must not see
  // each other's lock.
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    return false;
  }
  return errno == EWOULDBLOCK ? Result<bool>(true)
                              : ErrnoError(errno, "lock", path_);
}

Result<std::optional<UniqueFd>> JobDirectory::TakeWatch() const {
  MOUNTD_ASSIGN(UniqueFd file, OpenLock(kWatcherLock));
  struct flock whole = WholeFile();
  if (::fcntl(file.get(), F_OFD_SETLK, &whole) == 0) {
    return std::optional(std::move(file));
  }
  if (errno == EAGAIN || errno == EACCES) {
    return std::optional<UniqueFd>();
  }
  return ErrnoError(errno, "lock", path_ + "/watcher.lock");
}

Result<bool> JobDirectory::IsWatched() const {
  const UniqueFd file(
      ::openat(fd_.get(), kWatcherLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT ? Result<bool>(false)
                           : ErrnoError(errno, "open", path_ + "/watcher.lock");
  }
  struct flock whole = WholeFile();
  if (::fcntl(file.get(), F_OFD_GETLK, &whole) < 0) {
    return ErrnoError(errno, "lock", path_ + "/watcher.lock");
  }
  return whole.l_type != F_UNLCK;
}

Result<std::string> JobDirectory::ReadText(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  const UniqueFd file(::openat(fd_.get(), name.c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoError(errno, "open", path);
  }
  return ReadAll(file.get(), path);
}

Result<TaskRecord> JobDirectory::ReadFile(const std::string& name) const {
  MOUNTD_ASSIGN(const std::string text, ReadText(name));
  return RecordFromText(text, path_ + "/" + name);
}

Result<driver::TaskDirectories> JobDirectory::MakeTaskDirectories(
    const std::string& task) const {
  MOUNTD_TRY(Name::Parse("task", task));
  driver::TaskDirectories made;
  made.logs = logs();
  made.alloc = path_ + "/alloc";
  made.local = path_ + "/local/" + task;
  MOUNTD_TRY(MakeForTasks(fd_.get(), "alloc", made.alloc));
  MOUNTD_TRY(MakePrivate(path_ + "/local"));
  MOUNTD_TRY(MakeForTasks(fd_.get(), "local/" + task, made.local));
  return made;
}

Result<void> JobDirectory::SetCgroup(const std::string& path) const {
  return Replace(kCgroup, path);
}

Result<std::string> JobDirectory::Cgroup() const {
  Result<std::string> path = ReadText(kCgroup);
  if (!path && path.error().code == Code::kNotFound) {
    return std::string();
  }
  return path;
}

Result<std::vector<TaskRecord>> JobDirectory::Records(
    std::vector<Error>* unreadable) const {
  std::vector<TaskRecord> records;
  std::error_code failed;
  // Reads by the fd, because the path may belong to another job by now.
  const std::string here = "/proc/self/fd/" + std::to_string(fd_.get());
  for (fs::directory_iterator one(here, failed), end; !failed && one != end;
       one.increment(failed)) {
    const std::string name = one->path().filename().string();
    if (!name.ends_with(kRecordEnd)) {
      continue;
    }
    Result<TaskRecord> record = ReadFile(name);
    if (record) {
      records.push_back(*std::move(record));
    } else if (record.error().code != Code::kNotFound) {
      if (unreadable == nullptr) {
        return record.error();
      }
      unreadable->push_back(record.error());
    }
  }
  if (failed) {
    return ErrnoError(failed.value(), "list", path_);
  }
  std::sort(records.begin(), records.end(),
            [](const TaskRecord& one, const TaskRecord& other) {
              return std::pair(one.order, one.name()) <
                     std::pair(other.order, other.name());
            });
  return records;
}

Result<std::optional<TaskRecord>> JobDirectory::Read(
    const std::string& task) const {
  MOUNTD_TRY(Name::Parse("task", task));
  Result<TaskRecord> record = ReadFile(task + std::string(kRecordEnd));
  if (record) {
    return std::optional(*std::move(record));
  }
  if (record.error().code == Code::kNotFound) {
    return std::optional<TaskRecord>();
  }
  return record.error();
}

Result<void> JobDirectory::Write(const TaskRecord& record) const {
  MOUNTD_TRY(Name::Parse("task", record.name()));
  MOUNTD_ASSIGN(const std::string text, ToText(record));
  return Replace(record.name() + std::string(kRecordEnd), text);
}

Result<void> JobDirectory::Forget(const std::string& task) const {
  MOUNTD_TRY(Name::Parse("task", task));
  const std::string name = task + std::string(kRecordEnd);
  if (::unlinkat(fd_.get(), name.c_str(), 0) < 0 && errno != ENOENT) {
    return ErrnoError(errno, "unlink", path_ + "/" + name);
  }
  if (::fsync(fd_.get()) < 0) {
    return ErrnoError(errno, "fsync", path_);
  }
  return Ok();
}

Result<void> JobDirectory::Replace(const std::string& name,
                                   const std::string& text) const {
  const std::string path = path_ + "/" + name;
  // Only the holder of the lock writes, so one temporary name is enough. The
  // next writer overwrites the file of a killed writer.
  const std::string made = "." + name + ".new";
  const UniqueFd file(::openat(
      fd_.get(), made.c_str(),
      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kPrivateFile));
  if (!file.valid()) {
    return ErrnoError(errno, "create", path);
  }
  MOUNTD_TRY(WriteAll(file.get(), text, path));
  if (::fsync(file.get()) < 0) {
    return ErrnoError(errno, "fsync", path);
  }
  if (::renameat(fd_.get(), made.c_str(), fd_.get(), name.c_str()) < 0) {
    return ErrnoError(errno, "rename", path);
  }
  // The new name is on the disk only after this (fsync(2)).
  if (::fsync(fd_.get()) < 0) {
    return ErrnoError(errno, "fsync", path_);
  }
  return Ok();
}

Result<void> JobDirectory::Remove(const RemoveTree& remove_tree) const {
  std::error_code failed;
  const std::string state = fs::path(path_).parent_path().parent_path();
  MOUNTD_ASSIGN(const std::string random, RandomHex(path_));
  // Renames the directory first, so that nobody adds a record while it is
  // removed.
  const std::string removed =
      state + "/" + std::string(kRemoved) + random + "." + allocation_;
  if (::rename(path_.c_str(), removed.c_str()) < 0) {
    return ErrnoError(errno, "rename", path_);
  }
  // Also removes the directories that killed removals have left.
  for (fs::directory_iterator one(state, failed), end; !failed && one != end;
       one.increment(failed)) {
    if (!one->path().filename().string().starts_with(kRemoved)) {
      continue;
    }
    Result<void> left = RemoveJob(one->path(), remove_tree);
    if (!left && one->path() == removed) {
      return left;
    }
  }
  return failed ? ErrnoError(failed.value(), "list", state) : Ok();
}

}  // namespace mountd::agent
