// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/health.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <optional>

#include "csi-node/csi-local/files.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

std::optional<HealthEntry> CheckContent(const DataDirectory& data,
                                        const VolumeRecord& record) {
  const Content& content = record.content();
  if (content.kind() == TMPFS) {
    return std::nullopt;
  }
  struct stat status {};
  if (::fstatat(data.volumes().get(), record.id().c_str(), &status,
                AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT
               ? MakeHealth(pb::DATA_LOSS, "ContentMissing",
                            "its directory or image no longer exists")
               : MakeHealth(pb::INACCESSIBLE, "ContentUnreachable",
                            "csi-local cannot read its directory or image");
  }
  const bool right = content.kind() == IMAGE ? S_ISREG(status.st_mode)
                                             : S_ISDIR(status.st_mode);
  if (!right) {
    return MakeHealth(pb::DATA_LOSS, "ContentReplaced",
                      "another file is in the place of its directory or image");
  }
  if (content.kind() == IMAGE && status.st_size < content.capacity_bytes()) {
    return MakeHealth(pb::DATA_LOSS, "ImageTruncated",
                      "its image is smaller than the volume");
  }
  return std::nullopt;
}

// Looks at the file system's options only, because a read-only mount was asked
// for.
bool RefusesWrites(const MountEntry& entry) {
  return entry.HasSuperOption("ro") || entry.HasSuperOption("emergency_ro");
}

std::optional<HealthEntry> CheckMounted(const VolumeMounts& mounts) {
  const auto entries = mounts.All();
  if (!entries) {
    return MakeHealth(pb::INACCESSIBLE, "MountsUnknown",
                      "csi-local cannot read its mounts");
  }
  for (const MountEntry& entry : *entries) {
    const UniqueFd root(::open(
        entry.point.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root.valid() || !ListNames(root.get())) {
      return MakeHealth(pb::INACCESSIBLE, "FilesystemFailed",
                        "its file system is no longer readable");
    }
    if (RefusesWrites(entry)) {
      return MakeHealth(pb::DEGRADED, "FilesystemReadOnly",
                        "its file system refuses writes after an error");
    }
  }
  return std::nullopt;
}

}  // namespace

HealthEntry MakeHealth(pb::VolumeHealthErrorType status, const char* reason,
                       const char* message) {
  HealthEntry entry;
  entry.set_status(status);
  entry.set_reason(reason);
  entry.set_message(message);
  return entry;
}

std::vector<HealthEntry> HealthOf(const DataDirectory& data,
                                  const VolumeRecord& record) {
  std::vector<HealthEntry> entries;
  for (auto& found :
       {CheckContent(data, record), CheckMounted(VolumeMounts(data, record))}) {
    if (found) {
      entries.push_back(*found);
    }
  }
  return entries;
}

pb::VolumeCondition ToCondition(const std::vector<HealthEntry>& entries) {
  pb::VolumeCondition condition;
  condition.set_abnormal(!entries.empty());
  std::string message;
  for (const HealthEntry& entry : entries) {
    message += (message.empty() ? "" : "; ") + entry.message();
  }
  condition.set_message(message.empty() ? "nothing is wrong" : message);
  return condition;
}

}  // namespace mountd::csi_local
