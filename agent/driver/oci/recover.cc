// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Finds tasks again, reports their state, and removes what they left.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/driver/bundle/checks.h"
#include "agent/driver/namespaces/remove_tree.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/protocol/task_files.h"

namespace mountd::driver {
namespace {

using shim::Kind;
using shim::Message;
using shim::Tag;

constexpr std::chrono::seconds kDeletePatience{60};

// Returns the time of the file's content; nothing without the file.
std::optional<Timestamp> TimeOf(const TaskPlace& place, const char* name) {
  struct stat file = {};
  if (::fstatat(place.directory.get(), name, &file, AT_SYMLINK_NOFOLLOW) != 0) {
    return std::nullopt;
  }
  return Timestamp(std::chrono::duration_cast<Timestamp::duration>(
      std::chrono::seconds(file.st_mtim.tv_sec) +
      std::chrono::nanoseconds(file.st_mtim.tv_nsec)));
}

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kNoShim:
      return "prepared";
    case Phase::kCreating:
      return "creating";
    case Phase::kCreated:
      return "created";
    case Phase::kRunning:
      return "running";
    case Phase::kExited:
      return "exited";
    case Phase::kFailed:
      return "failed";
    case Phase::kLost:
      break;
  }
  return "lost";
}

}  // namespace

Result<void> OciDriver::RecoverTask(const TaskHandle& handle) {
  if (handle.version > TaskHandle::kVersion) {
    return MakeError(Code::kFailedPrecondition, "recover", handle.config.id,
                     "a newer release made the handle");
  }
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(handle.config.id));
  return Ok();
}

Result<TaskStatus> OciDriver::InspectTask(const std::string& id) {
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(id));
  MOUNTD_ASSIGN(const Sight sight, LookAt(place));
  TaskStatus status;
  status.id = id;
  status.name = place.record.name;
  status.started_at = TimeOf(place, "started").value_or(Timestamp());
  status.attributes = {{"phase", NameOf(sight.phase)},
                       {"container", place.key},
                       {"directory", place.path},
                       {"image", place.record.image_digest}};
  bool is_lost_and_gone = false;
  if (sight.phase == Phase::kLost) {
    MOUNTD_ASSIGN(const bool lives, LostTaskLives(*host_, place));
    is_lost_and_gone = !lives;
  }
  if (sight.phase == Phase::kExited || sight.phase == Phase::kFailed ||
      is_lost_and_gone) {
    status.state = TaskState::kExited;
    status.completed_at = TimeOf(place, shim::kExitFile);
    status.result = sight.result ? *sight.result : LostResult();
    if (sight.failure) {
      status.result->error = sight.failure->Message();
    }
  } else if (sight.phase == Phase::kRunning || sight.phase == Phase::kLost) {
    status.state = TaskState::kRunning;
  }
  return status;
}

Result<void> OciDriver::EndShim(const TaskPlace& place, bool force) const {
  MOUNTD_ASSIGN(Sight sight, LookAtListener(place));
  bool lives = sight.shim && sight.phase != Phase::kExited;
  if (sight.phase == Phase::kLost) {
    MOUNTD_ASSIGN(lives, LostTaskLives(*host_, place));
  }
  if (lives && !force && MayHaveStarted(place)) {
    return MakeError(Code::kFailedPrecondition, "destroy", place.record.id,
                     "the task runs; stop it, or destroy it by force");
  }
  if (!sight.shim) {
    return Ok();
  }
  Message request(Kind::kDelete);
  request.Add(Tag::kForce, std::uint64_t{1});
  const auto deleted = sight.shim->Call(request, {}, kDeletePatience);
  // Unavailable: somebody killed the shim during the call. Discard then removes
  // the task.
  if (!deleted && deleted.error().code != Code::kUnavailable) {
    return deleted.error();
  }
  // Waits for the shim's end. The shim ends after its answer, which closes the
  // connection.
  IgnoreBecauseBestEffort(sight.shim->Next(kDeletePatience));
  return Ok();
}

Result<void> OciDriver::DestroyTask(const std::string& id, bool force) {
  MOUNTD_ASSIGN(const KeyLock lock, store_.Lock(id));
  auto place = store_.Find(id);
  if (!place) {
    if (place.error().code != Code::kNotFound) {
      return place.error();
    }
    // An earlier call may have been killed before it had removed everything.
    MOUNTD_ASSIGN(const bool was_there, store_.Discard(id));
    return was_there ? Ok() : Result<void>(place.error());
  }
  const auto ended = EndShim(*place, force);
  if (!ended) {
    // The shim is stopped, or waits for a disk or for a runtime that hangs.
    if (!force || ended.error().code != Code::kDeadlineExceeded) {
      return ended;
    }
    MOUNTD_TRY(KillHung(*place));
  }
  MOUNTD_TRY(store_.Discard(id));
  store_.Sweep(KeyOf(id));
  Tell(place->record, "the task has been destroyed");
  return Ok();
}

Result<void> OciDriver::RemoveDirectory(const std::string& path) {
  MOUNTD_TRY(CheckPath("path", path));
  const std::size_t slash = path.rfind('/');
  const std::string parent = path.substr(0, slash + 1);
  const UniqueFd directory(
      ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    return errno == ENOENT ? Ok()
                           : Result<void>(ErrnoError(errno, "open", parent));
  }
  const auto space = host_->namespaces().Shared();
  if (space) {
    return RemoveTreeAsRootOf(*space, directory.get(), path.substr(slash + 1));
  }
  // A machine without user namespaces has run no task, so all files are this
  // user's own.
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  return failed ? Result<void>(space.error()) : Ok();
}

}  // namespace mountd::driver
