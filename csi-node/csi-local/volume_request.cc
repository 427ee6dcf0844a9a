// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/volume_request.h"

#include <algorithm>
#include <cerrno>

#include "csi-node/csi-local/filesystem.h"

namespace mountd::csi_local {
namespace {

constexpr std::int64_t kUnit = 4096;
constexpr std::int64_t kUsualImage = 1024 * kMiB;
constexpr std::int64_t kUsualTmpfs = 64 * kMiB;
// The largest file that every file system allows (ext4 with 4 KiB blocks).
constexpr std::int64_t kMost = 16LL << 40;

Error Incompatible(const VolumeRequest& spec, const std::string& why) {
  return MakeError(Code::kInvalidArgument, "create", spec.name, why);
}

Kind KindOf(const VolumeRequest& spec, const Content* source) {
  if (spec.kind) {
    return *spec.kind;
  }
  if (source != nullptr) {
    return source->kind();
  }
  return spec.block || IsImageFsType(spec.fs_type) ? IMAGE : DIRECTORY;
}

// Returns the file system type of an image; empty for an image without one.
std::string FsTypeOf(const VolumeRequest& spec, const Content* source) {
  if (source != nullptr) {
    return source->fs_type();
  }
  if (!spec.mount) {
    return "";
  }
  return spec.fs_type.empty() ? "ext4" : spec.fs_type;
}

Access AccessOf(const VolumeRequest& spec, const Content* source) {
  if (source != nullptr) {
    return source->access();
  }
  return spec.block ? ACCESS_BLOCK : ACCESS_MOUNT;
}

Result<std::int64_t> SizeOf(const VolumeRequest& spec, const Content& content,
                            const Content* source) {
  std::int64_t least = source == nullptr ? 0 : source->capacity_bytes();
  switch (content.kind()) {
    case IMAGE:
      return ChooseSize(spec.range, std::max(least, LeastSize(content)),
                        std::max(least, kUsualImage));
    case TMPFS:
      return ChooseSize(spec.range, LeastSize(content), kUsualTmpfs);
    default:
      return ChooseSize(spec.range, least, least);
  }
}

}  // namespace

Error OutOfRange(const std::string& object, const std::string& why) {
  return ErrnoError(ERANGE, "capacity_range", object, why);
}

Result<std::int64_t> ChooseSize(const CapacityRange& range, std::int64_t least,
                                std::int64_t usual) {
  if (range.required < 0 || range.limit < 0) {
    return MakeError(Code::kInvalidArgument, "capacity_range", "",
                     "must not be negative");
  }
  if (range.limit != 0 && range.limit < range.required) {
    return MakeError(Code::kInvalidArgument, "capacity_range", "",
                     "limit_bytes is less than required_bytes");
  }
  std::int64_t size = std::max(range.required, least);
  if (range.required == 0) {
    size = std::max(size, usual);
    if (range.limit != 0) {
      size = std::max(std::min(size, range.limit / kUnit * kUnit), least);
    }
  }
  if (size > kMost) {
    return OutOfRange("", "is more than 16 TiB");
  }
  size = (size + kUnit - 1) / kUnit * kUnit;
  if (range.limit != 0 && size > range.limit) {
    return OutOfRange("", "contains no size of whole 4 KiB and at least " +
                              std::to_string(least) + " bytes");
  }
  return size;
}

Result<Content> ResolveContent(const VolumeRequest& spec,
                               const Content* source) {
  Content content;
  content.set_kind(KindOf(spec, source));
  if (source != nullptr && source->kind() != content.kind()) {
    return Incompatible(
        spec, "its source is of another kind; ask for the kind of the source");
  }
  if (source != nullptr && source->kind() == TMPFS) {
    return Incompatible(spec, "a volume of kind tmpfs cannot be copied");
  }
  if (content.kind() == IMAGE) {
    content.set_access(AccessOf(spec, source));
    content.set_fs_type(FsTypeOf(spec, source));
    if (!content.fs_type().empty() && !IsImageFsType(content.fs_type())) {
      return Incompatible(spec, "fs_type must be ext4 or xfs");
    }
  }
  if (spec.mount && content.access() == ACCESS_BLOCK) {
    return Incompatible(
        spec,
        "its source was made for block access, where a task may have written "
        "anything, so no copy is ever mounted");
  }
  if ((spec.block && !FitsAccess(content, true, "")) ||
      (spec.mount && !FitsAccess(content, false, spec.fs_type))) {
    return Incompatible(
        spec, "a volume of this kind does not support this access or fs_type");
  }
  MOUNTD_ASSIGN(const std::int64_t bytes, SizeOf(spec, content, source));
  content.set_capacity_bytes(bytes);
  return content;
}

std::int64_t LeastSize(const Content& content) {
  switch (content.kind()) {
    case IMAGE:
      return LeastBytes(content.fs_type());
    case TMPFS:
      return kUnit;
    default:
      return 0;
  }
}

bool IsCompatible(const VolumeRecord& record, const VolumeRequest& spec) {
  const Content& content = record.content();
  const std::int64_t bytes = content.capacity_bytes();
  const bool same_parameters =
      std::map<std::string, std::string>(record.parameters().begin(),
                                         record.parameters().end()) ==
      spec.parameters;
  return same_parameters && record.name() == spec.name &&
         record.source_volume_id() == spec.source_volume_id &&
         record.source_snapshot_id() == spec.source_snapshot_id &&
         bytes >= spec.range.required &&
         (spec.range.limit == 0 || bytes <= spec.range.limit) &&
         (!spec.block || FitsAccess(content, true, "")) &&
         (!spec.mount || FitsAccess(content, false, spec.fs_type));
}

bool FitsAccess(const Content& content, bool block,
                const std::string& fs_type) {
  if (block) {
    return content.kind() == IMAGE && content.access() == ACCESS_BLOCK;
  }
  switch (content.kind()) {
    case IMAGE:
      return content.access() == ACCESS_MOUNT && !content.fs_type().empty() &&
             (fs_type.empty() || fs_type == content.fs_type());
    case TMPFS:
      return fs_type.empty() || fs_type == "tmpfs";
    default:
      return fs_type.empty();
  }
}

}  // namespace mountd::csi_local
