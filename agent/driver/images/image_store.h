// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver/images/image_config.h"
#include "agent/driver/images/image_reference.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

class KeyLock;
struct Descriptor;
struct UnpackJob;

struct ImageStoreOptions {
  // "<data>/images": absolute and normalised, without ':' and ',', because
  // overlayfs's options separate by these. Its parent exists.
  std::string directory;
  std::string skopeo = "/usr/bin/skopeo";
  std::string umoci = "/usr/bin/umoci";
  // Bounds of all files that one Prepare makes: the copy of the image and the
  // unpacked files. The unpack may exceed them a little, because the store
  // measures the files only from time to time.
  std::uint64_t max_bytes = std::uint64_t{16} << 30U;
  std::uint64_t max_files = 2'000'000;
  // The time of one Prepare, with its wait for another call of the same image.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// An image that a task can have as its root file system.
struct Image {
  std::string digest;  // the manifest's, "sha256:…"; "" for a directory
  std::string rootfs;  // an absolute path
  ImageConfig config;
  // While any process has this fd open, nobody removes the image. A shim keeps
  // it as long as its task runs. Empty for a directory.
  UniqueFd hold;
};

// Owns "<data>/images/", the unpacked images of one user:
//
//   <digest>/rootfs, config.json   one image; complete once it has its name
//   work/<key>/                    an unpack or a removal under way
//   names/<key>                    which digest a reference has
//   lock                           digests and references are locked by a byte
//                                  of this file (key_lock.h)
//
// One user namespace's mapping decides the owners of an image's files, so one
// store serves one mapping. Any thread, and any number of processes. A process
// may die at any point: the next call removes the unfinished files.
class ImageStore {
 public:
  // Makes the directories, mode 0700. PermissionDenied if others may enter one
  // of the directories, because an image has setuid files of this user's.
  static Result<ImageStore> Open(ImageStoreOptions options);

  // Unpacks the image of a reference, unless its digest is there already.
  // `user_namespace` is an fd of the namespace whose ids the files get. Blocks
  // for as long as skopeo and umoci take.
  //
  // NotFound if there is no such file, image or tag. InvalidArgument if the
  // image is malformed or has ids outside of the namespace. ResourceExhausted
  // beyond a bound. Aborted if the image changed during the call, or has other
  // bytes than its digests say. DeadlineExceeded after the timeout.
  Result<Image> Prepare(const ImageReference& reference,
                        int user_namespace) const;

  // Removes each image that nobody holds and whose digest is not in `in_use`
  // ("sha256:…"), and the files that killed calls left. Returns the removed
  // digests.
  Result<std::vector<std::string>> RemoveUnused(
      const std::set<std::string>& in_use, int user_namespace) const;

 private:
  explicit ImageStore(ImageStoreOptions options)
      : options_(std::move(options)) {}

  struct Call;
  Result<std::optional<Image>> Use(const std::string& digest,
                                   const Call& call) const;
  Result<std::optional<Image>> UseKnown(const Call& call) const;
  Result<Image> MakeImage(const Call& call, int lock) const;
  Result<Image> Settle(const UnpackJob& job, const Descriptor& manifest,
                       const Call& call) const;
  Result<Image> MakeAlone(const UnpackJob& job, const Descriptor& manifest,
                          KeyLock mine) const;
  Result<Image> ReadImage(const std::string& digest, UniqueFd hold) const;
  Result<void> RemoveImage(const std::string& digest, int lock,
                           int user_namespace) const;
  Result<void> RemoveWork(const std::string& key, int lock,
                          int user_namespace) const;
  void Sweep(int user_namespace) const;
  std::string Path(const std::string& name) const {
    return options_.directory + "/" + name;
  }

  ImageStoreOptions options_;
};

}  // namespace mountd::driver
