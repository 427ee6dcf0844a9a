// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

// Host volumes, file systems and networks that the rules of the configuration
// grant a user.
namespace mountd::agent {

struct IdRange {
  bool operator==(const IdRange&) const = default;

  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

struct PortRange {
  bool operator==(const PortRange&) const = default;

  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// The mounts of a host volume or a file system.
struct SourceGrant {
  bool operator==(const SourceGrant&) const = default;

  std::string name;  // BindMountSpec::source
  // The propagation modes of a read-only mount, and of a writable one; none if
  // no such mount is granted.
  std::vector<std::string> read_only_propagation;
  std::vector<std::string> writable_propagation;
  std::vector<std::string> attributes;  // that each mount has
  std::vector<IdRange> ids;  // an idmap's extent on disk lies in one of them
  std::vector<std::uint32_t> uids;              // of a list of all users alone
  std::map<std::string, std::uint64_t> limits;  // by keys of mountd.toml
};

struct HostVolumeGrant {
  bool operator==(const HostVolumeGrant&) const = default;

  SourceGrant source;
  std::string path;
  // The private mounts that may show root's files on disk as the caller's own:
  // "read-only" and "writable".
  std::vector<std::string> root_as_caller;
};

struct FilesystemGrant {
  bool operator==(const FilesystemGrant&) const = default;

  SourceGrant source;
  std::string type;
  std::vector<std::string> options;  // those that name no host and no account
};

struct NetworkGrant {
  bool operator==(const NetworkGrant&) const = default;

  std::string network;
  std::string mode;                   // NetworkSpec::mode
  std::vector<std::string> ipv4;      // "bridge" only
  std::vector<std::string> ipv6;      // "bridge" only
  std::uint32_t mtu = 0;              // "bridge" only; 0: the kernel's default
  std::string unusable;               // CNI only: why it cannot be made now
  std::vector<PortRange> host_ports;  // a mapping lies in one of them
  bool host_namespaces = false;  // NetworkSpec::netns may be one of the host's
  std::map<std::string, std::uint64_t> limits;
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const IdRange& value);
std::ostream& operator<<(std::ostream& out, const PortRange& value);
std::ostream& operator<<(std::ostream& out, const SourceGrant& value);
std::ostream& operator<<(std::ostream& out, const HostVolumeGrant& value);
std::ostream& operator<<(std::ostream& out, const FilesystemGrant& value);
std::ostream& operator<<(std::ostream& out, const NetworkGrant& value);

}  // namespace mountd::agent
