// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::driver {

// Propagation of a task's mount, in the words of mountd's API.
enum class TaskPropagation {
  kPrivate,
  kHostToTask,
  // CheckTaskMounts refuses this propagation, because a mount that a user
  // namespace makes does not propagate to the host.
  kBidirectional,
};

// A mount of mountd's (`host_path` of BindMount), or one of mountd's files
// (hosts, hostname, resolv.conf). Set-user-ID bits and device nodes have no
// effect in it.
struct TaskMount {
  std::string source;
  std::string destination;
  bool read_only = false;
  bool no_exec = false;
  TaskPropagation propagation = TaskPropagation::kPrivate;
};

// A device node of the host's. The runtime bind-mounts the host's node, because
// root of the container cannot make device nodes.
struct TaskDevice {
  std::string source;
  std::string destination;  // beneath /dev
};

// A symlink in the task that leads to a mount in the inbox. mountd can replace
// a mount in the inbox while the task runs, so ReplaceMount and Repair reach
// it.
struct InboxLink {
  std::string destination;
  std::string mount;  // the mount's name, which is a directory of the inbox
};

// The task's inbox (`host_path` of PrepareInbox).
struct Inbox {
  std::string source;  // "" for a task without an inbox
  std::string destination = "/inbox";
  std::vector<InboxLink> links;
};

// Checks all destinations together. Each must be absolute, without "..", and
// not at or beneath /proc, /sys or /dev. None may occur twice or be beneath a
// link. NotSupported for a bidirectional mount. InvalidArgument names the
// mount.
Result<void> CheckTaskMounts(const std::vector<TaskMount>& mounts,
                             const Inbox& inbox);

// Checks that each destination is beneath /dev, and is not at or beneath a node
// that each container has, or another device's destination. InvalidArgument
// names the device.
Result<void> CheckTaskDevices(const std::vector<TaskDevice>& devices);

// Returns the text of the link, such as "/inbox/data".
std::string TargetOfLink(const Inbox& inbox, const InboxLink& link);

// The mounts that each container has.
struct DefaultMounts {
  std::uint64_t shm_bytes = std::uint64_t{64} << 20U;
  // The map of the user namespace has group 5 (tty). devpts accepts "gid=5"
  // only if the map has this group.
  bool has_tty_group = true;
};

// Returns `mounts` of the OCI configuration: the default ones, then the task's
// own and the inbox, a parent before all that is beneath the parent.
nlohmann::json MountsJson(const DefaultMounts& defaults,
                          const std::vector<TaskMount>& mounts,
                          const Inbox& inbox);

// Returns the mounts of the devices, which come after those of /dev.
nlohmann::json DevicesJson(const std::vector<TaskDevice>& devices);

}  // namespace mountd::driver
