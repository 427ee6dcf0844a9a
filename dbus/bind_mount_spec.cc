// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/bind_mount_spec.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <tuple>

#include "dbus/inbound.h"
#include "mountd/closer/passed_fd.h"
#include "mountd/plan/container_path.h"
#include "mountd/plan/plan_ids.h"

namespace mountd::dbus {
namespace {

// Checks the length and encoding only, because mountd never opens this path; it
// returns the text to the task driver.
Result<void> CheckTaskPath(const std::string& path) {
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

// Gives a map with too many extents a count above the limit, so that the check
// of the plan refuses it.
exec::IdMapPlan IdsFrom(OptionReader& reader) {
  using Extent = sdbus::Struct<std::uint32_t, std::uint32_t, std::uint32_t>;
  exec::IdMapPlan ids;
  const auto given = reader.Get<std::vector<Extent>>("idmap", {});
  for (std::size_t i = 0; i < given.size() && i < ids.extents.size(); ++i) {
    ids.extents.at(i) = {std::get<0>(given[i]), std::get<1>(given[i]),
                         std::get<2>(given[i])};
  }
  ids.count = static_cast<std::uint32_t>(
      std::min(given.size(), ids.extents.size() + 1));
  return ids;
}

Error InvalidOption(const char* key, const char* why) {
  return MakeError(Code::kInvalidArgument, "check",
                   "options[\"" + std::string(key) + "\"]", why);
}

// Takes mountd's own copy of the caller's fd into `spec`.
Result<void> TakeFd(const sdbus::UnixFd& given, const char* key,
                    BindMountSpec* spec) {
  if (spec->fd) {
    return InvalidOption(
        key, "is not possible with this kind of target; leave it out");
  }
  auto fd = TakePassed(given.get());
  if (!fd->valid()) {
    return ErrnoError(errno, "check", key);
  }
  spec->fd = std::move(fd);
  return Ok();
}

Result<void> ReadDirectory(OptionReader& reader, BindMountSpec* spec) {
  constexpr char kKey[] = "directory";
  const auto given = reader.Get<sdbus::UnixFd>(kKey, sdbus::UnixFd());
  if (!given.isValid()) {
    return Ok();
  }
  MOUNTD_TRY(TakeFd(given, kKey, spec));
  std::array<char, PATH_MAX> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(spec->fd->get());
  const ssize_t size = readlink(link.c_str(), text.data(), text.size());
  if (size <= 0) {
    return ErrnoError(errno, "check", kKey);
  }
  spec->place.assign(text.data(), static_cast<std::size_t>(size));
  if (!IsValidUtf8(spec->place)) {
    return InvalidOption(kKey, "must be a directory whose path is valid UTF-8");
  }
  spec->target_kind = exec::TargetKind::kDirectory;
  return Ok();
}

Result<void> ReadContainer(OptionReader& reader, BindMountSpec* spec) {
  constexpr char kKey[] = "container";
  const auto given = reader.Get<sdbus::UnixFd>(kKey, sdbus::UnixFd());
  if (!given.isValid()) {
    return Ok();
  }
  MOUNTD_TRY(TakeFd(given, kKey, spec));
  const std::string_view fault = exec::FaultOfContainerPath(spec->task_path);
  if (!fault.empty()) {
    return InvalidOption("task_path", fault.data());
  }
  spec->target_kind = exec::TargetKind::kContainer;
  return Ok();
}

}  // namespace

Result<BindMountSpec> SpecFrom(const MountArguments& arguments,
                               OptionReader& reader) {
  BindMountSpec spec;
  spec.task_path = reader.Get<std::string>("task_path", "");
  spec.attributes = reader.Get("noexec", false) ? exec::kNoExec : 0U;
  spec.attributes |= reader.Get("noatime", false) ? exec::kNoAtime : 0U;
  spec.attributes |= arguments.read_only ? exec::kReadOnly : 0U;
  spec.ids = IdsFrom(reader);
  MOUNTD_TRY(CheckTaskPath(spec.task_path));
  MOUNTD_TRY(ReadDirectory(reader, &spec));
  MOUNTD_TRY(ReadContainer(reader, &spec));
  MOUNTD_TRY(Name::Parse("allocation", arguments.allocation));
  MOUNTD_TRY(Name::Parse("task", arguments.task));
  MOUNTD_TRY(Name::Parse("name", arguments.name));
  MOUNTD_ASSIGN(spec.source_kind, ParseSourceKindName(arguments.source_type));
  if (spec.source_kind == exec::SourceKind::kTmpfs) {
    spec.tmpfs = TmpfsFrom(reader);
  } else {
    MOUNTD_TRY(Name::Parse("source", arguments.source));
  }
  MOUNTD_ASSIGN(spec.propagation, ParsePropagationName(arguments.propagation));
  spec.allocation = arguments.allocation;
  spec.task = arguments.task;
  spec.name = arguments.name;
  spec.source = arguments.source;
  return spec;
}

namespace {

// Identifies the target's fd, because the same call with another fd is another
// call.
std::string TargetOf(const BindMountSpec& spec) {
  switch (spec.target_kind) {
    case exec::TargetKind::kDirectory:
      return FileIdentityOf(spec.fd->get());
    case exec::TargetKind::kContainer:
      return TaskOf(spec.fd->get());
    case exec::TargetKind::kInbox:
      break;
  }
  return "";
}

}  // namespace

std::string IdentityOf(const BindMountSpec& spec) {
  const exec::TmpfsPlan& tmpfs = spec.tmpfs;
  Arguments arguments;
  arguments.Add(spec.allocation).Add(spec.task).Add(spec.name);
  arguments.Add(std::string(SourceKindName(spec.source_kind))).Add(spec.source);
  for (const std::uint64_t number :
       {tmpfs.bytes, tmpfs.inodes, std::uint64_t{tmpfs.mode},
        std::uint64_t{tmpfs.uid}, std::uint64_t{tmpfs.gid},
        std::uint64_t{tmpfs.no_swap}, std::uint64_t{spec.attributes}}) {
    arguments.Add(std::to_string(number));
  }
  for (const exec::IdExtent& extent : exec::ExtentsOf(spec.ids)) {
    arguments.Add(std::to_string(extent.on_disk))
        .Add(std::to_string(extent.shown))
        .Add(std::to_string(extent.count));
  }
  arguments.Add(std::to_string(spec.ids.count));
  arguments.Add(std::string(PropagationName(spec.propagation)));
  return arguments.Add(spec.task_path).Add(TargetOf(spec)).text();
}

Result<BindMountSpec> SpecFrom(const std::string& allocation, const Dict& mount,
                               std::size_t number) {
  OptionReader reader("mounts[" + std::to_string(number) + "]", mount);
  MountArguments arguments;
  arguments.allocation = allocation;
  arguments.task = reader.Get<std::string>("task", "");
  arguments.name = reader.Get<std::string>("name", "");
  arguments.source_type = reader.Get<std::string>("source_type", "");
  arguments.source = reader.Get<std::string>("source", "");
  arguments.read_only = reader.Get("read_only", false);
  arguments.propagation = reader.Get<std::string>("propagation", "private");
  MOUNTD_ASSIGN(BindMountSpec spec, SpecFrom(arguments, reader));
  MOUNTD_TRY(reader.Finish());
  return spec;
}

}  // namespace mountd::dbus
