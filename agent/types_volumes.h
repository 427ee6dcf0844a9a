// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

// Volumes of CSI plugins on this node: requests about one, and mountd's
// answers.
namespace mountd::agent {

struct VolumeUsage {
  bool operator==(const VolumeUsage&) const = default;

  bool read_only = false;
  std::string access_mode{};      // "": "single-node-writer"
  std::string attachment_mode{};  // "": "file-system"
  std::string fs_type{};
  std::string volume_mount_group{};
  std::vector<std::string> mount_flags{};
};

struct VolumeSpec {
  bool operator==(const VolumeSpec&) const = default;

  std::string alias{};
  std::string volume{};
  std::string plugin{};
  VolumeUsage usage{};
  std::map<std::string, std::string> publish_context{};
  std::map<std::string, std::string> volume_context{};
  // The client sends the secrets in a sealed memfd. The caller clears its own
  // copies.
  std::map<std::string, std::string> secrets{};
};

struct PublishedVolume {
  bool operator==(const PublishedVolume&) const = default;

  std::string host_path;
  bool read_only = false;
  bool is_device = false;
  // Only for a device. The task's devices cgroup has to allow `device_rule`.
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::string device_rule{};
};

// One measurement of a published volume.
struct VolumeUse {
  bool operator==(const VolumeUse&) const = default;

  std::string unit;  // "bytes", "inodes"
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t available = 0;
};

struct VolumeStats {
  bool operator==(const VolumeStats&) const = default;

  std::vector<VolumeUse> usage;
  bool has_condition = false;  // the plugin reports a condition
  bool abnormal = false;
  std::string condition{};
};

struct VolumeExpansion {
  bool operator==(const VolumeExpansion&) const = default;

  std::int64_t required_bytes = 0;
  std::int64_t limit_bytes = 0;  // 0: none
  std::map<std::string, std::string> secrets{};
};

struct VolumeStatus {
  bool operator==(const VolumeStatus&) const = default;

  std::string alias;
  std::string plugin;
  std::string volume;
  std::string state;
  bool read_only = false;
  std::string host_path;
};

struct VolumeUser {
  bool operator==(const VolumeUser&) const = default;

  std::string allocation;
  std::string alias;
};

struct StagedVolume {
  bool operator==(const StagedVolume&) const = default;

  std::string plugin;
  std::string volume;
  std::string state;
  std::string attachment_mode;
  std::string access_mode;
  std::string fs_type;
  bool needs_secrets = false;
  std::vector<VolumeUser> users;
  bool has_condition = false;  // the plugin has reported a condition
  bool abnormal = false;
  std::string condition{};
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const VolumeUsage& value);
std::ostream& operator<<(std::ostream& out, const VolumeSpec& value);
std::ostream& operator<<(std::ostream& out, const PublishedVolume& value);
std::ostream& operator<<(std::ostream& out, const VolumeUse& value);
std::ostream& operator<<(std::ostream& out, const VolumeStats& value);
std::ostream& operator<<(std::ostream& out, const VolumeExpansion& value);
std::ostream& operator<<(std::ostream& out, const VolumeStatus& value);
std::ostream& operator<<(std::ostream& out, const VolumeUser& value);
std::ostream& operator<<(std::ostream& out, const StagedVolume& value);

}  // namespace mountd::agent
