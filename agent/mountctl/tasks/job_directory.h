// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountctl/tasks/task_record.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// mountctl's state on the disk:
//
//   <state>/tasks/                  the task driver's
//   <state>/jobs/<allocation>/      0700
//     lock                          held while somebody changes the job
//     watcher.lock                  held while a watcher lives
//     <task>.json                   a record, replaced as a whole
//     cgroup                        the path of the tasks' cgroup
//     logs/                         the tasks' rotated logs
//     alloc/                        /alloc of each task
//     local/<task>/                 /local of the task
//   <state>/removed-<hex>.<allocation>/  a job, while it is removed
namespace mountd::agent {

// Returns --state, or $XDG_STATE_HOME/mountd, or ~/.local/state/mountd.
// FailedPrecondition if none of the three is known.
Result<std::string> StatePath(const std::string& option);

// Returns the allocations that have a directory, sorted; none if the caller may
// not enter `state`.
Result<std::vector<std::string>> ListJobs(const std::string& state);

// Holds the directory of one allocation's job, by an fd. So the object never
// sees the directory of a later job of the same name.
class JobDirectory {
 public:
  // Opens the directory. NotFound if there is none, or if the caller may not
  // enter a directory above it. FailedPrecondition unless the caller owns the
  // directory and nobody else writes to it.
  static Result<JobDirectory> Open(const std::string& state,
                                   const std::string& allocation);
  // Does the same, and makes missing directories and files.
  static Result<JobDirectory> Make(const std::string& state,
                                   const std::string& allocation);

  // Makes missing directories and files, and locks the job by `lock`. Begins
  // again if somebody removes the job meanwhile.
  struct Locked;
  using TakeLock = std::function<Result<UniqueFd>(const JobDirectory&)>;
  static Result<Locked> MakeLocked(const std::string& state,
                                   const std::string& allocation,
                                   const TakeLock& lock = &JobDirectory::Lock);

  const std::string& allocation() const { return allocation_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  std::string logs() const { return path_ + "/logs"; }

  // Makes the directories of a task, except the directory of its secrets, which
  // mountd makes. Each user of the task may write to these directories. No
  // other user of the host may pass the job's directory.
  Result<driver::TaskDirectories> MakeTaskDirectories(
      const std::string& task) const;

  // Waits until nobody else changes the job. Aborted if the directory was
  // removed meanwhile. Closing the fd unlocks.
  Result<UniqueFd> Lock() const;
  // Locks without waiting; returns nothing if somebody else changes the job.
  Result<std::optional<UniqueFd>> TryLock() const;

  // Returns whether somebody changes the job just now.
  Result<bool> IsLocked() const;

  // Returns the watcher's lock, which forked children share; nothing if a
  // watcher lives. Closing all copies of the fd unlocks.
  Result<std::optional<UniqueFd>> TakeWatch() const;
  // Returns whether a watcher lives, without a moment in which a watcher could
  // not take its lock.
  Result<bool> IsWatched() const;

  // Returns all records, in the order of their starts. Adds the errors of files
  // that cannot be read to `unreadable`; null: the first one fails the call.
  Result<std::vector<TaskRecord>> Records(
      std::vector<Error>* unreadable = nullptr) const;
  // Returns nothing if there is no record of the task.
  Result<std::optional<TaskRecord>> Read(const std::string& task) const;
  // Replaces the record. The new record is on the disk when the function
  // returns.
  Result<void> Write(const TaskRecord& record) const;
  // Removes the record of a task that nothing runs any more.
  Result<void> Forget(const std::string& task) const;

  // Keeps the path of the cgroup that the tasks' driver uses; "": none.
  Result<void> SetCgroup(const std::string& path) const;
  Result<std::string> Cgroup() const;

  // Removes the directory and all that is in it. The caller has the lock.
  // Renames the directory first, so whoever locks the directory later gets
  // Aborted. Calls `remove_tree` with the absolute path of a directory that has
  // files of the tasks' users; null: such files are an error.
  using RemoveTree = std::function<Result<void>(const std::string& path)>;
  Result<void> Remove(const RemoveTree& remove_tree = {}) const;

 private:
  JobDirectory(std::string allocation, std::string path, UniqueFd fd)
      : allocation_(std::move(allocation)),
        path_(std::move(path)),
        fd_(std::move(fd)) {}

  static Result<JobDirectory> OpenPath(const std::string& allocation,
                                       const std::string& path);
  Result<UniqueFd> OpenLock(const char* name) const;
  Result<void> CheckName() const;
  Result<void> Replace(const std::string& name, const std::string& text) const;
  Result<std::string> ReadText(const std::string& name) const;
  Result<TaskRecord> ReadFile(const std::string& name) const;

  std::string allocation_;
  std::string path_;
  UniqueFd fd_;
};

struct JobDirectory::Locked {
  JobDirectory directory;
  UniqueFd lock;
};

}  // namespace mountd::agent
