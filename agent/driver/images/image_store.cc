// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/driver/images/beneath.h"
#include "agent/driver/images/digest.h"
#include "agent/driver/images/key_lock.h"
#include "agent/driver/images/remembered_digests.h"
#include "agent/driver/images/unpack.h"
#include "mountd/base/paths.h"

namespace mountd::driver {
namespace {

using Clock = std::chrono::steady_clock;
using Mode = KeyLock::Mode;

constexpr char kWork[] = "work";
constexpr char kNames[] = "names";
constexpr char kLock[] = "lock";
constexpr std::size_t kMaxConfig = std::size_t{4} << 20U;
constexpr auto kBusyPause = std::chrono::milliseconds(10);

Result<void> MakePrivateDirectory(const std::string& path) {
  // EEXIST is checked below: owner and mode must fit.
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", path,
                      errno == ENOENT ? "make its parent first" : "");
  }
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) {
    return ErrnoError(errno, "lstat", path);
  }
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() ||
      (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return MakeError(Code::kPermissionDenied, "open images", path,
                     "must be a directory of this user's with mode 0700");
  }
  return Ok();
}

std::vector<std::string> KeysIn(const std::string& directory) {
  std::vector<std::string> keys;
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, failed)) {
    std::string name = entry.path().filename();
    if (IsSha256Hex(name)) {
      keys.push_back(std::move(name));
    }
  }
  return keys;
}

// Writes the unpacked files to the disk, because a rename may reach the disk
// before them, and a power cut would leave an image of empty files.
Result<void> SyncFileSystemOf(const std::string& path,
                              const std::string& object) {
  MOUNTD_ASSIGN(const UniqueFd directory, OpenTree(path));
  if (::syncfs(directory.get()) != 0) {
    return ErrnoError(errno, "syncfs", object);
  }
  return Ok();
}

Result<void> SyncDirectory(const std::string& path, const std::string& object) {
  MOUNTD_ASSIGN(const UniqueFd directory, OpenTree(path));
  if (::fsync(directory.get()) != 0) {
    return ErrnoError(errno, "fsync", object);
  }
  return Ok();
}

}  // namespace

// The state of one call of Prepare.
struct ImageStore::Call {
  const ImageReference& reference;
  int user_namespace;
  Clock::time_point deadline;
  std::string object;    // the reference's text
  std::string key;       // its SHA-256
  std::string identity;  // IdentityOf at the begin

  UnpackJob Job(const ImageStoreOptions& options, int lock) const {
    UnpackJob job;
    job.object = object;
    job.skopeo = options.skopeo;
    job.umoci = options.umoci;
    job.work = {user_namespace, options.directory + "/" + kWork, key};
    job.most = {options.max_bytes, options.max_files};
    job.lock = lock;
    job.deadline = deadline;
    return job;
  }
};

Result<ImageStore> ImageStore::Open(ImageStoreOptions options) {
  const std::string& path = options.directory;
  if (!paths::IsNormalised(path) ||
      path.find_first_of(":,\\") != std::string::npos) {
    return MakeError(Code::kInvalidArgument, "open images", path,
                     "must be an absolute path without ., .., a trailing / and "
                     "the characters : , \\");
  }
  MOUNTD_TRY(MakePrivateDirectory(path));
  MOUNTD_TRY(MakePrivateDirectory(path + "/" + kWork));
  MOUNTD_TRY(MakePrivateDirectory(path + "/" + kNames));
  return ImageStore(std::move(options));
}

Result<Image> ImageStore::Prepare(const ImageReference& reference,
                                  int user_namespace) const {
  if (reference.kind == ImageReference::Kind::kDirectory) {
    MOUNTD_TRY(OpenTree(reference.path));
    Image image;
    image.rootfs = reference.path;
    return image;
  }
  Call call{reference,
            user_namespace,
            Clock::now() + options_.timeout,
            reference.ToText(),
            "",
            ""};
  call.key = Sha256Hex(call.object);
  MOUNTD_ASSIGN(call.identity, IdentityOf(reference));
  MOUNTD_ASSIGN(std::optional<Image> known, UseKnown(call));
  if (known) {
    return *std::move(known);
  }
  MOUNTD_ASSIGN(
      const KeyLock lock,
      KeyLock::Take(Path(kLock), call.key, Mode::kExclusive, call.deadline));
  // Another call may have unpacked the image during the wait.
  MOUNTD_ASSIGN(known, UseKnown(call));
  if (known) {
    return *std::move(known);
  }
  Sweep(user_namespace);
  MOUNTD_TRY(RemoveWork(call.key, lock.fd(), user_namespace));
  Result<Image> image = MakeImage(call, lock.fd());
  // If this call cannot remove the work directory, the next call removes it.
  IgnoreBecauseBestEffort(RemoveWork(call.key, lock.fd(), user_namespace));
  return image;
}

Result<std::optional<Image>> ImageStore::UseKnown(const Call& call) const {
  const std::optional<std::string> digest =
      RememberedDigests(Path(kNames)).Find(call.key, call.identity);
  if (!digest) {
    return std::optional<Image>();
  }
  return Use(*digest, call);
}

// Returns the image if it is complete, with an fd that keeps it (Image::hold).
Result<std::optional<Image>> ImageStore::Use(const std::string& digest,
                                             const Call& call) const {
  MOUNTD_ASSIGN(KeyLock lock, KeyLock::Take(Path(kLock), digest, Mode::kShared,
                                            call.deadline));
  Result<Image> image = ReadImage(digest, std::move(lock).TakeFd());
  if (image) {
    return std::optional<Image>(std::move(image).value());
  }
  if (image.error().code == Code::kNotFound) {
    return std::optional<Image>();
  }
  return std::move(image).error();
}

Result<Image> ImageStore::ReadImage(const std::string& digest,
                                    UniqueFd hold) const {
  Image image;
  image.digest = "sha256:" + digest;
  image.rootfs = Path(digest) + "/rootfs";
  image.hold = std::move(hold);
  MOUNTD_ASSIGN(const UniqueFd directory, OpenTree(Path(digest)));
  MOUNTD_ASSIGN(
      const std::string config,
      ReadBeneath(directory.get(), "config.json", kMaxConfig, image.digest));
  MOUNTD_ASSIGN(image.config, ParseImageConfig(config, "the configuration of " +
                                                           image.digest));
  return image;
}

Result<Image> ImageStore::MakeImage(const Call& call, int lock) const {
  const UnpackJob job = call.Job(options_, lock);
  if (::mkdir(job.Path("").c_str(), S_IRWXU) != 0) {
    return ErrnoError(errno, "mkdir", call.object);
  }
  MOUNTD_ASSIGN(const Descriptor manifest, CopyImage(job, call.reference));
  MOUNTD_ASSIGN(const std::string identity, IdentityOf(call.reference));
  if (identity != call.identity) {
    return MakeError(Code::kAborted, "copy image", call.object,
                     "was replaced during the call; call again");
  }
  MOUNTD_ASSIGN(Image image, Settle(job, manifest, call));
  MOUNTD_TRY(
      RememberedDigests(Path(kNames))
          .Put(call.key, call.identity, manifest.digest, job.Path("name")));
  return image;
}

// Unpacks the copied image. If another call has unpacked the image or is doing
// so, returns that call's image.
Result<Image> ImageStore::Settle(const UnpackJob& job,
                                 const Descriptor& manifest,
                                 const Call& call) const {
  for (;;) {
    // Tries the shared lock first, because a task may hold the lock for months,
    // and shares it.
    MOUNTD_ASSIGN(std::optional<Image> there, Use(manifest.digest, call));
    if (there) {
      return *std::move(there);
    }
    Result<KeyLock> mine =
        KeyLock::TryTake(Path(kLock), manifest.digest, Mode::kExclusive);
    if (mine) {
      return MakeAlone(job, manifest, std::move(mine).value());
    }
    if (mine.error().code != Code::kBusy || Clock::now() >= call.deadline) {
      return std::move(mine).error();
    }
    std::this_thread::sleep_for(kBusyPause);
  }
}

Result<Image> ImageStore::MakeAlone(const UnpackJob& job,
                                    const Descriptor& manifest,
                                    KeyLock mine) const {
  // Another call may have made the image before this call got the lock.
  if (Result<Image> made = ReadImage(manifest.digest, UniqueFd());
      !made && made.error().code == Code::kNotFound) {
    // A directory without a configuration is there if somebody removed a part
    // of the image by hand.
    MOUNTD_TRY(
        RemoveImage(manifest.digest, mine.fd(), job.work.user_namespace));
    MOUNTD_TRY(MakeRootfs(job, manifest));
    MOUNTD_TRY(SyncFileSystemOf(job.Path("image"), job.object));
    if (std::rename(job.Path("image").c_str(), Path(manifest.digest).c_str()) !=
        0) {
      return ErrnoError(errno, "rename", job.object);
    }
    MOUNTD_TRY(SyncDirectory(options_.directory, job.object));
  }
  MOUNTD_TRY(mine.Share());
  return ReadImage(manifest.digest, std::move(mine).TakeFd());
}

Result<void> ImageStore::RemoveWork(const std::string& key, int lock,
                                    int user_namespace) const {
  struct stat facts {};
  if (::lstat(Path(std::string(kWork) + "/" + key).c_str(), &facts) != 0) {
    return errno == ENOENT ? Ok() : ErrnoError(errno, "lstat", key);
  }
  // The removal has a deadline of its own, because it must also work after the
  // call's deadline has passed.
  return RemoveTree({user_namespace, Path(kWork), key}, lock,
                    Clock::now() + options_.timeout);
}

// Removes what killed calls left in work/.
void ImageStore::Sweep(int user_namespace) const {
  for (const std::string& key : KeysIn(Path(kWork))) {
    const Result<KeyLock> lock =
        KeyLock::TryTake(Path(kLock), key, Mode::kExclusive);
    if (lock) {
      IgnoreBecauseBestEffort(RemoveWork(key, lock->fd(), user_namespace));
    }
  }
}

// Removes an image whose lock the caller has exclusively. Ok if there is none.
Result<void> ImageStore::RemoveImage(const std::string& digest, int lock,
                                     int user_namespace) const {
  MOUNTD_TRY(RemoveWork(digest, lock, user_namespace));
  // A rename first takes the whole image away from its name, so that a killed
  // removal leaves no incomplete image under this name.
  if (std::rename(Path(digest).c_str(),
                  Path(std::string(kWork) + "/" + digest).c_str()) != 0) {
    return errno == ENOENT ? Ok() : ErrnoError(errno, "rename", digest);
  }
  return RemoveWork(digest, lock, user_namespace);
}

Result<std::vector<std::string>> ImageStore::RemoveUnused(
    const std::set<std::string>& in_use, int user_namespace) const {
  Sweep(user_namespace);
  std::vector<std::string> removed;
  std::set<std::string> kept;
  for (const std::string& digest : KeysIn(options_.directory)) {
    if (in_use.count("sha256:" + digest) > 0) {
      kept.insert(digest);
      continue;
    }
    const Result<KeyLock> lock =
        KeyLock::TryTake(Path(kLock), digest, Mode::kExclusive);
    if (!lock) {
      if (lock.error().code != Code::kBusy) {
        return lock.error();
      }
      kept.insert(digest);
      continue;
    }
    MOUNTD_TRY(RemoveImage(digest, lock->fd(), user_namespace));
    removed.push_back("sha256:" + digest);
  }
  RememberedDigests(Path(kNames)).KeepOnly(kept);
  return removed;
}

}  // namespace mountd::driver
