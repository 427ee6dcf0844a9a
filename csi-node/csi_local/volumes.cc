// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi_local/volumes.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <memory>
#include <utility>
#include <vector>

#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

// VolumeCapability.AccessMode.SINGLE_NODE_MULTI_WRITER: the only mode offered
// that allows one volume at two targets.
constexpr int kSingleNodeMultiWriter = 7;
// Tasks of any user write to their volume; the data directory's own mode keeps
// everybody else out.
constexpr mode_t kVolumeMode = 0777;
constexpr mode_t kTargetMode = 0755;
// Only a race of two of us could have stacked any.
constexpr int kMaxStacked = 8;

Result<void> CheckName(const std::string& volume) {
  if (!IsValidName(volume)) {
    return MakeError(Code::kInvalidArgument, "volume_id", volume,
                     "not a name of 1 to 128 letters, digits, '.', '_', '-'");
  }
  return Ok();
}

// Takes the mounts of `volume` at `target` off, if there are any.
// FailedPrecondition if another's is there.
Result<void> TakeOff(const Target& target, const DirectoryState& volume) {
  for (int i = 0; i < kMaxStacked; ++i) {
    Result<UniqueFd> directory = OpenDirectory(target);
    if (!directory) {
      return directory.error().code == Code::kNotFound
                 ? Ok()
                 : Result<void>(directory.error());
    }
    MOUNTD_ASSIGN(const DirectoryState there, Inspect(*directory));
    if (!there.is_mount_root) {
      return Ok();
    }
    if (!there.SameDirectory(volume)) {
      return MakeError(Code::kFailedPrecondition, "unmount", target.name,
                       "another mount is there");
    }
    directory->reset();  // it would keep the mount busy
    MOUNTD_TRY(Unmount(target));
  }
  return MakeError(Code::kInternal, "unmount", target.name, "mounted again");
}

}  // namespace

// Keys at work; all or none, without waiting: a caller that meets another is
// told Aborted, as the specification has it.
class Volumes::Lock {
 public:
  static Result<std::unique_ptr<Lock>> Take(Volumes* volumes,
                                            std::vector<std::string> keys) {
    const std::lock_guard guard(volumes->mutex_);
    for (const std::string& key : keys) {
      if (volumes->busy_.count(key) != 0) {
        return MakeError(Code::kAborted, "lock", key,
                         "an operation is pending");
      }
    }
    volumes->busy_.insert(keys.begin(), keys.end());
    return std::unique_ptr<Lock>(new Lock(volumes, std::move(keys)));
  }

  ~Lock() {
    const std::lock_guard guard(volumes_->mutex_);
    for (const std::string& key : keys_) {
      volumes_->busy_.erase(key);
    }
  }

  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Lock(Volumes* volumes, std::vector<std::string> keys)
      : volumes_(volumes), keys_(std::move(keys)) {}

  Volumes* volumes_;
  std::vector<std::string> keys_;
};

Result<std::unique_ptr<Volumes>> Volumes::Open(const std::string& data_dir) {
  if (::mkdir(data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", data_dir);
  }
  const UniqueFd data(
      ::open(data_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!data.valid()) {
    return ErrnoError(errno, "open", data_dir);
  }
  bool made = false;
  MOUNTD_ASSIGN(UniqueFd volumes,
                MakeDirectoryAt(data.get(), "volumes", 0700, &made));
  MOUNTD_ASSIGN(UniqueFd publications,
                MakeDirectoryAt(data.get(), "publications", 0700, &made));
  return std::unique_ptr<Volumes>(
      new Volumes(std::move(volumes), std::move(publications)));
}

// A name no volume can have is a volume that does not exist.
Result<UniqueFd> Volumes::OpenVolume(const std::string& volume) const {
  Result<UniqueFd> directory =
      IsValidName(volume)
          ? OpenDirectoryAt(volumes_.get(), volume)
          : MakeError(Code::kNotFound, "open", volume, "no such volume");
  if (!directory && directory.error().code == Code::kNotFound) {
    return MakeError(Code::kNotFound, "volume_id", volume, "no such volume");
  }
  return directory;
}

Result<void> Volumes::Stage(const std::string& volume,
                            const std::string& staging_path,
                            const MountOptions& options) {
  MOUNTD_TRY(CheckName(volume));
  MOUNTD_ASSIGN(const auto lock, Lock::Take(this, {volume, staging_path}));
  MOUNTD_ASSIGN(const Target target, OpenTarget(staging_path));
  MOUNTD_ASSIGN(const UniqueFd staging, OpenDirectory(target));
  bool made = false;
  MOUNTD_ASSIGN(const UniqueFd source,
                MakeDirectoryAt(volumes_.get(), volume, kVolumeMode, &made));
  MOUNTD_ASSIGN(const DirectoryState wanted, Inspect(source));
  MOUNTD_ASSIGN(const DirectoryState there, Inspect(staging));
  if (!there.is_mount_root) {
    return BindOnto(source, staging, options.attributes);
  }
  if (!there.SameDirectory(wanted)) {
    return MakeError(Code::kAlreadyExists, "stage", volume,
                     "another mount is at the staging path");
  }
  if (there.attributes != (wanted.attributes | options.attributes)) {
    return MakeError(Code::kAlreadyExists, "stage", volume,
                     "staged already with another capability");
  }
  return Ok();
}

Result<void> Volumes::Unstage(const std::string& volume,
                              const std::string& staging_path) {
  MOUNTD_ASSIGN(const auto lock, Lock::Take(this, {volume, staging_path}));
  MOUNTD_ASSIGN(const UniqueFd source, OpenVolume(volume));
  MOUNTD_ASSIGN(const DirectoryState wanted, Inspect(source));
  const Result<Target> target = OpenTarget(staging_path);
  if (!target) {
    return target.error().code == Code::kNotFound
               ? Ok()
               : Result<void>(target.error());
  }
  return TakeOff(*target, wanted);
}

Result<void> Volumes::CheckPublished(const DirectoryState& there,
                                     const DirectoryState& volume,
                                     const Publication& wanted,
                                     const std::string& name,
                                     std::uint64_t attributes) {
  if (!there.SameDirectory(volume)) {
    return MakeError(Code::kAlreadyExists, "publish", name,
                     "another mount is at the target path");
  }
  MOUNTD_ASSIGN(const auto publications, publications_.List(name));
  for (const Publication& found : publications) {
    if (found.target_path == wanted.target_path && found != wanted) {
      return MakeError(Code::kAlreadyExists, "publish", name,
                       "published there already in another mode");
    }
  }
  if (there.attributes != attributes) {
    return MakeError(Code::kAlreadyExists, "publish", name,
                     "published there already with other attributes");
  }
  return Ok();
}

Result<void> Volumes::CheckElsewhere(const DirectoryState& volume,
                                     const Publication& wanted,
                                     const std::string& name) {
  MOUNTD_ASSIGN(const auto publications, publications_.List(name));
  for (const Publication& found : publications) {
    if (found.target_path == wanted.target_path) {
      continue;
    }
    const Result<Target> target = OpenTarget(found.target_path);
    const Result<UniqueFd> directory =
        target ? OpenDirectory(*target) : Result<UniqueFd>(target.error());
    const Result<DirectoryState> there =
        directory ? Inspect(*directory)
                  : Result<DirectoryState>(directory.error());
    if (!there || !there->is_mount_root || !there->SameDirectory(volume)) {
      MOUNTD_TRY(publications_.Remove(name, found.target_path));
      continue;
    }
    if (found.access_mode != wanted.access_mode ||
        wanted.access_mode != kSingleNodeMultiWriter) {
      return MakeError(Code::kFailedPrecondition, "publish", name,
                       "published elsewhere, and the access mode allows one "
                       "target");
    }
  }
  return Ok();
}

Result<void> Volumes::AttachTarget(const Target& target, const UniqueFd& source,
                                   std::uint64_t attributes) {
  bool made = false;
  MOUNTD_ASSIGN(
      const UniqueFd directory,
      MakeDirectoryAt(target.parent.get(), target.name, kTargetMode, &made));
  Result<void> bound = BindOnto(source, directory, attributes);
  if (!bound && made) {
    IgnoreBecauseBestEffort(RemoveDirectory(target));
  }
  return bound;
}

Result<void> Volumes::Publish(const std::string& volume,
                              const std::string& staging_path,
                              const std::string& target_path,
                              const MountOptions& options) {
  MOUNTD_ASSIGN(const auto lock,
                Lock::Take(this, {volume, staging_path, target_path}));
  MOUNTD_ASSIGN(const UniqueFd source, OpenVolume(volume));
  MOUNTD_ASSIGN(const DirectoryState wanted, Inspect(source));

  const Result<Target> staging_target = OpenTarget(staging_path);
  const Result<UniqueFd> staging =
      staging_target ? OpenDirectory(*staging_target)
                     : Result<UniqueFd>(staging_target.error());
  const Result<DirectoryState> staged =
      staging ? Inspect(*staging) : Result<DirectoryState>(staging.error());
  if (!staged || !staged->is_mount_root || !staged->SameDirectory(wanted)) {
    return MakeError(Code::kFailedPrecondition, "publish", volume,
                     "not staged at the staging path");
  }

  const Publication publication{options.access_mode,
                                (options.attributes & MOUNT_ATTR_RDONLY) != 0,
                                target_path};
  MOUNTD_ASSIGN(const Target target, OpenTarget(target_path));
  const Result<UniqueFd> existing = OpenDirectory(target);
  if (!existing && existing.error().code != Code::kNotFound) {
    return existing.error();
  }
  if (existing) {
    MOUNTD_ASSIGN(const DirectoryState there, Inspect(*existing));
    if (there.is_mount_root) {
      return CheckPublished(there, wanted, publication, volume,
                            staged->attributes | options.attributes);
    }
  }
  MOUNTD_TRY(CheckElsewhere(wanted, publication, volume));
  // Before the mount: a publication nobody knows of could be doubled.
  MOUNTD_TRY(publications_.Put(volume, publication));
  Result<void> attached = AttachTarget(target, *staging, options.attributes);
  if (!attached) {
    IgnoreBecauseBestEffort(publications_.Remove(volume, target_path));
  }
  return attached;
}

Result<void> Volumes::Unpublish(const std::string& volume,
                                const std::string& target_path) {
  MOUNTD_ASSIGN(const auto lock, Lock::Take(this, {volume, target_path}));
  MOUNTD_ASSIGN(const UniqueFd source, OpenVolume(volume));
  MOUNTD_ASSIGN(const DirectoryState wanted, Inspect(source));
  const Result<Target> target = OpenTarget(target_path);
  if (!target && target.error().code != Code::kNotFound) {
    return target.error();
  }
  if (target) {
    MOUNTD_TRY(TakeOff(*target, wanted));
    MOUNTD_TRY(RemoveDirectory(*target));
  }
  return publications_.Remove(volume, target_path);
}

}  // namespace mountd::csi_local
