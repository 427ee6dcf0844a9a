// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <utility>

#include "agent/driver/images/key_lock.h"
#include "agent/driver/oci/host.h"
#include "agent/driver/oci/task_record.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Returns the name of a task's directory, cgroup and container: a hash of the
// id, because a socket's path has 107 bytes at most.
std::string KeyOf(const std::string& task_id);

// A task's directory, open, and its record.
struct TaskPlace {
  std::string key;
  std::string path;
  UniqueFd directory;
  TaskRecord record;

  std::string Upper() const { return path + "/upper"; }
  std::string Cgroup() const { return "task-" + key; }
};

// Opens the cgroup of the task, which may be in another driver's subtree.
// NotFound if there is none.
Result<TaskCgroup> CgroupOf(const Host& host, const TaskPlace& place);

// Finds, makes and removes the directories of tasks. Any thread, any number of
// processes.
class TaskStore {
 public:
  explicit TaskStore(Host* host) : host_(*host) {}

  // Waits until no other call makes or removes the task.
  Result<KeyLock> Lock(const std::string& task_id) const;

  // NotFound for a task without a directory, or whose directory is not
  // complete.
  Result<TaskPlace> Find(const std::string& task_id) const;

  // Makes the directory of a task, without a record.
  Result<TaskPlace> Make(const std::string& task_id) const;
  static Result<void> WriteRecord(const TaskPlace& place);

  // Kills all that is left of the task, and removes its cgroup, the runtime's
  // state, and its directory. Success if there is none; true if there was one.
  // The caller has the lock, and has ended the shim if one answers.
  Result<bool> Discard(const std::string& task_id) const;

  // Removes the rest of directories that killed calls of other tasks have left.
  // Skips a directory that another call is removing now. The caller holds no
  // lock but that of `own_key`.
  void Sweep(const std::string& own_key) const;

  // The digests of all tasks' images.
  std::set<std::string> ImageDigests() const;

  // Returns each task's allocation and name. An error if a record cannot be
  // read; a directory without one is no task.
  Result<std::set<std::pair<std::string, std::string>>> Names() const;

 private:
  Result<void> KillAll(const std::string& key) const;
  Result<void> RemoveDirectory(const std::string& key) const;

  Host& host_;
};

}  // namespace mountd::driver
