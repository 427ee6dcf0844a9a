// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What an agent says to mountd and hears from it, as plain structs. The meaning
// of each field is in dbus/org.mountd1.Manager.xml. What the caller chooses
// from a closed set is an enum; what the daemon answers is its own text, so
// that an older client can show what a newer daemon says.
namespace mountd::agent {

struct AllocationOptions {
  std::string scope{};  // a label of the agent's own
  // An fd of the directory of its tasks' cgroup (version 2), which stays the
  // caller's; -1: none.
  int cgroup = -1;
};

struct Port {
  std::string label{};
  std::uint16_t host = 0;
  std::uint16_t container = 0;    // 0: the same as host
  std::string protocols = "tcp";  // "udp", "sctp", or several with "+"
  std::uint16_t count = 1;        // that many in a row
  std::string host_address{};     // of the host; "": any
};

struct NetworkSpec {
  std::string mode = "bridge";  // "none", "host", "driver", "cni/NAME"
  std::string network{};        // "": the configuration's default
  std::vector<Port> ports{};
  std::string interface {};  // its name inside; "": "eth0"
  std::string address{};     // this one; "": any
  std::string address6{};
  bool isolated = false;  // from other allocations
  // Whether all is reached by it; otherwise the first network has that.
  std::optional<bool> default_route{};
  std::string hostname{};
  struct Host {
    std::string address;
    std::vector<std::string> names;
  };
  std::vector<Host> hosts{};  // besides localhost and its own
  std::vector<std::string> dns_servers{};
  std::vector<std::string> dns_searches{};
  std::vector<std::string> dns_options{};
  // Of CNI's networks alone.
  std::map<std::string, std::string> cni_args{};
  std::string mac{};
  std::vector<std::string> ips{};  // also with a prefix
  // "ingress_rate", "egress_rate" in bits a second, "ingress_burst",
  // "egress_burst" in bits.
  std::map<std::string, std::uint64_t> bandwidth{};
  // A network namespace to use, the caller's to close; -1: none.
  int netns = -1;
  // A pidfd of a process of the caller's whose sockets keep the ports, the
  // caller's to close; -1: none.
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
  std::string mac;  // of CNI's networks alone
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
  std::vector<File> files;  // to be mounted into tasks, read-only
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
  // Sent in a sealed memfd; the caller's own copies are the caller's to clear.
  std::map<std::string, std::string> secrets{};
};

struct PublishedVolume {
  std::string host_path;
  bool read_only = false;
  bool is_device = false;
  // Of a device; the rule is what its task's devices cgroup has to allow.
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::string device_rule{};
};

// A measure of a published volume.
struct VolumeUse {
  std::string unit;  // "bytes", "inodes"
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t available = 0;
};

struct VolumeStats {
  std::vector<VolumeUse> usage;
  bool has_condition = false;  // its plugin tells it
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

// Of a tmpfs. What is absent is as the contract says: as many files as the size
// has KiB, mode 0700, the allocation's owner.
struct TmpfsOptions {
  std::uint64_t size = 0;  // bytes; needed
  std::optional<std::uint64_t> inodes{};
  std::optional<std::uint32_t> mode{};
  std::optional<std::uint32_t> uid{};
  std::optional<std::uint32_t> gid{};
  bool noswap = false;
};

// What belongs to the `count` ids from `on_disk` on shows as belonging to those
// from `shown` on, for users and groups alike.
struct IdExtent {
  std::uint32_t on_disk = 0;
  std::uint32_t shown = 0;
  std::uint32_t count = 1;
};

struct BindMountSpec {
  std::string task{};
  std::string name{};
  SourceType source_type = SourceType::kVolume;
  // A published volume's alias, the name of a host volume or of a file system
  // of the configuration, or "" for a tmpfs.
  std::string source{};
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::string task_path{};  // handed back in MountConfig as it came
  bool noexec = false;
  bool noatime = false;
  std::vector<IdExtent> id_map{};       // four at most
  std::optional<TmpfsOptions> tmpfs{};  // kTmpfs only
  // An fd of the directory to mount it on instead of the inbox, the caller's;
  // -1: the inbox.
  int directory = -1;
  // A pidfd of a container's process, in whose mount namespace it is mounted at
  // `task_path`, instead; the caller's.
  int container = -1;
};

// A task's inbox: what a task driver inserts once.
struct InboxConfig {
  std::string host_path;
  std::string propagation;
  std::string required_rootfs_propagation;
};

enum class UnmountMode { kPlain, kDetach, kForce, kAbort };

// What a tear-down does about processes that have copies of their own of what
// is to go, which its detaching does not take from them: refuses (Busy, with
// their names, and nothing has gone); waits until there are none; or goes on.
// Then a volume is not detached (Receipt::node_detached) before there are none.
enum class OnTasks { kRefuse, kWait, kIgnore };

// What a task driver inserts to give the task this mount.
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
  // Empty, or 0, where the caller may not know.
  std::uint32_t uid = 0;
  std::string command;
  std::string how;  // "cwd", "root", "exe", "fd 5", "mmap"
  bool in_cgroup = false;
  bool copy = false;  // it uses a copy in its own mount namespace
};

struct Holders {
  std::vector<Holder> holders;
  bool more = false;      // there are some that are not listed
  bool complete = false;  // all processes were looked at
};

// A mount that was handed out as an fd, and who has it.
struct HandedOut {
  std::string kind;         // "detached" or "inbox"
  std::string source_type;  // "host", "volume", "filesystem"; "" of an inbox
  std::string source;
  std::string task;  // of an inbox
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
  std::optional<Holders> old_holders{};  // of an allocation with a cgroup
  bool reaches_task = false;
  std::string reason;  // why it does not
};

struct ReplacedMount {
  MountConfig config;
  std::uint64_t replaced_mount_id = 0;   // 0: it was as asked already
  std::optional<Holders> old_holders{};  // of an allocation with a cgroup
};

// One of a task's mounts, as the task has it.
struct TaskMount {
  std::string name;
  std::string verdict;  // "ok", or what is wrong with it
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
  // Plugins that were away still have to be told of these, or tasks have copies
  // of them: no claim on them may be freed until a later GetReceipt has none.
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
  std::vector<std::string> inboxes;  // the tasks that have one
};

struct AllocationEntry {
  std::string id;
  std::uint32_t uid = 0;
  std::string scope;
  std::string state;
};

// What Reconcile did with one allocation.
struct ReconciledAllocation {
  std::string allocation;
  // "present", "missing", "released", "unwanted", "live", "owed".
  std::string outcome;
  std::string reason;
  // Of one that is present, to be made again: "bare", "network/INTERFACE",
  // "volume/ALIAS", "mount/TASK/NAME".
  std::vector<std::string> needs;
  std::optional<Holders> holders{};  // of one that is live
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
  std::string allocation{};              // "": not part of one
  std::string mount_dir{};               // "": the host's own path
  std::string stage_publish_base_dir{};  // "": in mount_dir
  bool bare_directories = false;
  std::chrono::milliseconds health_timeout{0};  // 0: mountd's own
};

// Which instances of a plugin to unregister.
struct PluginSelection {
  std::optional<PluginType> type{};
  std::optional<std::string> allocation{};
  bool force = false;  // although volumes of it are staged
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

// Of the instance that calls for the node go to; of each, in `instances`.
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

// Of RemoveTree and ChownTree.
struct TreeResult {
  std::uint64_t done = 0;  // files and directories
  std::uint64_t left = 0;  // ChownTree: of other owners, left as they are
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
  std::string object;  // what its calls come one after the other for
  std::uint32_t uid = 0;
  std::chrono::milliseconds elapsed{0};
  std::uint32_t waiters = 0;  // calls that wait for it
  bool cancelled = false;
  std::string step;  // "queue", "stage", "cni-add", ...; "end": it is over
  std::uint64_t done = 0;     // mounts, volumes, networks, allocations, files
  std::uint64_t total = 0;    // 0: not known
  std::uint32_t attempt = 0;  // of a plugin's call that is tried again; else 0
  std::string error;  // why the one before failed: "Unavailable", ...; or ""
};

// Of every user's.
struct OwedSummary {
  std::uint32_t count = 0;
  Timestamp since;  // of the oldest; the epoch if there is none
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
    std::uint32_t free = 0;  // no allocation has them
  };
  std::vector<HostPorts> host_ports;               // that the caller may map
  std::map<std::string, std::string> cni_plugins;  // their releases
  std::vector<std::string> propagation;
  std::vector<std::string> source_types;
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature -> reason
  // Executors that hang in the kernel, abandoned.
  std::uint32_t stuck_executors = 0;
  // Files of mountd's stores that its last start found damaged.
  std::vector<std::string> stores_set_aside;
  // The mount namespace that host paths of mounts are in, for setns(2); "": the
  // host's.
  std::string mount_namespace;
  // Of the configuration: limits.mount_reserve, timeouts.owed_warning_ms.
  std::uint32_t mount_reserve = 1000;
  std::chrono::milliseconds owed_warning{300'000};
  bool administrator = false;  // the caller is
  bool rules = false;          // there is a rule that names the caller
};

struct MethodStatistics {
  std::string method;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p99_us = 0;
};

}  // namespace mountd::agent
