// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/job/job.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "agent/fields/mount_fields.h"
#include "agent/mountctl/job/directory.h"
#include "agent/mountctl/job/section.h"
#include "agent/mountctl/job/task.h"
#include "mountd/base/number.h"

namespace mountd::agent {
namespace {

void ReadNetwork(Section& section, NetworkSpec& network) {
  section
      .Only({"mode", "network", "port", "interface", "address", "address6",
             "isolated", "hostname", "dns_servers", "dns_searches",
             "dns_options", "cni_args", "mac", "ips"})
      .Text("mode", network.mode)
      .Text("network", network.network)
      .Text("interface", network.interface)
      .Text("address", network.address)
      .Text("address6", network.address6)
      .Flag("isolated", network.isolated)
      .Text("hostname", network.hostname)
      .Texts("dns_servers", network.dns_servers)
      .Texts("dns_searches", network.dns_searches)
      .Texts("dns_options", network.dns_options)
      .TextMap("cni_args", network.cni_args)
      .Text("mac", network.mac)
      .Texts("ips", network.ips)
      .Tables("port", [&](Section& each) {
        Port port;
        each.Only({"label", "host", "container", "protocols", "count",
                   "host_address"})
            .Require("label")
            .Require("host")
            .Text("label", port.label)
            .PortNumber("host", 1, port.host)
            .PortNumber("container", 0, port.container)
            .PortNumber("count", 1, port.count)
            .Text("host_address", port.host_address)
            .Text("protocols", port.protocols);
        network.ports.push_back(std::move(port));
      });
}

void ReadVolume(Section& section, VolumeSpec& volume) {
  section
      .Only({"alias", "plugin", "id", "read_only", "access_mode",
             "attachment_mode", "fs_type", "mount_flags", "publish_context",
             "volume_context"})
      .Require("alias")
      .Require("plugin")
      .Require("id")
      .Text("alias", volume.alias)
      .Text("plugin", volume.plugin)
      .Text("id", volume.volume)
      .Flag("read_only", volume.usage.read_only)
      .Text("access_mode", volume.usage.access_mode)
      .Text("attachment_mode", volume.usage.attachment_mode)
      .Text("fs_type", volume.usage.fs_type)
      .Texts("mount_flags", volume.usage.mount_flags)
      .TextMap("publish_context", volume.publish_context)
      .TextMap("volume_context", volume.volume_context);
}

void ReadTmpfs(Section& section, TmpfsOptions& tmpfs) {
  std::optional<std::uint64_t> size;
  section.Require("size")
      .WholeNumber("size", size)
      .WholeNumber("inodes", tmpfs.inodes)
      .WholeNumber("uid", tmpfs.uid)
      .WholeNumber("gid", tmpfs.gid)
      .Choice("mode", "must be octal, as \"0700\"",
              [&](const std::string& text) {
                tmpfs.mode = ParseNumber<std::uint32_t>(text, 8);
                return tmpfs.mode.has_value();
              })
      .Flag("noswap", tmpfs.noswap);
  tmpfs.size = size.value_or(0);
}

void ReadExtents(Section& section, const char* key,
                 std::vector<IdExtent>& extents) {
  section.Each(key, "must be an array of ON_DISK:SHOWN:COUNT",
               [&](const std::string& text) {
                 const std::optional<IdExtent> extent = ParseExtent(text);
                 extents.push_back(extent.value_or(IdExtent{}));
                 return extent.has_value();
               });
}

void ReadIdMap(Section& section, BindMountSpec& mount) {
  ReadExtents(section, "idmap", mount.id_map);
  ReadExtents(section, "uidmap", mount.uid_map);
  ReadExtents(section, "gidmap", mount.gid_map);
}

void ReadMount(Section& section, BindMountSpec& mount) {
  section.Require("task")
      .Require("name")
      .Require("source")
      .Text("task", mount.task)
      .Text("name", mount.name)
      .Choice("source",
              "must be host:NAME, volume:ALIAS, filesystem:NAME, "
              "directory:PATH or tmpfs",
              [&](const std::string& text) {
                return ParseMountSource(text, mount);
              })
      .Choice("propagation", "must be private, host-to-task or bidirectional",
              [&](const std::string& text) {
                const auto propagation = ParsePropagation(text);
                mount.propagation = propagation.value_or(mount.propagation);
                return propagation.has_value();
              })
      .Text("path", mount.task_path)
      .Flag("read_only", mount.read_only);
  std::vector<std::string_view> known = {"task",        "name", "source",
                                         "propagation", "path", "read_only"};
  for (const MountFlag& flag : kMountFlags) {
    section.Flag(flag.key, mount.*flag.member);
    known.emplace_back(flag.key);
  }
  const bool is_tmpfs = mount.source_type == SourceType::kTmpfs;
  if (is_tmpfs) {
    known.insert(known.end(),
                 {"size", "inodes", "uid", "gid", "mode", "noswap"});
  } else {
    known.insert(known.end(), {"idmap", "uidmap", "gidmap"});
  }
  section.Only(known);
  if (is_tmpfs) {
    ReadTmpfs(section, mount.tmpfs.emplace());
  } else {
    ReadIdMap(section, mount);
  }
}

Result<Job> FromTable(const toml::table& table, std::string_view origin) {
  Job job;
  Section root(table, "", origin);
  root.Only({"allocation", "network", "volume", "mount", "task"})
      .Require("allocation")
      .Table("allocation",
             [&](const toml::table& inner) {
               Section section(inner, "allocation.", origin);
               std::optional<std::uint32_t> group;
               section.Only({"id", "scope", "group"})
                   .Require("id")
                   .Text("id", job.allocation)
                   .Text("scope", job.options.scope)
                   .WholeNumber("group", group);
               job.options.group = group.value_or(0);
               root.Adopt(section);
             })
      .Table("network",
             [&](const toml::table& inner) {
               Section section(inner, "network.", origin);
               ReadNetwork(section, job.network.emplace());
               root.Adopt(section);
             })
      .Tables("volume",
              [&](Section& section) {
                ReadVolume(section, job.volumes.emplace_back());
              })
      .Tables("task", [&](Section& section) { ReadTask(section, job); })
      .Tables("mount", [&](Section& section) {
        ReadMount(section, job.mounts.emplace_back());
        CheckMountsTask(section, job);
      });
  MOUNTD_TRY(root.status());
  return job;
}

}  // namespace

bool ParseSource(std::string_view text, BindMountSpec& mount) {
  constexpr std::string_view kHost = "host:";
  constexpr std::string_view kVolume = "volume:";
  constexpr std::string_view kFilesystem = "filesystem:";
  if (text.starts_with(kHost)) {
    mount.source_type = SourceType::kHostVolume;
    mount.source = text.substr(kHost.size());
  } else if (text.starts_with(kVolume)) {
    mount.source_type = SourceType::kVolume;
    mount.source = text.substr(kVolume.size());
  } else if (text.starts_with(kFilesystem)) {
    mount.source_type = SourceType::kFilesystem;
    mount.source = text.substr(kFilesystem.size());
  } else if (text == "tmpfs") {
    mount.source_type = SourceType::kTmpfs;
    return true;
  } else {
    return false;
  }
  return !mount.source.empty();
}

std::optional<IdExtent> ParseExtent(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second =
      first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) {
    return std::nullopt;
  }
  const auto on_disk = ParseNumber<std::uint32_t>(text.substr(0, first));
  const auto shown =
      ParseNumber<std::uint32_t>(text.substr(first + 1, second - first - 1));
  const auto count = ParseNumber<std::uint32_t>(text.substr(second + 1));
  return on_disk && shown && count
             ? std::optional(IdExtent{*on_disk, *shown, *count})
             : std::nullopt;
}

std::optional<Propagation> ParsePropagation(std::string_view text) {
  if (text == "private") {
    return Propagation::kPrivate;
  }
  if (text == "host-to-task") {
    return Propagation::kHostToTask;
  }
  if (text == "bidirectional") {
    return Propagation::kBidirectional;
  }
  return std::nullopt;
}

Result<Job> ParseJob(std::string_view text, std::string_view origin) {
  try {
    const toml::table table = toml::parse(text, origin);
    return FromTable(table, origin);
  } catch (const toml::parse_error& error) {
    return MakeError(Code::kInvalidArgument, kJob, "",
                     Where(origin, error.source()) + ": " +
                         std::string(error.description()));
  }
}

Result<Job> ReadJob(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return ErrnoError(errno, kJob, path, "is not readable");
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) {
    return ErrnoError(errno, kJob, path, "is not readable");
  }
  return ParseJob(text, path);
}

}  // namespace mountd::agent
