// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mountd/base/names.h"
#include "mountd/exec/plan.h"
#include "netns/address.h"

// What mountd remembers, as plain values. Every record whose making or undoing
// takes more than a store write carries its intent as a state, written before
// the plan or RPC; what is found in such a state at start is finished, adopted
// or rolled back.
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
  std::uint64_t cgroup = 0;  // id of its tasks' cgroup; 0: none, or not known
};

// One instance of a plugin: what is one for (id, type, allocation). All
// instances of a plugin have one owner, one directory and one way to publish.
struct PluginRecord {
  std::string id;
  std::string type;  // "node", "controller", "monolith"
  std::uint32_t uid = 0;
  std::string allocation;
  std::string mount_dir;  // where its task sees its directory; "": as the host
  // Where its task sees staging/ and publish/, if not in its directory.
  std::string stage_publish_base_dir{};
  // Publishes plain directories, not mounts.
  bool bare_directories = false;
  std::uint64_t health_timeout_ms = 0;  // 0: the configuration's
  bool declared = false;  // by root's configuration: mountd starts it
  // Grows with every instance that is added. 0: none, the plugin itself, which
  // has lost its last instance and is kept for its volumes.
  std::uint64_t serial = 0;
};

// kUncertain: an RPC ended without a final answer; the same call has to be made
// until there is one.
enum class VolumeState : int {
  kStaging = 1,
  kStaged = 2,
  kUnstaging = 3,
  kUncertain = 4,
};

// What a stage needs and no store may hold: only the agent has it.
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
  // Of fs_type and mount_flags: flags may be secret, so only whether a second
  // user's are the same can be told.
  std::string capability_digest;
  StringMap publish_context;
  StringMap volume_context;
  std::uint32_t uid = 0;  // whose secrets staged it: nobody else may join
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

// One user of a volume: the reference that keeps it staged.
struct PublicationRecord {
  VolumeKey key;
  std::string allocation;
  std::string alias;
  bool read_only = false;
  PublicationState state = PublicationState::kPublishing;
  std::uint64_t mount_id = 0;  // 0: the plugin made a bare directory, or node
  std::uint64_t device = 0;    // of a block device, as st_rdev; 0: it is none
  bool was_published = false;  // in this boot: tasks may have mounts of it
  // What it is a mount of, as it was when it began to go; of this boot.
  exec::FileSystemPlan file_system{};
};

// An allocation whose part in a volume is over, except for what the plugin,
// which was away, still has to be told.
struct DepartedRecord {
  VolumeKey key;
  std::string allocation;
  bool target_left = false;  // NodeUnpublishVolume has not been answered
  // By these, of this boot, is told who still has copies of it.
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
    // The plugin was away: the detaching is not over, and no claim on the
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

// A tear-down that failed. The object is the allocation, "allocation/alias",
// "allocation/task/name", or, of kUnstage, "plugin/volume id".
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
  kLost = 4,       // was ours, and another mount or none is there now
  kReplacing = 5,  // being swapped for another, or was when that was cut off
  kFound = 6,      // there without a record: what it is of is not known
};

struct MountRecord {
  std::string allocation;
  std::string task;
  std::string name;
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;
  std::string source;     // the host volume's name, or the alias; "" of a tmpfs
  exec::TmpfsPlan tmpfs;  // kTmpfs only
  exec::Propagation propagation = exec::Propagation::kPrivate;
  std::uint32_t attributes = 0;
  exec::IdMapPlan ids;
  std::string task_path;
  MountRecordState state = MountRecordState::kAttaching;
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
  std::uint64_t source_group = 0;  // the source's peer group when it was made
  std::uint32_t uid = 0;           // the allocation's owner
  exec::TargetKind target_kind = exec::TargetKind::kInbox;
  // kDirectory: where it was when it was passed; kContainer: the inode of its
  // mount namespace. Never opened.
  std::string place;
};

// A task's inbox that stays when it is empty.
struct InboxRecord {
  std::string allocation;
  std::string task;
};

enum class HandedOutKind : int { kDetached = 1, kInbox = 2 };

// A mount that a caller has as an fd. Nothing takes it away from the processes
// that have it: the record outlives the allocation, and goes when none is found
// that has it.
struct HandedOutRecord {
  exec::HandedOutMount mount;
  std::string allocation;
  std::uint32_t uid = 0;  // the allocation's owner
  HandedOutKind kind = HandedOutKind::kDetached;
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;  // kDetached
  std::string name{};  // of the source, or the task
};

// What mountd mounted for its users, once for all of them: a host volume's
// anchor, or a file system.
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
  std::uint16_t count = 1;     // that many in a row, of both
  netns::HostIp host_address{};
  friend bool operator==(const PortMapping&, const PortMapping&) = default;
};

enum class NetworkRecordState : int {
  kCreating = 1,
  kCreated = 2,
  kDeleting = 3,
  kFound = 4,  // there without a record: it goes by its link's name
};

enum class NetworkMode : int {
  kNone = 1,    // a namespace with its loopback
  kHost = 2,    // the host's own
  kBridge = 3,  // a routed veth
  kDriver = 4,  // a namespace that the task's driver made
  kCni = 5,     // what a network of CNI's makes of it
};

// The interface of what is a namespace alone, or none.
inline constexpr char kLoopbackInterface[] = "lo";

// What an allocation's tasks are told of names (network_files.h).
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

// What CNI's plugins are asked for, beside ports and name servers.
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

// What they made, of which addresses and gateways may be none.
struct CniResult {
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  netns::Ipv4 gateway4{};
  netns::Ipv6 gateway6{};
  std::string mac{};
  DnsSettings dns{};
  bool makes_resolv_conf = false;  // of these; else the agent's word counts
  friend bool operator==(const CniResult&, const CniResult&) = default;
};

// One network of an allocation, by its interface: all of them are in the same
// namespace.
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
  bool netns_given = false;  // the caller's, and not mountd's to end
  NetworkFiles files{};      // made with it
  CniSettings cni{};         // kCni alone
  CniResult cni_result{};    // the same, once created
};

// Addresses whose link is still dying: not to be given out.
struct QuarantineRecord {
  std::string network;
  netns::Ipv4 ipv4{};
  netns::Ipv6 ipv6{};
  std::string allocation;  // that had them
  std::uint64_t netns_inode = 0;
};

}  // namespace mountd
