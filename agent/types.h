// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The values that an agent sends to mountd and gets from it, as plain structs.
// dbus/org.mountd1.Manager.xml defines each field. Where the caller chooses
// from a closed set, the field is an enum. Where the daemon answers, the field
// is the daemon's own text, so that an older client can show an answer of a
// newer daemon.
namespace mountd::agent {

struct AllocationOptions {
  std::string scope{};  // a label that the agent chooses
  // An fd of the directory of the cgroup (version 2) that the tasks are in; -1:
  // none. The caller keeps the fd and closes it.
  int cgroup = -1;
};

struct Port {
  std::string label{};
  std::uint16_t host = 0;
  std::uint16_t container = 0;    // 0: the same as host
  std::string protocols = "tcp";  // "udp", "sctp", or several with "+"
  std::uint16_t count = 1;        // how many ports in a row
  std::string host_address{};     // an address of the host; "": any
};

struct NetworkSpec {
  std::string mode = "bridge";  // "none", "host", "driver", "cni/NAME"
  std::string network{};        // "": the configuration's default
  std::vector<Port> ports{};
  std::string interface {};  // the interface's name inside; "": "eth0"
  std::string address{};     // exactly this one; "": any free one
  std::string address6{};
  bool isolated = false;  // no traffic to or from other allocations
  // True if the task reaches all destinations by this network. If absent, that
  // is so for the first network of the allocation only.
  std::optional<bool> default_route{};
  std::string hostname{};
  struct Host {
    std::string address;
    std::vector<std::string> names;
  };
  // Added to localhost and the allocation's own name.
  std::vector<Host> hosts{};
  std::vector<std::string> dns_servers{};
  std::vector<std::string> dns_searches{};
  std::vector<std::string> dns_options{};
  // Only CNI's networks use the fields from here to `bandwidth`.
  std::map<std::string, std::string> cni_args{};
  std::string mac{};
  std::vector<std::string> ips{};  // addresses, also with a prefix
  // Keys: "ingress_rate", "egress_rate" in bits a second; "ingress_burst",
  // "egress_burst" in bits.
  std::map<std::string, std::uint64_t> bandwidth{};
  // A network namespace to use instead of a new one; -1: none. The caller keeps
  // the fd and closes it.
  int netns = -1;
  // A pidfd of a process of the caller that keeps the ports by sockets of its
  // own; -1: none. The caller keeps the fd and closes it.
  int ports_keeper = -1;
};

struct NetworkStatus {
  std::string mode;
  std::string network;
  std::string netns_path;
  std::uint64_t netns_inode = 0;
  std::string interface;
  std::string address;
  std::string address6;
  std::string gateway;
  std::string gateway6;
  std::string host_interface;
  std::string mac;  // of CNI's networks only
  std::vector<std::string> dns_servers;
  std::vector<std::string> dns_searches;
  std::vector<std::string> dns_options;
  std::vector<Port> ports;
  bool isolated = false;
  bool default_route = false;
  struct File {
    std::string host_path;
    std::string task_path;
  };
  std::vector<File> files;  // the agent mounts these into tasks, read-only
};

struct VolumeUsage {
  bool read_only = false;
  std::string access_mode{};      // "": "single-node-writer"
  std::string attachment_mode{};  // "": "file-system"
  std::string fs_type{};
  std::string volume_mount_group{};
  std::vector<std::string> mount_flags{};
};

struct VolumeSpec {
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
  std::string unit;  // "bytes", "inodes"
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t available = 0;
};

struct VolumeStats {
  std::vector<VolumeUse> usage;
  bool has_condition = false;  // the plugin reports a condition
  bool abnormal = false;
  std::string condition{};
};

struct VolumeExpansion {
  std::int64_t required_bytes = 0;
  std::int64_t limit_bytes = 0;  // 0: none
  std::map<std::string, std::string> secrets{};
};

enum class SourceType { kHostVolume, kVolume, kTmpfs, kFilesystem };
enum class Propagation { kPrivate, kHostToTask, kBidirectional };

constexpr std::string_view SourceTypeName(SourceType type) {
  switch (type) {
    case SourceType::kHostVolume:
      return "host";
    case SourceType::kTmpfs:
      return "tmpfs";
    case SourceType::kFilesystem:
      return "filesystem";
    case SourceType::kVolume:
      break;
  }
  return "volume";
}

// Options of a tmpfs. mountd's defaults for absent fields: as many inodes as
// the size has KiB, mode 0700, and the allocation's owner.
struct TmpfsOptions {
  std::uint64_t size = 0;  // bytes; required
  std::optional<std::uint64_t> inodes{};
  std::optional<std::uint32_t> mode{};
  std::optional<std::uint32_t> uid{};
  std::optional<std::uint32_t> gid{};
  bool noswap = false;
};

// Shows files of the `count` ids from `on_disk` on as files of the ids from
// `shown` on, for users and groups alike.
struct IdExtent {
  std::uint32_t on_disk = 0;
  std::uint32_t shown = 0;
  std::uint32_t count = 1;
};

struct BindMountSpec {
  std::string task{};
  std::string name{};
  SourceType source_type = SourceType::kVolume;
  // The alias of a published volume, the name of a host volume or of a file
  // system of the configuration, or "" for a tmpfs.
  std::string source{};
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::string task_path{};  // mountd returns it unchanged in MountConfig
  bool noexec = false;
  bool noatime = false;
  std::vector<IdExtent> id_map{};       // at most four
  std::optional<TmpfsOptions> tmpfs{};  // of kTmpfs only
  // An fd of the directory to mount on instead of the inbox; -1: the inbox. The
  // caller keeps the fd and closes it.
  int directory = -1;
  // A pidfd of a process of a container, to mount at `task_path` in that
  // container's mount namespace instead of the inbox; -1: none. The caller
  // keeps the fd and closes it.
  int container = -1;
};

// A task's inbox. The task driver mounts it into the task once.
struct InboxConfig {
  std::string host_path;
  std::string propagation;
  std::string required_rootfs_propagation;
};

enum class UnmountMode { kPlain, kDetach, kForce, kAbort };

// Says what a tear-down does if a process has a copy of its own of the mount or
// volume, because unmounting does not take that copy from the process.
// - kRefuse: Busy with names of such processes, and nothing has changed.
// - kWait: waits until there are no copies.
// - kIgnore: goes on. A volume with copies counts as detached
//   (Receipt::node_detached) only when the last copy has gone.
enum class OnTasks { kRefuse, kWait, kIgnore };

// The mount that a task driver inserts to give it to the task.
struct MountConfig {
  std::string host_path;
  std::string task_path;
  bool read_only = false;
  std::string propagation;
  std::string required_rootfs_propagation;
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct Holder {
  std::uint32_t pid = 0;
  // Empty, or 0, if the caller may not know it.
  std::uint32_t uid = 0;
  std::string command;
  std::string how;  // "cwd", "root", "exe", "fd 5", "mmap"
  bool in_cgroup = false;
  bool copy = false;  // the process uses a copy in its own mount namespace
};

struct Holders {
  std::vector<Holder> holders;
  bool more = false;      // there are holders that are not listed
  bool complete = false;  // mountd looked at all processes
};

// A mount that mountd handed out as an fd, and the processes that have it.
struct HandedOut {
  std::string kind;         // "detached" or "inbox"
  std::string source_type;  // "host", "volume", "filesystem"; "" for an inbox
  std::string source;
  std::string task;  // for an inbox only
  std::uint64_t mount_id = 0;
  Holders holders;
};

struct HandedOutList {
  std::vector<HandedOut> descriptors;
  bool complete = false;  // there are no others
};

struct RepairedMount {
  MountConfig config;
  std::uint64_t replaced_mount_id = 0;
  std::optional<Holders> old_holders{};  // only if the allocation has a cgroup
  bool reaches_task = false;
  std::string reason;  // why it does not reach the task
};

struct ReplacedMount {
  MountConfig config;
  std::uint64_t replaced_mount_id = 0;   // 0: the mount was as asked already
  std::optional<Holders> old_holders{};  // only if the allocation has a cgroup
};

// One of a task's mounts, as found in the task.
struct TaskMount {
  std::string name;
  std::string verdict;  // "ok", or the problem
  std::string reason;
  bool read_only = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct TaskReport {
  bool ok = false;
  std::vector<TaskMount> mounts;
  std::uint64_t mount_namespace = 0;
  bool own_user_namespace = false;
};

using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

struct ReleasedVolume {
  std::string plugin;
  std::string volume;
  bool unstaged = false;
};

struct Receipt {
  std::string allocation;
  Timestamp released_at;
  bool node_detached = false;
  std::vector<ReleasedVolume> volumes;
  // Volumes that are not detached yet, because their plugin is away or a
  // process has a copy. The agent must not free a claim on any volume until a
  // later GetReceipt lists none here.
  std::vector<ReleasedVolume> owed;
  std::uint64_t serial = 0;
};

struct VolumeStatus {
  std::string alias;
  std::string plugin;
  std::string volume;
  std::string state;
  bool read_only = false;
  std::string host_path;
};

struct MountStatus {
  std::string task;
  std::string name;
  std::string source_type;
  std::string source;
  std::string state;
  MountConfig config;
  std::string health{};  // "healthy", "dead", "hung", "unknown"
};

struct AllocationStatus {
  std::string id;
  std::uint32_t uid = 0;
  std::string scope;
  std::string state;
  std::string host_path;
  std::vector<NetworkStatus> networks;  // in the order of their interfaces
  std::vector<VolumeStatus> volumes;
  std::vector<MountStatus> mounts;
  std::vector<std::string> inboxes;  // tasks that have an inbox
};

struct AllocationEntry {
  std::string id;
  std::uint32_t uid = 0;
  std::string scope;
  std::string state;
};

// The result of Reconcile for one allocation.
struct ReconciledAllocation {
  std::string allocation;
  // "present", "missing", "released", "unwanted", "live", "owed".
  std::string outcome;
  std::string reason;
  // For "present" only, the parts to make again: "bare", "network/INTERFACE",
  // "volume/ALIAS", "mount/TASK/NAME".
  std::vector<std::string> needs;
  std::optional<Holders> holders{};  // for "live" only
};

struct Reconciliation {
  std::string scope;
  std::uint64_t epoch = 0;  // grows with each start of the agent
  std::vector<std::string> wanted;
  bool dry_run = false;
};

struct VolumeUser {
  std::string allocation;
  std::string alias;
};

struct StagedVolume {
  std::string plugin;
  std::string volume;
  std::string state;
  std::string attachment_mode;
  std::string access_mode;
  std::string fs_type;
  bool needs_secrets = false;
  std::vector<VolumeUser> users;
};

enum class PluginType { kNode, kController, kMonolith };

struct PluginSpec {
  std::string plugin{};
  PluginType type = PluginType::kNode;
  std::string allocation{};              // "": of no allocation
  std::string mount_dir{};               // "": the path on the host
  std::string stage_publish_base_dir{};  // "": in mount_dir
  bool bare_directories = false;
  std::chrono::milliseconds health_timeout{0};  // 0: mountd's configured time
};

// Selects instances of a plugin to unregister.
struct PluginSelection {
  std::optional<PluginType> type{};
  std::optional<std::string> allocation{};
  bool force = false;  // even while volumes of the plugin are staged
};

struct PluginMount {
  std::string host_path;
  std::string task_path;
  bool read_only = false;
  std::string propagation;
};

struct PluginRegistration {
  std::string host_path;
  std::string endpoint;  // the value of CSI_ENDPOINT
  std::vector<PluginMount> mounts;
};

// Describes the instance that node calls go to. `instances` describes each
// instance.
struct PluginStatus {
  std::string id;
  std::string type;
  std::uint32_t uid = 0;
  std::string allocation;
  std::string state;  // "starting", "healthy", "unhealthy", "gone"
  std::string reason;
  std::string provider;
  std::string vendor_version;
  std::string node_id;
  std::int64_t max_volumes = 0;  // 0: no limit
  std::map<std::string, std::string> topology;
  std::vector<std::int32_t> node_capabilities;
  std::vector<std::int32_t> controller_capabilities;
  std::vector<std::int32_t> plugin_capabilities;
  std::uint64_t generation = 0;
  std::string mount_dir;
  std::string stage_publish_base_dir;
  bool bare_directories = false;
  Timestamp update_time;
  std::vector<PluginStatus> instances;  // the newest first
};

// The result of RemoveTree and ChownTree.
struct TreeResult {
  std::uint64_t done = 0;  // files and directories
  std::uint64_t left = 0;  // ChownTree: files of other owners, unchanged
};

struct OwedTeardown {
  std::uint64_t id = 0;
  std::string kind;
  std::string object;
  std::string reason;
  std::uint32_t attempts = 0;
  Timestamp since;
};

// An operation under way.
struct OperationStatus {
  std::string id;  // for Cancel
  std::string method;
  std::string object;  // operations on the same object run one after the other
  std::uint32_t uid = 0;
  std::chrono::milliseconds elapsed{0};
  std::uint32_t waiters = 0;  // calls that wait for it
  bool cancelled = false;
  // "queue", "stage", "cni-add", ...; "end": the operation is over.
  std::string step;
  // Counts mounts, volumes, networks, allocations or files.
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: unknown
  // The number of the try, from 1, of a plugin's call; 0: no such call.
  std::uint32_t attempt = 0;
  std::string error;  // why the previous try failed: "Unavailable", ...; or ""
};

// The pending tear-downs of all users.
struct OwedSummary {
  std::uint32_t count = 0;
  Timestamp since;  // when the oldest failed first; the epoch if there is none
};

struct AddressUsage {
  std::uint32_t capacity = 0;
  std::uint32_t free = 0;
};

struct Capabilities {
  std::string version;
  std::string kernel;
  std::vector<std::string> network_modes;
  std::map<std::string, AddressUsage> addresses;  // by network
  struct HostPorts {
    std::uint16_t first = 0;
    std::uint16_t last = 0;
    std::uint32_t free = 0;  // no allocation uses them
  };
  std::vector<HostPorts> host_ports;               // that the caller may map
  std::map<std::string, std::string> cni_plugins;  // plugin -> its release
  std::vector<std::string> propagation;
  std::vector<std::string> source_types;
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature -> reason
  // Executors that hang in the kernel and that mountd has abandoned.
  std::uint32_t stuck_executors = 0;
  // Files of mountd's stores that the last start of mountd found damaged.
  std::vector<std::string> stores_set_aside;
  // The file of the mount namespace in which mountd's mounts are, for setns(2).
  // "": they are in the host's.
  std::string mount_namespace;
  // From the configuration: limits.mount_reserve, timeouts.owed_warning_ms.
  std::uint32_t mount_reserve = 1000;
  std::chrono::milliseconds owed_warning{300'000};
  bool administrator = false;  // the caller is an administrator
  bool rules = false;          // a rule names the caller
};

struct MethodStatistics {
  std::string method;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p99_us = 0;
};

}  // namespace mountd::agent
