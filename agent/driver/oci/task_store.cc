// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/task_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/driver/images/digest.h"
#include "agent/driver/namespaces/remove_tree.h"
#include "agent/driver/oci/files.h"
#include "agent/driver/oci/oci_driver.h"
#include "agent/driver/oci/task_processes.h"

namespace mountd::driver {
namespace {

constexpr char kRecordFile[] = "task.json";
constexpr std::size_t kKeyDigits = 32;
constexpr std::size_t kMostRecord = std::size_t{16} << 20U;
// An image may take minutes to unpack.
constexpr std::chrono::minutes kLockPatience{15};
constexpr std::chrono::seconds kKillPatience{30};

Result<TaskRecord> ReadRecord(int directory) {
  MOUNTD_ASSIGN(const std::string text,
                ReadFile(directory, kRecordFile, kMostRecord));
  return ParseRecord(text);
}

bool IsKey(const std::string& name) {
  return name.size() == kKeyDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Returns the names in a directory. The list may lack or have names that come
// or go during the call.
std::vector<std::string> NamesIn(int directory) {
  std::vector<std::string> names;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(
      copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    names.emplace_back(&entry->d_name[0]);
  }
  return names;
}

Error NoSuchTask(const std::string& task_id) {
  return MakeError(Code::kNotFound, "task", task_id,
                   "this driver has no such task");
}

}  // namespace

std::string KeyOf(const std::string& task_id) {
  return Sha256Hex(task_id).substr(0, kKeyDigits);
}

Result<TaskCgroup> CgroupOf(const Host& host, const TaskPlace& place) {
  if (!place.record.cgroup.empty()) {
    return CgroupSubtree::FindAt(place.record.cgroup);
  }
  if (!place.record.has_cgroup || host.cgroups() == nullptr) {
    return MakeError(Code::kNotFound, "cgroup", place.record.id,
                     "the task has no cgroup");
  }
  return host.cgroups()->Find(place.Cgroup());
}

Result<KeyLock> TaskStore::Lock(const std::string& task_id) const {
  auto lock = KeyLock::Take(host_.state() + "/lock", Sha256Hex(task_id),
                            KeyLock::Mode::kExclusive,
                            std::chrono::steady_clock::now() + kLockPatience);
  if (!lock && lock.error().code == Code::kDeadlineExceeded) {
    return MakeError(Code::kDeadlineExceeded, "lock", task_id,
                     "another call starts or removes the task; call again");
  }
  return lock;
}

Result<TaskPlace> TaskStore::Find(const std::string& task_id) const {
  TaskPlace place;
  place.key = KeyOf(task_id);
  place.path = host_.state() + "/tasks/" + place.key;
  auto directory = OpenDirectory(host_.tasks(), place.key);
  if (!directory) {
    return directory.error().code == Code::kNotFound ? NoSuchTask(task_id)
                                                     : directory.error();
  }
  place.directory = *std::move(directory);
  auto record = ReadRecord(place.directory.get());
  if (!record) {
    return record.error().code == Code::kNotFound ? NoSuchTask(task_id)
                                                  : record.error();
  }
  place.record = *std::move(record);
  return place;
}

Result<TaskPlace> TaskStore::Make(const std::string& task_id) const {
  TaskPlace place;
  place.key = KeyOf(task_id);
  place.path = host_.state() + "/tasks/" + place.key;
  MOUNTD_ASSIGN(place.directory, MakeDirectory(host_.tasks(), place.key));
  for (const char* name : {"bundle", "bundle/rootfs", "upper", "work"}) {
    MOUNTD_ASSIGN(const UniqueFd made,
                  MakeDirectory(place.directory.get(), name));
  }
  return place;
}

Result<void> TaskStore::WriteRecord(const TaskPlace& place) {
  // This write does not sync the directory. MarkStarted does so later, and a
  // task without that mark has not run.
  return WriteFile(place.directory.get(), kRecordFile, RecordText(place.record),
                   Sync::kFile);
}

// Kills by the cgroup, and finds a task without a cgroup by the root directory
// of its processes.
Result<void> TaskStore::KillAll(const std::string& key) const {
  std::string recorded;
  if (const auto directory = OpenDirectory(host_.tasks(), key)) {
    if (const auto record = ReadRecord(directory->get())) {
      recorded = record->cgroup;
    }
  }
  const std::string own = host_.CgroupPath("task-" + key);
  bool had_cgroup = false;
  for (const std::string& path : {recorded, own}) {
    if (!path.empty()) {
      MOUNTD_ASSIGN(const bool was_there,
                    CgroupSubtree::RemoveAt(path, kKillPatience));
      had_cgroup = had_cgroup || was_there;
    }
  }
  return had_cgroup
             ? Ok()
             : KillProcessesWithUpper(
                   host_.state() + "/tasks/" + key + "/upper", kKillPatience);
}

// A machine without user namespaces has run no task, so all files are this
// user's own.
Result<void> TaskStore::RemoveDirectory(const std::string& key) const {
  const auto space = host_.namespaces().Shared();
  if (space) {
    return RemoveTreeAsRootOf(*space, host_.removed(), key);
  }
  std::error_code failed;
  std::filesystem::remove_all(host_.state() + "/removed/" + key, failed);
  return failed ? Result<void>(space.error()) : Ok();
}

Result<bool> TaskStore::Discard(const std::string& task_id) const {
  const std::string key = KeyOf(task_id);
  const bool is_there = IsThere(host_.tasks(), key);
  if (is_there) {
    MOUNTD_TRY(KillAll(key));
    // The files of the runtime's state are this user's own.
    std::error_code failed;
    std::filesystem::remove_all(host_.RuntimeRoot() + "/" + key, failed);
    if (failed) {
      return ErrnoError(failed.value(), "remove", "state of the OCI runtime");
    }
  }
  const bool was_removed = IsThere(host_.removed(), key);
  if (is_there && !was_removed &&
      ::renameat(host_.tasks(), key.c_str(), host_.removed(), key.c_str()) !=
          0) {
    return ErrnoError(errno, "rename", "the task's directory");
  }
  if (is_there || was_removed) {
    MOUNTD_TRY(RemoveDirectory(key));
  }
  if (is_there && was_removed) {
    // An earlier call was killed during the removal of an earlier task.
    return Discard(task_id);
  }
  return is_there || was_removed;
}

void TaskStore::Sweep(const std::string& own_key) const {
  for (const std::string& key : NamesIn(host_.removed())) {
    if (key == own_key || !IsKey(key)) {
      continue;
    }
    // KeyLock takes 64 digits, and only the first ones decide the lock. A name
    // has half as many, so it is repeated.
    const auto lock = KeyLock::TryTake(host_.state() + "/lock", key + key,
                                       KeyLock::Mode::kExclusive);
    if (lock) {
      IgnoreBecauseBestEffort(RemoveDirectory(key));
    }
  }
}

std::set<std::string> TaskStore::ImageDigests() const {
  std::set<std::string> digests;
  for (const std::string& name : NamesIn(host_.tasks())) {
    if (const auto directory = OpenDirectory(host_.tasks(), name)) {
      if (const auto record = ReadRecord(directory->get())) {
        digests.insert(record->image_digest);
      }
    }
  }
  return digests;
}

Result<std::set<std::pair<std::string, std::string>>> TaskStore::Names() const {
  std::set<std::pair<std::string, std::string>> names;
  for (const std::string& key : NamesIn(host_.tasks())) {
    const auto directory = OpenDirectory(host_.tasks(), key);
    const auto record = directory ? ReadRecord(directory->get())
                                  : Result<TaskRecord>(directory.error());
    if (record) {
      names.emplace(record->allocation, record->name);
    } else if (record.error().code != Code::kNotFound) {
      return record.error();
    }
  }
  return names;
}

namespace {

// Calls `take` with each task of the allocation that runs now, and with its
// directory.
Result<void> ForEachRunningTask(
    const std::string& allocation,
    const std::function<void(const TaskRecord&, std::string)>& take) {
  constexpr std::string_view kUpper = "/upper";
  MOUNTD_ASSIGN(const std::set<std::string> uppers, UppersOfProcesses());
  for (const std::string& upper : uppers) {
    if (!upper.ends_with(kUpper)) {
      continue;  // another program's container
    }
    std::string path = upper.substr(0, upper.size() - kUpper.size());
    const UniqueFd directory(
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // Root may look at the tasks of all users, and runs none.
    struct stat status = {};
    if (!directory.valid() || ::fstat(directory.get(), &status) != 0 ||
        status.st_uid != ::geteuid()) {
      continue;
    }
    const auto record = ReadRecord(directory.get());
    if (record && record->allocation == allocation) {
      take(*record, std::move(path));
    }
  }
  return Ok();
}

}  // namespace

Result<std::vector<std::string>> DirectoriesOfRunningTasks(
    const std::string& allocation) {
  std::vector<std::string> found;
  MOUNTD_TRY(ForEachRunningTask(allocation,
                                [&](const TaskRecord&, std::string directory) {
                                  found.push_back(std::move(directory));
                                }));
  return found;
}

Result<std::set<std::string>> NamesOfRunningTasks(
    const std::string& allocation) {
  std::set<std::string> names;
  MOUNTD_TRY(ForEachRunningTask(
      allocation,
      [&](const TaskRecord& record, const std::string& /*directory*/) {
        names.insert(record.name);
      }));
  return names;
}

}  // namespace mountd::driver
