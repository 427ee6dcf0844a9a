// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/base/names.h"
#include "mountd/plan/values.h"
#include "mountd/store/string_map.h"

// The records of CSI plugins and their volumes. state.db keeps all of them, so
// they outlive the boot.
namespace mountd {

// One instance of a plugin. An instance is unique by (id, type, allocation).
// All instances of a plugin have one owner, one directory and one way to
// publish.
struct PluginRecord {
  std::string id;
  std::string type;  // "node", "controller", "monolith"
  std::uint32_t uid = 0;
  std::string allocation;
  // The path of the plugin's directory inside the plugin's task; "": the same
  // as on the host.
  std::string mount_dir;
  // The path of staging/ and publish/ inside the plugin's task, if they are not
  // in its directory.
  std::string stage_publish_base_dir{};
  // True if the plugin publishes plain directories instead of mounts.
  bool bare_directories = false;
  std::uint64_t health_timeout_ms = 0;  // 0: the configuration's
  bool declared = false;  // by root's configuration: mountd starts it
  // Each new instance gets a higher serial. 0: this record is the plugin
  // itself, which has no instance any more and stays because of its volumes.
  std::uint64_t serial = 0;
};

// kUncertain: an RPC ended without a final answer. mountd repeats the same call
// until it has one.
enum class VolumeState : int {
  kStaging = 1,
  kStaged = 2,
  kUnstaging = 3,
  kUncertain = 4,
};

// Data that a stage needs and that no store may hold. Only the agent has such
// data.
enum VolumeNeeds : std::uint32_t {
  kNeedsSecrets = 1U << 0U,
  kNeedsMountFlags = 1U << 1U,
};

struct VolumeRecord {
  VolumeKey key;
  std::string plugin;
  std::string volume_id;
  VolumeState state = VolumeState::kStaging;
  int access_mode = 1;
  std::string fs_type;
  // A digest of fs_type and mount_flags. mountd compares a second user's flags
  // only by this digest, because flags may be secret.
  std::string capability_digest;
  StringMap publish_context;
  StringMap volume_context;
  std::uint32_t uid = 0;  // user whose secrets staged it; nobody else may join
  bool block = false;     // block-device attachment
  std::string volume_mount_group;
  std::uint32_t needs = 0;  // VolumeNeeds
};

enum class PublicationState : int {
  kPublishing = 1,
  kPublished = 2,
  kUnpublishing = 3,
  kUncertain = 4,
};

// One user of a volume. The volume stays staged while it has a user.
struct PublicationRecord {
  VolumeKey key;
  std::string allocation;
  std::string alias;
  bool read_only = false;
  PublicationState state = PublicationState::kPublishing;
  std::uint64_t mount_id = 0;  // 0: a bare directory or a device node
  std::uint64_t device = 0;    // of a block device, as st_rdev; 0: not one
  // Published in this boot, so tasks may have mounts of it.
  bool was_published = false;
  // The file system that was mounted there when unpublishing began, if that was
  // in this boot.
  exec::FileSystemPlan file_system{};
};

// An allocation that no longer uses a volume although calls to the plugin are
// still pending, because the plugin was away.
struct DepartedRecord {
  VolumeKey key;
  std::string allocation;
  bool target_left = false;  // the plugin has not answered NodeUnpublishVolume
  // mountd uses these two to find tasks that still have copies of the volume.
  // Both are of this boot.
  std::uint64_t cgroup = 0;
  exec::FileSystemPlan file_system{};
};

}  // namespace mountd
