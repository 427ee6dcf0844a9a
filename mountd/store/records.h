// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mountd/base/names.h"
#include "mountd/plan/values.h"
#include "netns/address/address.h"

// The records that mountd keeps, as plain values. A record carries its intent
// as a state if making or undoing its object takes more than a store write.
// mountd writes that state before the plan or RPC. At the start mountd
// finishes, adopts or rolls back each record in such a state.
namespace mountd {

using StringMap = std::map<std::string, std::string>;

// ---- state.db: outlives the boot --------------------------------------------

enum class AllocationState : int { kPrepared = 1, kReleasing = 2 };

struct AllocationRecord {
  std::string id;
  std::uint32_t uid = 0;  // its owner
  std::uint32_t gid = 0;  // the owner's primary group
  std::string scope;
  AllocationState state = AllocationState::kPrepared;
  std::uint64_t cgroup = 0;  // id of its tasks' cgroup; 0: none or unknown
};

// One instance of a plugin. It is unique by (id, type, allocation). All
// instances of a plugin have one owner, one directory and one way to publish.
struct PluginRecord {
  std::string id;
  std::string type;  // "node", "controller", "monolith"
  std::uint32_t uid = 0;
  std::string allocation;
  // Where its task sees its directory; "": as the host does.
  std::string mount_dir;
  // Where its task sees staging/ and publish/, if not in its directory.
  std::string stage_publish_base_dir{};
  // True if the plugin publishes plain directories instead of mounts.
  bool bare_directories = false;
  std::uint64_t health_timeout_ms = 0;  // 0: the configuration's
  bool declared = false;  // by root's configuration: mountd starts it
  // Grows with every instance. 0: this record is the plugin itself, which has
  // lost its last instance and stays because of its volumes.
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

// Data that a stage needs and no store may hold. Only the agent has it.
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
  // Digest of fs_type and mount_flags. Flags may be secret, so mountd can only
  // compare a second user's flags with it.
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
  bool was_published = false;  // in this boot, so tasks may have mounts of it
  // The file system that was mounted there when unpublishing began, in this
  // boot.
  exec::FileSystemPlan file_system{};
};

// An allocation that no longer uses a volume while the plugin, which was away,
// still has calls pending for it.
struct DepartedRecord {
  VolumeKey key;
  std::string allocation;
  bool target_left = false;  // NodeUnpublishVolume has not been answered
  // Used to find tasks that still have copies of the volume. Both are of this
  // boot.
  std::uint64_t cgroup = 0;
  exec::FileSystemPlan file_system{};
};

struct ReceiptRecord {
  std::string allocation;
  std::uint32_t uid = 0;
  std::uint64_t serial = 0;
  std::uint64_t released_at_us = 0;  // since the epoch
  struct Volume {
    std::string plugin;
    std::string volume_id;
    bool unstaged = false;
    // The plugin was away, so detaching is not finished and no claim on the
    // volume may be freed.
    bool owed = false;
  };
  std::vector<Volume> volumes;
};

enum class OwedKind : int {
  kRelease = 1,
  kUnpublish = 2,
  kTeardownNetwork = 3,
  kUnmount = 4,
  kUnstage = 5,
};

// A tear-down that failed. `object` is the allocation, "allocation/alias",
// "allocation/task/name", or for kUnstage "plugin/volume id".
struct OwedRecord {
  std::uint64_t id = 0;
  OwedKind kind = OwedKind::kRelease;
  std::string object;
  std::uint32_t uid = 0;
  std::string reason;
  std::uint32_t attempts = 0;
  std::uint64_t since_us = 0;
};

// ---- boot.db: of this boot ----

enum class MountRecordState : int {
  kAttaching = 1,
  kAttached = 2,
  kDetaching = 3,
  kLost = 4,       // was ours; another mount or none is there now
  kReplacing = 5,  // mountd was swapping it for another
  kFound = 6,      // there without a record; its source is unknown
};

struct MountRecord {
  std::string allocation;
  std::string task;
  std::string name;
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;
  std::string source;     // host volume's name or the alias; "" for a tmpfs
  exec::TmpfsPlan tmpfs;  // kTmpfs only
  exec::Propagation propagation = exec::Propagation::kPrivate;
  std::uint32_t attributes = 0;
  exec::IdMapPlan ids;
  std::string task_path;
  MountRecordState state = MountRecordState::kAttaching;
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
  std::uint64_t source_group = 0;  // the source's peer group at the bind
  std::uint32_t uid = 0;           // the allocation's owner
  exec::TargetKind target_kind = exec::TargetKind::kInbox;
  // kDirectory: the directory's path when the caller passed it. kContainer: the
  // inode of the container's mount namespace. mountd never opens it.
  std::string place;
};

// An inbox of a task that stays even when it is empty.
struct InboxRecord {
  std::string allocation;
  std::string task;
};

enum class HandedOutKind : int { kDetached = 1, kInbox = 2 };

// A mount that a caller has as an fd. No unmount removes it from processes that
// hold it. So the record outlives the allocation, and mountd removes it when no
// process holds the mount.
struct HandedOutRecord {
  exec::HandedOutMount mount;
  std::string allocation;
  std::uint32_t uid = 0;  // the allocation's owner
  HandedOutKind kind = HandedOutKind::kDetached;
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;  // kDetached
  std::string name{};  // of the source or the task
};

// A mount that mountd made once for all its users: a host volume's anchor, or a
// file system.
struct AnchorKey {
  exec::SourceKind kind = exec::SourceKind::kHostVolume;
  std::string source;
  friend auto operator<=>(const AnchorKey&, const AnchorKey&) = default;
};

struct PortMapping {
  std::string label;
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  std::uint8_t protocols = 0;  // exec::Protocol bits
  std::uint16_t count = 1;     // so many consecutive host and container ports
  netns::HostIp host_address{};
  friend bool operator==(const PortMapping&, const PortMapping&) = default;
};

enum class NetworkRecordState : int {
  kCreating = 1,
  kCreated = 2,
  kDeleting = 3,
  kFound = 4,  // there without a record; removed by its link's name
};

enum class NetworkMode : int {
  kNone = 1,    // a namespace with its loopback
  kHost = 2,    // the host's own
  kBridge = 3,  // a routed veth
  kDriver = 4,  // a namespace that the task's driver made
  kCni = 5,     // made by the plugins of a CNI network
};

// The interface name of a record that is only a namespace, or the host's
// network.
inline constexpr char kLoopbackInterface[] = "lo";

// A line of an allocation's hosts file (network_files.h).
struct HostEntry {
  std::string address;
  std::vector<std::string> names;
  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

// resolv.conf(5)
struct DnsSettings {
  std::vector<std::string> servers{};
  std::vector<std::string> searches{};
  std::vector<std::string> options{};
  bool empty() const { return *this == DnsSettings{}; }
  friend bool operator==(const DnsSettings&, const DnsSettings&) = default;
};

struct NetworkFiles {
  std::string hostname{};
  std::vector<HostEntry> hosts{};  // besides localhost and its own
  DnsSettings dns{};
  bool empty() const { return *this == NetworkFiles{}; }
  friend bool operator==(const NetworkFiles&, const NetworkFiles&) = default;
};

// A request to CNI's plugins, besides ports and name servers.
struct CniSettings {
  StringMap args{};                   // CNI_ARGS
  std::string mac{};                  // "02:..."; "": any
  std::vector<std::string> ips{};     // "10.0.0.5/24"
  struct Bandwidth {                  // 0: no bound
    std::uint64_t ingress_rate = 0;   // bits in a second
    std::uint64_t ingress_burst = 0;  // bits
    std::uint64_t egress_rate = 0;
    std::uint64_t egress_burst = 0;
    friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
  } bandwidth{};
  friend bool operator==(const CniSettings&, const CniSettings&) = default;
};

// The plugins' result. Addresses and gateways may be absent.
struct CniResult {
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  netns::Ipv4 gateway4{};
  netns::Ipv6 gateway6{};
  std::string mac{};
  DnsSettings dns{};
  bool makes_resolv_conf = false;  // of `dns`; else the agent's settings count
  friend bool operator==(const CniResult&, const CniResult&) = default;
};

// One network of an allocation, named by its interface. All networks of an
// allocation share one namespace.
struct NetworkRecord {
  std::string allocation;
  std::string interface;
  NetworkMode mode = NetworkMode::kBridge;
  std::string network{};  // kBridge: the configuration's; kCni: CNI's
  netns::Ipv4 ipv4{};     // kBridge alone
  netns::Ipv6 ipv6{};
  std::uint32_t flags = 0;  // exec::NetworkFlag
  std::vector<PortMapping> ports{};
  NetworkRecordState state = NetworkRecordState::kCreating;
  std::uint64_t netns_inode = 0;
  bool netns_given = false;  // the caller's; mountd does not remove it
  NetworkFiles files{};      // mountd writes them with the network
  CniSettings cni{};         // kCni only
  CniResult cni_result{};    // kCni only, once created
  // A call took over this network, which had lost its record. So its allocation
  // may have lost other records, too.
  bool taken_over = false;
};

// Addresses that mountd does not give out, because their link is still ending.
struct QuarantineRecord {
  std::string network;
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  std::string allocation;  // had the addresses before
  std::uint64_t netns_inode = 0;
};

}  // namespace mountd
