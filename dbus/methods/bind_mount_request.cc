// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/bind_mount_request.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "dbus/receive/inbound.h"
#include "mountd/closer/passed_fd.h"
#include "mountd/plan/attributes.h"
#include "mountd/plan/container_path.h"
#include "mountd/plan/plan_ids.h"

namespace mountd::dbus {
namespace {

// Checks the length and encoding only, because mountd never opens this path; it
// returns the text to the task driver.
Result<void> CheckTaskPath(const std::string& path) {
  // 4095 is PATH_MAX without the NUL.
  if (path.size() > 4095 || path.find('\0') != std::string::npos ||
      !IsValidUtf8(path)) {
    return MakeError(Code::kInvalidArgument, "check", "options[\"task_path\"]",
                     "must be a valid path");
  }
  return Ok();
}

// Reads the keys that only a tmpfs may have.
exec::TmpfsPlan TmpfsFrom(OptionReader& reader) {
  constexpr std::uint32_t kDefaultMode = 0700;
  exec::TmpfsPlan tmpfs;
  tmpfs.bytes = reader.Get<std::uint64_t>("size", 0);
  tmpfs.inodes = reader.Get<std::uint64_t>("inodes", 0);
  tmpfs.mode = reader.Get<std::uint32_t>("mode", kDefaultMode);
  tmpfs.uid = reader.Get<std::uint32_t>("uid", exec::kNoId);
  tmpfs.gid = reader.Get<std::uint32_t>("gid", exec::kNoId);
  tmpfs.no_swap = reader.Get("noswap", false) ? 1 : 0;
  return tmpfs;
}

// Reads the attributes that are options. read_only is an argument.
std::uint32_t AttributesFrom(OptionReader& reader) {
  std::uint32_t attributes = 0;
  for (const exec::AttributeRow& row : exec::kAttributes) {
    if (row.bit != exec::kEveryMount && row.bit != exec::kReadOnly &&
        reader.Get(std::string(row.key), false)) {
      attributes |= row.bit;
    }
  }
  return attributes;
}

// Returns the number of extents. A map with too many gets a number above the
// limit, so that the check of the plan refuses it.
std::uint32_t ReadExtents(
    OptionReader& reader, const char* key,
    std::array<exec::IdExtent, exec::kMaxIdExtents>* extents) {
  using Extent = sdbus::Struct<std::uint32_t, std::uint32_t, std::uint32_t>;
  const auto given = reader.Get<std::vector<Extent>>(key, {});
  for (std::size_t i = 0; i < given.size() && i < extents->size(); ++i) {
    extents->at(i) = {std::get<0>(given[i]), std::get<1>(given[i]),
                      std::get<2>(given[i])};
  }
  return static_cast<std::uint32_t>(
      std::min(given.size(), extents->size() + 1));
}

Error InvalidOption(const char* key, const char* why) {
  return MakeError(Code::kInvalidArgument, "check",
                   "options[\"" + std::string(key) + "\"]", why);
}

Result<void> ReadIds(OptionReader& reader, exec::IdMapPlan* ids) {
  ids->count = ReadExtents(reader, "idmap", &ids->extents);
  exec::IdMapPlan apart;
  apart.count = ReadExtents(reader, "uidmap", &apart.extents);
  apart.gid_count = ReadExtents(reader, "gidmap", &apart.gids);
  if ((apart.count == 0) != (apart.gid_count == 0)) {
    return InvalidOption(
        apart.count == 0 ? "gidmap" : "uidmap",
        "needs uidmap and gidmap together, because a file has both owners");
  }
  if (apart.count == 0) {
    return Ok();
  }
  if (ids->count != 0) {
    return InvalidOption("idmap",
                         "excludes uidmap and gidmap; leave one of them out");
  }
  *ids = apart;
  return Ok();
}

// Takes mountd's own copy of the caller's fd into `request`.
Result<void> TakeFd(const sdbus::UnixFd& given, const char* key,
                    BindMountRequest* request) {
  if (request->fd) {
    return InvalidOption(
        key, "is not possible with this kind of target; leave it out");
  }
  auto fd = TakePassed(given.get());
  if (!fd->valid()) {
    return ErrnoError(errno, "check", key);
  }
  request->fd = std::move(fd);
  return Ok();
}

// Returns the kernel's path of the directory that the fd refers to.
Result<std::string> PathOf(int fd, const char* key) {
  std::array<char, PATH_MAX> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(link.c_str(), text.data(), text.size());
  if (size <= 0) {
    return ErrnoError(errno, "check", key);
  }
  std::string path(text.data(), static_cast<std::size_t>(size));
  if (!IsValidUtf8(path)) {
    return InvalidOption(key, "must be a directory whose path is valid UTF-8");
  }
  return path;
}

Result<void> ReadDirectory(OptionReader& reader, BindMountRequest* request) {
  constexpr char kKey[] = "directory";
  const auto given = reader.Get<sdbus::UnixFd>(kKey, sdbus::UnixFd());
  if (!given.isValid()) {
    return Ok();
  }
  MOUNTD_TRY(TakeFd(given, kKey, request));
  MOUNTD_ASSIGN(request->wish.place, PathOf(request->fd->get(), kKey));
  request->wish.target_kind = exec::TargetKind::kDirectory;
  return Ok();
}

// Reads the directory that is the source. The request has one fd, so the target
// is in an inbox.
Result<void> ReadSourceDirectory(OptionReader& reader,
                                 BindMountRequest* request) {
  constexpr char kKey[] = "source_directory";
  const auto given = reader.Get<sdbus::UnixFd>(kKey, sdbus::UnixFd());
  if (!given.isValid()) {
    return InvalidOption(kKey, "is required for a source of type directory");
  }
  MOUNTD_TRY(TakeFd(given, kKey, request));
  MOUNTD_ASSIGN(request->wish.source, PathOf(request->fd->get(), kKey));
  // Another directory at the same path is another source.
  request->wish.place = FileIdentityOf(request->fd->get());
  return Ok();
}

Result<void> ReadContainer(OptionReader& reader, BindMountRequest* request) {
  constexpr char kKey[] = "container";
  const auto given = reader.Get<sdbus::UnixFd>(kKey, sdbus::UnixFd());
  if (!given.isValid()) {
    return Ok();
  }
  MOUNTD_TRY(TakeFd(given, kKey, request));
  const std::string_view fault =
      exec::FaultOfContainerPath(request->wish.task_path);
  if (!fault.empty()) {
    return InvalidOption("task_path", fault.data());
  }
  request->wish.target_kind = exec::TargetKind::kContainer;
  return Ok();
}

}  // namespace

Result<BindMountRequest> RequestFrom(const MountArguments& arguments,
                                     OptionReader& reader) {
  BindMountRequest request;
  request.wish.task_path = reader.Get<std::string>("task_path", "");
  request.wish.attributes =
      AttributesFrom(reader) | (arguments.read_only ? exec::kReadOnly : 0U);
  MOUNTD_TRY(ReadIds(reader, &request.wish.ids));
  MOUNTD_TRY(CheckTaskPath(request.wish.task_path));
  MOUNTD_TRY(ReadDirectory(reader, &request));
  MOUNTD_TRY(ReadContainer(reader, &request));
  MOUNTD_TRY(Name::Parse("allocation", arguments.allocation));
  MOUNTD_TRY(Name::Parse("task", arguments.task));
  MOUNTD_TRY(Name::Parse("name", arguments.name));
  MOUNTD_ASSIGN(request.wish.source_kind,
                ParseSourceKindName(arguments.source_type));
  if (request.wish.source_kind == exec::SourceKind::kTmpfs) {
    request.wish.tmpfs = TmpfsFrom(reader);
  } else if (request.wish.source_kind != exec::SourceKind::kDirectory) {
    MOUNTD_TRY(Name::Parse("source", arguments.source));
  }
  MOUNTD_ASSIGN(request.wish.propagation,
                ParsePropagationName(arguments.propagation));
  request.allocation = arguments.allocation;
  request.task = arguments.task;
  request.name = arguments.name;
  request.wish.source = arguments.source;
  if (request.wish.source_kind == exec::SourceKind::kDirectory) {
    MOUNTD_TRY(
        arguments.source.empty()
            ? Ok()
            : Result<void>(MakeError(Code::kInvalidArgument, "check", "source",
                                     "must be empty for a directory")));
    MOUNTD_TRY(ReadSourceDirectory(reader, &request));
  } else if (reader.Has("source_directory")) {
    reader.Refuse("source_directory", "is for a source of type directory");
  }
  return request;
}

namespace {

// Identifies the request's fd, because the same call with another fd is another
// call.
std::string TargetOf(const BindMountRequest& request) {
  switch (request.wish.target_kind) {
    case exec::TargetKind::kDirectory:
      return FileIdentityOf(request.fd->get());
    case exec::TargetKind::kContainer:
      return TaskOf(request.fd->get());
    case exec::TargetKind::kInbox:
      break;
  }
  // The place identifies a directory that is the source.
  return request.wish.place;
}

}  // namespace

std::string IdentityOf(const BindMountRequest& request) {
  const exec::TmpfsPlan& tmpfs = request.wish.tmpfs;
  Arguments arguments;
  arguments.Add(request.allocation).Add(request.task).Add(request.name);
  arguments.Add(std::string(SourceKindName(request.wish.source_kind)))
      .Add(request.wish.source);
  for (const std::uint64_t number :
       {tmpfs.bytes, tmpfs.inodes, std::uint64_t{tmpfs.mode},
        std::uint64_t{tmpfs.uid}, std::uint64_t{tmpfs.gid},
        std::uint64_t{tmpfs.no_swap}, std::uint64_t{request.wish.attributes}}) {
    arguments.Add(std::to_string(number));
  }
  for (const auto& extents : {exec::ExtentsOf(request.wish.ids),
                              exec::GidExtentsOf(request.wish.ids)}) {
    for (const exec::IdExtent& extent : extents) {
      arguments.Add(std::to_string(extent.on_disk))
          .Add(std::to_string(extent.shown))
          .Add(std::to_string(extent.count));
    }
  }
  arguments.Add(std::to_string(request.wish.ids.count));
  arguments.Add(std::to_string(request.wish.ids.gid_count));
  arguments.Add(std::string(PropagationName(request.wish.propagation)));
  return arguments.Add(request.wish.task_path).Add(TargetOf(request)).text();
}

Result<BindMountRequest> RequestFrom(const std::string& allocation,
                                     const Dict& mount, std::size_t number) {
  OptionReader reader("mounts[" + std::to_string(number) + "]", mount);
  MountArguments arguments;
  arguments.allocation = allocation;
  arguments.task = reader.Get<std::string>("task", "");
  arguments.name = reader.Get<std::string>("name", "");
  arguments.source_type = reader.Get<std::string>("source_type", "");
  arguments.source = reader.Get<std::string>("source", "");
  arguments.read_only = reader.Get("read_only", false);
  arguments.propagation = reader.Get<std::string>("propagation", "private");
  MOUNTD_ASSIGN(BindMountRequest request, RequestFrom(arguments, reader));
  MOUNTD_TRY(reader.Finish());
  return request;
}

}  // namespace mountd::dbus
