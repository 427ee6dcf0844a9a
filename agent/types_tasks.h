// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

// Tasks and other processes: the processes that use a mount, and the mounts as
// a task sees them.
namespace mountd::agent {

struct Holder {
  bool operator==(const Holder&) const = default;

  std::uint32_t pid = 0;
  // Empty, or 0, if the caller may not know these values.
  std::uint32_t uid = 0;
  std::string command;
  std::string how;  // "cwd", "root", "exe", "fd 5", "mmap"
  bool in_cgroup = false;
  bool copy = false;  // the process uses a copy in its own mount namespace
};

struct Holders {
  bool operator==(const Holders&) const = default;

  std::vector<Holder> holders;
  bool more = false;      // there are holders that are not listed
  bool complete = false;  // mountd looked at all processes
};

// A mount that mountd handed out as an fd, and the processes that have it.
struct HandedOut {
  bool operator==(const HandedOut&) const = default;

  std::string kind;         // "detached", "inbox" or "namespace"
  std::string source_type;  // "host", "volume", "filesystem"; "" for an inbox
  std::string source;
  std::string task;  // for an inbox only
  std::uint64_t mount_id = 0;
  Holders holders;
};

struct HandedOutList {
  bool operator==(const HandedOutList&) const = default;

  std::vector<HandedOut> descriptors;
  bool complete = false;  // there are no others
};

// One of a task's mounts, as found in the task.
struct TaskMount {
  bool operator==(const TaskMount&) const = default;

  std::string name;
  std::string verdict;  // "ok", or the problem
  std::string reason;
  bool read_only = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
  bool nosymfollow = false;
};

struct TaskReport {
  bool operator==(const TaskReport&) const = default;

  bool ok = false;
  std::vector<TaskMount> mounts;
  std::uint64_t mount_namespace = 0;
  bool own_user_namespace = false;
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const Holder& value);
std::ostream& operator<<(std::ostream& out, const Holders& value);
std::ostream& operator<<(std::ostream& out, const HandedOut& value);
std::ostream& operator<<(std::ostream& out, const HandedOutList& value);
std::ostream& operator<<(std::ostream& out, const TaskMount& value);
std::ostream& operator<<(std::ostream& out, const TaskReport& value);

}  // namespace mountd::agent
