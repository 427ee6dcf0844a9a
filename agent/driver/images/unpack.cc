// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/unpack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/driver/images/beneath.h"
#include "agent/driver/images/confined.h"
#include "agent/driver/images/image_config.h"
#include "mountd/base/one_line.h"
#include "mountd/base/write_all.h"

namespace mountd::driver {
namespace {

constexpr char kLayout[] = "layout";
constexpr char kImage[] = "image";
constexpr std::string_view kIndexType =
    "application/vnd.oci.image.index.v1+json";

Error TooLarge(const UnpackJob& job) {
  return MakeError(Code::kResourceExhausted, "unpack", job.object,
                   "has more than " + std::to_string(job.most.bytes) +
                       " bytes or " + std::to_string(job.most.files) +
                       " files; give a smaller image, or a larger bound");
}

Result<void> CheckSize(const UnpackJob& job) {
  MOUNTD_ASSIGN(const TreeSize size,
                MeasureTree(job.work, job.most, job.deadline));
  return IsBeyond(size, job.most) ? Result<void>(TooLarge(job)) : Ok();
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Says why a program failed, by its last output, because skopeo and umoci have
// the same exit status for every failure.
Error ProgramFailure(const UnpackJob& job, const std::string& op,
                     const ProgramEnd& end) {
  std::string text = OnOneLine(end.text);
  if (end.status == -SIGXFSZ || Has(text, "file too large")) {
    return TooLarge(job);
  }
  if (end.status < 0) {
    return MakeError(
        Code::kUnavailable, op, job.object,
        "was killed by signal " + std::to_string(-end.status) + "; call again");
  }
  if (Has(text, "no space left on device") ||
      Has(text, "disk quota exceeded")) {
    return MakeError(Code::kResourceExhausted, op, job.object,
                     text + "; make room, and call again");
  }
  if (Has(text, "chown") && Has(text, "invalid argument")) {
    return MakeError(Code::kInvalidArgument, op, job.object,
                     text +
                         "; the image has an id that the user namespace does "
                         "not have, so give more ids in /etc/subuid");
  }
  return MakeError(Code::kInvalidArgument, op, job.object, std::move(text));
}

Result<void> RunProgram(const UnpackJob& job, const std::string& op,
                        const std::vector<std::string>& command) {
  Confinement confinement;
  confinement.user_namespace = job.work.user_namespace;
  confinement.writable = job.work.directory + "/" + job.work.name;
  confinement.inherited = job.lock;
  confinement.max_file_bytes = job.most.bytes;
  Supervision supervision;
  supervision.deadline = job.deadline;
  supervision.look = [&job] { return CheckSize(job); };
  Result<ProgramEnd> end = RunConfined(confinement, command, supervision);
  if (!end) {
    Error error = std::move(end).error();
    // The caller knows the image, not the program.
    error.detail = error.object + ": " + error.detail;
    error.object = job.object;
    return error;
  }
  if (end->status != 0) {
    return ProgramFailure(job, op, *end);
  }
  // Checks the final size, too, because files may have grown after the last
  // look.
  return CheckSize(job);
}

Result<void> WriteConfig(const UnpackJob& job, const std::string& bytes) {
  const std::string path = job.Path(kImage);
  if (::mkdir(path.c_str(), S_IRWXU) != 0) {
    return ErrnoError(errno, "mkdir", job.object);
  }
  const UniqueFd file(::open((path + "/config.json").c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                             S_IRUSR | S_IWUSR));
  if (!file.valid()) {
    return ErrnoError(errno, "open config.json", job.object);
  }
  return WriteAll(file.get(), bytes, job.object);
}

// Refuses a FIFO or a device in the place of a blob, because skopeo would wait
// for the writer, or read without an end. A blob may be a symlink. A directory
// may have millions of names, so the deadline holds here, too.
Result<void> CheckBlobs(const std::string& layout, const UnpackJob& job) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::recursive_directory_iterator blob(layout + "/blobs", failed);
  for (; !failed && blob != fs::end(blob); blob.increment(failed)) {
    if (Supervision::Clock::now() >= job.deadline) {
      return MakeError(Code::kDeadlineExceeded, "read the blobs", job.object,
                       "the image's time is over");
    }
    // blobs/ALGORITHM/DIGEST
    if (blob.depth() > 0) {
      blob.disable_recursion_pending();
    }
    std::error_code missing;
    if (fs::is_other(blob->status(missing))) {
      return MakeError(Code::kInvalidArgument, "read", job.object,
                       "blob " + OnOneLine(blob->path().filename().string()) +
                           " must be a regular file");
    }
  }
  return failed ? ErrnoError(failed.value(), "read the blobs", job.object)
                : Ok();
}

// Reads the manifest of a layout before skopeo copies thousands of layers.
// Skips an index of several platforms, because skopeo then chooses the
// manifest.
Result<void> CheckSource(const UnpackJob& job,
                         const ImageReference& reference) {
  if (reference.kind != ImageReference::Kind::kOci) {
    return Ok();
  }
  MOUNTD_ASSIGN(const UniqueFd layout, OpenTree(reference.path));
  MOUNTD_ASSIGN(const Descriptor found,
                FindImage(layout.get(), reference.tag, job.object));
  MOUNTD_TRY(CheckBlobs(reference.path, job));
  if (found.media_type == kIndexType) {
    return Ok();
  }
  MOUNTD_TRY(ReadManifest(layout.get(), found, job.object));
  return Ok();
}

// Checks that rootfs is a directory. umoci makes the directory, but a layer
// could replace it by a file of another type.
Result<void> CheckRoot(const UnpackJob& job) {
  struct stat facts {};
  if (::lstat(job.Path("image/rootfs").c_str(), &facts) != 0) {
    return ErrnoError(errno, "lstat", job.object);
  }
  if (!S_ISDIR(facts.st_mode)) {
    return MakeError(Code::kInvalidArgument, "unpack", job.object,
                     "has a root that is no directory");
  }
  return Ok();
}

}  // namespace

Result<Descriptor> CopyImage(const UnpackJob& job,
                             const ImageReference& reference) {
  MOUNTD_TRY(CheckSource(job, reference));
  MOUNTD_TRY(RunProgram(job, "skopeo copy",
                        {job.skopeo, "--tmpdir", ".", "copy", "--quiet",
                         reference.ToText(), "oci:layout:image"}));
  MOUNTD_ASSIGN(const UniqueFd layout, OpenTree(job.Path(kLayout)));
  return FindImage(layout.get(), "image", job.object);
}

Result<void> MakeRootfs(const UnpackJob& job, const Descriptor& manifest) {
  MOUNTD_ASSIGN(const UniqueFd layout, OpenTree(job.Path(kLayout)));
  MOUNTD_ASSIGN(const ImageManifest image,
                ReadManifest(layout.get(), manifest, job.object));
  const std::string name = "the configuration of " + job.object;
  MOUNTD_ASSIGN(const std::string config,
                ReadBlob(layout.get(), image.config, name));
  MOUNTD_TRY(ParseImageConfig(config, name));
  MOUNTD_TRY(WriteConfig(job, config));
  MOUNTD_TRY(RunProgram(job, "umoci raw unpack",
                        {job.umoci, "--log=error", "raw", "unpack", "--image",
                         "layout:image", "image/rootfs"}));
  return CheckRoot(job);
}

}  // namespace mountd::driver
