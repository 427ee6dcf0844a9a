// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "mountd/base/names.h"

// The plans: everything that mountd can ask of an executor, as plain structs of
// ids, numbers and flags. One plan is one SOCK_SEQPACKET message (Request),
// with exactly the fds that its kind takes (FdsOf). Its answer is another
// message (Reply) with at most one fd. Nothing here is text to parse or an
// option string. A name is one path component of a known alphabet. The only
// path is a path in a container's own root (ContainerPlan). Both ends are of
// one build, and the executor refuses another `version`.
//
// The executor checks every field again (exec/invariants.h). Those checks and
// the root-owned config decide what it may do; the sender does not.
// decided there and in its root-owned config, not by who asks.
namespace mountd::exec {

inline constexpr std::uint32_t kProtocolVersion = 1;

// A validated name (base/names.h), by value.
struct WireName {
  std::uint8_t size = 0;
  std::array<char, kMaxNameBytes> bytes{};

  std::string_view view() const {
    return {bytes.data(), size <= bytes.size() ? size : 0U};
  }
};

inline std::string Text(const WireName& name) {
  return std::string(name.view());
}

enum class PlanKind : std::uint32_t {
  kHello = 1,
  // Mounts.
  kPrepareBase = 10,
  kPrepareAllocation = 11,
  kRemoveAllocation = 12,
  kAttach = 13,
  kDetach = 14,
  kInspectTarget = 15,
  kReleaseAnchor = 16,
  kPrepareInbox = 17,
  kRemoveInbox = 18,
  kOpenTree = 19,
  kOpenInbox = 29,
  // CSI plugins' directories.
  kPreparePlugin = 20,
  kRemovePlugin = 21,
  kConnectPlugin = 22,
  kPrepareVolumeDir = 23,
  kInspectVolumeDir = 24,
  kRemoveVolumeDir = 25,
  // Networks.
  kPrepareNetworks = 30,
  kCreateNetwork = 31,
  kDeleteNetwork = 32,
  kInspectNetwork = 33,
  kRepairNetwork = 34,
  kWatchNetworks = 35,
  kWriteNetworkFile = 36,
  kRemoveNetworkFiles = 37,
  kRunCni = 38,
  kListNetworks = 39,
  kCheckHostPorts = 80,
  // Tasks, and the processes that use a mount.
  kInspectCgroup = 40,
  kFindHolders = 41,
  kInspectTask = 42,
  kVerifyTask = 43,
  kFindProcesses = 44,
  kFindCopies = 45,
  // Trees of files in allocations' directories.
  kRemoveTree = 50,
  kChownTree = 51,
  // Presence and health of mounts.
  kWatchMounts = 60,
  kListMounts = 61,
  kProbeMount = 62,
  kProbeVolume = 64,
  kListTargets = 65,
  kCountMounts = 63,  // below a plugin's directory
  // CSI plugins' sockets.
  kInspectPluginSocket = 70,
  kRemovePluginSocket = 71,
  // Plugins that the config declares, as units.
  kStartPlugin = 72,
  kStopPlugin = 73,
};

// ---- Mounts -----------------------------------------------------------------

// The propagation between a source and its target, as users name it: "private"
// (rprivate), "host-to-task" (rslave), "bidirectional" (rshared).
enum class Propagation : std::uint32_t {
  kPrivate = 1,
  kHostToTask = 2,
  kBidirectional = 3,
};

// Attributes of a mount beyond nosuid and nodev, which every mount has.
enum Attribute : std::uint32_t {
  kReadOnly = 1U << 0U,
  kNoExec = 1U << 1U,
  kNoAtime = 1U << 2U,
};
inline constexpr std::uint32_t kAllAttributes = kReadOnly | kNoExec | kNoAtime;

// base/a/<allocation>. Besides root only its owner may pass through it.
struct AllocationPlan {
  WireName allocation;
  std::uint32_t uid = 0;
};

// base/a/<allocation>/<task>/<name>.
struct TargetPlan {
  WireName allocation;
  WireName task;
  WireName name;
};

// base/a/<allocation>/<task>, the task's inbox.
struct TaskPlan {
  WireName allocation;
  WireName task;
};

enum class SourceKind : std::uint32_t {
  kHostVolume = 1,       // `host_volume`, as declared in the root-owned config
  kPublishedVolume = 2,  // published by `plugin` for (allocation, volume)
  kTmpfs = 3,            // a new, empty tmpfs, as `tmpfs` says
  kFilesystem = 4,       // `filesystem`, as declared there
};

// A range of an idmapped mount (mount_setattr(2), Linux 5.12), for users and
// groups alike. Files of the `count` ids from `on_disk` on show as files of the
// ids from `shown` on.
struct IdExtent {
  std::uint32_t on_disk = 0;
  std::uint32_t shown = 0;
  std::uint32_t count = 0;
  friend bool operator==(const IdExtent&, const IdExtent&) = default;
};

inline constexpr std::size_t kMaxIdExtents = 4;

// A map of ids. Without extents ids show unchanged.
struct IdMapPlan {
  std::uint32_t count = 0;
  std::array<IdExtent, kMaxIdExtents> extents{};
  friend bool operator==(const IdMapPlan&, const IdMapPlan&) = default;
};

// A tmpfs(5) for one mount alone. Its memory is bounded twice: `bytes` bounds
// the data and `inodes` the kernel's memory for files.
struct TmpfsPlan {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t mode = 0;  // of its root: permission bits and the sticky one
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t no_swap = 0;  // Linux 6.4
  friend bool operator==(const TmpfsPlan&, const TmpfsPlan&) = default;
};

inline constexpr std::uint32_t kTmpfsModes = 01777;
// The least size is a page. The kernel itself counts at least 1024 bytes for a
// file.
inline constexpr std::uint64_t kMinTmpfsBytes = 4096;
inline constexpr std::uint64_t kTmpfsBytesPerInode = 1024;
// chown(2) reads this id as "leave it unchanged", so it is no user's id.
inline constexpr std::uint32_t kNoId = 0xFFFFFFFF;

struct SourcePlan {
  SourceKind kind = SourceKind::kHostVolume;
  WireName host_volume;
  WireName filesystem;
  WireName plugin;
  std::array<char, VolumeKey::kHexDigits> volume{};
  TmpfsPlan tmpfs;
};

// The caller who passed a directory, as the kernel told mountd. The executor
// looks up in its own config where that caller's directories may lie. `gids`
// holds the primary group and then the groups that some rule names, as many as
// fit.
struct CallerPlan {
  std::uint32_t uid = 0;
  std::uint32_t gid_count = 0;
  std::array<std::uint32_t, 16> gids{};
};

inline constexpr std::size_t kMaxContainerPath = 1024;

// Where a mount is attached. `target` names the mount for every kind.
enum class TargetKind : std::uint32_t {
  kInbox = 1,      // at the target itself
  kDirectory = 2,  // on a directory that the caller passed: the plan's fd
  kContainer = 3,  // in a container's mount namespace: the fd is a pidfd of it
};

// A container after its runtime has created it, and the path to mount at. The
// container must be in `cgroup` or beneath, and must not contain the caller.
struct ContainerPlan {
  std::uint64_t cgroup = 0;
  std::uint32_t caller = 0;  // pid of the asking process
  // From the container's root: absolute, without ".", ".." or "//", with a NUL.
  std::array<char, kMaxContainerPath> path{};
};

struct AttachPlan {
  TargetPlan target;
  TargetKind target_kind = TargetKind::kInbox;
  CallerPlan caller;        // kDirectory only: the user who passed it
  ContainerPlan container;  // kContainer only
  SourcePlan source;
  Propagation propagation = Propagation::kPrivate;
  std::uint32_t attributes = 0;
  IdMapPlan ids;
  // The mount at the target that the new mount replaces; 0: none. A repeated
  // plan still names the old mount.
  std::uint64_t replaces = 0;
};

// A detached clone of the source, as the answer's fd. A process that has the fd
// can attach it in a namespace of its own and clear any flag there, read-only
// too. So the source must be writable. The clone is never bidirectional,
// because its peer group would let the process mount on the host.
struct OpenTreePlan {
  WireName allocation;
  SourcePlan source;
  Propagation propagation = Propagation::kPrivate;
  std::uint32_t attributes = 0;
};

// How to unmount a mount that is used (umount2(2)).
enum class UnmountMode : std::uint32_t {
  kPlain = 0,   // fails with Busy
  kDetach = 1,  // leaves the tree; its users keep it
  kForce = 2,   // first the file system gives up pending requests
  kAbort = 3,   // first cut the FUSE connection, for all its mounts
};

// Detaches the mount at `target` only if it is still `mount_id`. Success if no
// mount is there; FailedPrecondition if another mount is there.
struct DetachPlan {
  TargetPlan target;
  std::uint64_t mount_id = 0;
  UnmountMode mode = UnmountMode::kPlain;
};

// Unmounts the anchor of a host volume's directory, or a file system, that
// Attach mounted for the source's users, if it is still `anchor_id`. 0 means
// any id, because an id may be lost with an answer. Busy while anything uses
// it.
struct AnchorPlan {
  SourceKind kind = SourceKind::kHostVolume;  // or kFilesystem
  WireName source;
  std::uint64_t anchor_id = 0;
};

// ---- Plugins ----------------------------------------------------------------

struct PluginPlan {
  WireName plugin;
};

// The socket of one of the plugin's instances.
struct PluginSocketPlan {
  WireName plugin;
  std::array<char, InstanceKey::kHexDigits> instance{};
  // The listener must be in this cgroup (kConnectPlugin); 0: anywhere.
  std::uint64_t cgroup = 0;
};

enum class VolumeArea : std::uint32_t {
  // p/<plugin>/staging/<volume>: the executor makes it before NodeStageVolume.
  kStaging = 1,
  // p/<plugin>/publish/<allocation>/<volume>: the executor makes the parent,
  // and the plugin the last part (CSI NodePublishVolume).
  kPublish = 2,
};

struct VolumeDirPlan {
  WireName plugin;
  VolumeArea area = VolumeArea::kStaging;
  WireName allocation;  // kPublish only
  std::array<char, VolumeKey::kHexDigits> volume{};
  // kRemoveVolumeDir of kPublish: first detaches the mount at the directory.
  // The plugin's other mounts beside it go with the allocation's last volume.
  std::uint32_t detach = 0;
};

// ---- Networks ---------------------------------------------------------------

inline constexpr std::size_t kMaxPorts = 128;

enum Protocol : std::uint8_t { kTcp = 1, kUdp = 2, kSctp = 4 };
inline constexpr std::uint8_t kAllProtocols = kTcp | kUdp | kSctp;

// Maps `count` consecutive host ports to as many container ports, in order. A
// plan has at most kMaxPortsInAll ports.
struct PortMap {
  std::uint16_t host_port = 0;       // host byte order
  std::uint16_t container_port = 0;  // host byte order
  std::uint8_t protocols = 0;        // Protocol bits
  std::uint8_t host_family = 0;      // 4, 6; 0: any
  std::uint16_t count = 1;
  // The host's address; IPv4 uses the first four bytes. All zero: any address
  // of the family.
  std::array<std::uint8_t, 16> host_address{};
};
inline constexpr std::uint32_t kMaxPortsInAll = 1024;

// The origin of an allocation's network namespace, which also decides who ends
// it.
enum class NamespaceOrigin : std::uint32_t {
  kNew = 1,       // made by the executor
  kGiven = 2,     // passed beside the plan as an fd of nsfs
  kExisting = 3,  // pinned by an earlier plan of the allocation
};

enum NetworkFlag : std::uint32_t {
  kIsolated = 1U << 0U,      // no traffic to or from other allocations
  kDefaultRoute = 1U << 1U,  // else routes only to the network's own ranges
};
inline constexpr std::uint32_t kAllNetworkFlags = kIsolated | kDefaultRoute;

// One network of an allocation: a routed veth in the namespace
// /run/netns/<allocation>, and with `origin` kNew or kGiven that namespace too.
// The executor derives the host end's name, the MAC and the gateway
// (netns/address/address.h). Addresses are in network byte order; all zero
// means none of that family. They must lie in the ranges that the root-owned
// config declares for `network`. A plan without an IPv4 address concerns only
// the namespace.
struct NetworkPlan {
  WireName allocation;
  WireName network;                   // the config's [network.<name>]
  std::array<char, 16> interface {};  // inside the namespace, with a NUL
  std::array<std::uint8_t, 4> ipv4{};
  std::array<std::uint8_t, 16> ipv6{};
  NamespaceOrigin origin = NamespaceOrigin::kNew;
  std::uint32_t flags = 0;  // NetworkFlag
  std::uint32_t port_count = 0;
  std::array<PortMap, kMaxPorts> ports{};
  // The inode of the namespace for kExisting, a repair or an unpin. 0 if no
  // record has it, because a create was cut off. In every case an executor must
  // have pinned the namespace (netns/plans/pin.h). With 0 the executor leaves
  // another allocation's namespace alone.
  std::uint64_t netns_inode = 0;
  // The caller. With kGiven the namespace must be of the caller's user
  // namespace. With `may_be_hosts`, and a rule that allows it, it may be of the
  // host's.
  std::uint32_t owner_uid = 0;
  std::uint32_t may_be_hosts = 0;
  // CreateNetwork and CheckHostPorts: 1 if the last fd is a pidfd of a process
  // of the caller. That process's sockets on the plan's ports keep those ports
  // for the allocation, so they are no conflict.
  std::uint32_t has_keeper = 0;
};

enum class NetworkFileKind : std::uint32_t {
  kHosts = 1,
  kHostname = 2,
  kResolvConf = 3,
};

// base/d/<allocation>/<kind>. Its content comes as a memfd beside the plan.
struct NetworkFilePlan {
  WireName allocation;
  std::uint32_t uid = 0;  // user who may reach it
  NetworkFileKind kind = NetworkFileKind::kHosts;
};
inline constexpr std::size_t kMaxNetworkFileBytes = std::size_t{128} << 10U;

struct PrepareNetworksPlan {
  std::uint32_t anew = 0;  // 1: also restore rules that somebody has changed
};

// The kind of netlink socket that WatchNetworks returns. It receives
// notifications of changes.
enum class NetworkWatchKind : std::uint32_t {
  kLinks = 1,    // NETLINK_ROUTE: links, addresses, routes, neighbours
  kRuleset = 2,  // NETLINK_NETFILTER: nf_tables
};

struct NetworkWatchPlan {
  NetworkWatchKind kind = NetworkWatchKind::kLinks;
};

enum class CniVerb : std::uint32_t {
  kAdd = 1,
  kCheck = 2,
  kDel = 3,
  kGc = 4,
  kStatus = 5,
  kList = 6,
};

// One operation on CNI networks by mountd-cni-run (netns/cni/options.h), with
// the directories of the root-owned config's [cni]. The memfd beside the plan
// holds the rest of the request as JSON. The returned memfd holds the answer as
// JSON. The executor reads neither.
struct CniPlan {
  CniVerb verb = CniVerb::kList;
  WireName allocation;            // kAdd, kCheck, kDel: the container
  WireName network;               // kAdd, kCheck, kDel and kStatus
  std::uint64_t netns_inode = 0;  // kAdd: inode of /run/netns/<allocation>
};
inline constexpr std::size_t kMaxCniAnswerBytes = std::size_t{2} << 20U;

// ---- Tasks ------------------------------------------------------------------

// A cgroup (version 2), named by the inode number of its directory, which is of
// this boot and never used again. It must lie at or beneath a path that some
// rule of the root-owned config grants.
struct CgroupPlan {
  std::uint64_t id = 0;
};

enum class HolderScope : std::uint32_t {
  kCgroup = 1,  // the processes of `cgroup` and of its descendants
  kNode = 2,    // all processes
};

// Identifies a mount of which mountd handed out an fd. Another mount namespace
// shows only the reusable id of a mount attached there.
struct HandedOutMount {
  std::uint64_t mount_id = 0;  // 0: the kernel has no unique ids
  std::uint64_t reusable_id = 0;
  std::uint64_t device = 0;  // of its file system, as mountinfo has it
};

// Looks for processes that keep the mount busy, or would, for at most
// `budget_ms`. With `count` looks for processes that have one of the handed-out
// mounts, in scope kNode only.
inline constexpr std::size_t kMaxHandedOut = 32;
struct HoldersPlan {
  std::uint64_t mount_id = 0;  // 0: the mounts of `handed_out`
  HolderScope scope = HolderScope::kCgroup;
  std::uint32_t budget_ms = 0;
  std::uint64_t cgroup = 0;  // 0: none, in scope kNode only
  std::uint32_t count = 0;
  std::array<HandedOutMount, kMaxHandedOut> handed_out{};
};
inline constexpr std::uint32_t kMaxHolderBudgetMs = 60'000;

// Looks for the processes in `cgroup` or beneath, or in the network namespace,
// for at most `budget_ms`. 0: do not look by that; one of the two is given.
struct ProcessesPlan {
  std::uint64_t cgroup = 0;
  std::uint64_t netns_inode = 0;
  std::uint32_t budget_ms = 0;
};

// The identity of a volume, as the kernel shows it while the volume is mounted.
// mountd recognises the volume by it once no mount of mountd's shows the
// volume.
inline constexpr std::size_t kMaxFileSystemRoot = 1024;
inline constexpr std::size_t kMaxFileSystemSource = 256;
struct FileSystemPlan {
  std::uint64_t device = 0;     // as st_dev; 0: unknown
  std::uint64_t node = 0;       // of a block device, as st_rdev; 0: not one
  std::array<char, 32> type{};  // "ext4", with a NUL
  // The part of the file system that is the volume, with a NUL; "/": all of it.
  std::array<char, kMaxFileSystemRoot> root{};
  // The mounts' source, with a NUL; "": unknown or too long.
  std::array<char, kMaxFileSystemSource> source{};
  friend bool operator==(const FileSystemPlan&,
                         const FileSystemPlan&) = default;
};

// Looks for processes that have copies, for at most `budget_ms`. Looks for
// copies of the mounts `mount_ids`, or of the one volume that is published at
// `volume` or was `before`. kCgroup: looks only at the processes of `cgroup`
// and beneath; with `cgroup` 0 and a volume, only reports the volume's file
// system. kNode: looks at all processes. If mountd has mounted the same for
// others too, only the cgroup's processes count.
inline constexpr std::size_t kMaxCopiedMounts = 128;
struct CopiesPlan {
  HolderScope scope = HolderScope::kCgroup;
  std::uint32_t budget_ms = 0;
  std::uint64_t cgroup = 0;  // 0: none
  std::uint32_t count = 0;
  std::uint32_t has_volume = 0;
  std::array<std::uint64_t, kMaxCopiedMounts> mount_ids{};
  VolumeDirPlan volume;  // its publish directory
  FileSystemPlan before;
};

// Looks at the mounts of `mount_ids` as the task of the pidfd beside the plan
// sees them. The task must be in `cgroup` or beneath.
inline constexpr std::size_t kMaxTaskMounts = 64;
struct VerifyTaskPlan {
  std::uint64_t cgroup = 0;
  std::uint32_t count = 0;
  std::array<std::uint64_t, kMaxTaskMounts> mount_ids{};
};

// ---- Trees ------------------------------------------------------------------

inline constexpr std::size_t kMaxTreeDepth = 64;

// RemoveTree and ChownTree take the directory as an fd beside the plan, and do
// a part of the work.
struct TreePlan {
  CallerPlan caller;
  // ChownTree only: the new owner, and the position from the last answer;
  // `depth` 0: from the start.
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t depth = 0;
  std::array<std::uint64_t, kMaxTreeDepth> after{};
};

// ---- Health -----------------------------------------------------------------

// NotFound unless the mount at `target` is `mount_id`.
struct ProbePlan {
  TargetPlan target;
  std::uint64_t mount_id = 0;
};

// Probes a directory that a plugin published; `mount_id` 0: it is no mount.
struct VolumeProbePlan {
  VolumeDirPlan directory;
  std::uint64_t mount_id = 0;
};

// ---- Messages ---------------------------------------------------------------

// The most fds that a plan can have beside it.
inline constexpr std::size_t kMaxPlanFds = 2;

union PlanBody {
  AllocationPlan allocation;
  TargetPlan target;
  TaskPlan task;
  AttachPlan attach;
  OpenTreePlan open_tree;
  DetachPlan detach;
  AnchorPlan anchor;
  PluginPlan plugin;
  PluginSocketPlan plugin_socket;
  VolumeDirPlan volume_dir;
  NetworkPlan network;
  PrepareNetworksPlan prepare_networks;
  NetworkFilePlan network_file;
  NetworkWatchPlan network_watch;
  CniPlan cni;
  CgroupPlan cgroup;
  HoldersPlan holders;
  ProcessesPlan processes;
  CopiesPlan copies;
  VerifyTaskPlan verify_task;
  TreePlan tree;
  ProbePlan probe;
  VolumeProbePlan volume_probe;
  PlanBody() : allocation{} {}
};

struct Request {
  std::uint32_t version = kProtocolVersion;
  PlanKind kind = PlanKind::kHello;
  PlanBody body;
};

// Returns how many fds the request takes beside it.
inline std::size_t FdsOf(const Request& request) {
  switch (request.kind) {
    case PlanKind::kAttach:  // the directory, or the container's pidfd
      return request.body.attach.target_kind != TargetKind::kInbox ? 1 : 0;
    case PlanKind::kCreateNetwork:  // the namespace, and a pidfd
      return (request.body.network.origin == NamespaceOrigin::kGiven ? 1U
                                                                     : 0U) +
             (request.body.network.has_keeper != 0 ? 1U : 0U);
    case PlanKind::kCheckHostPorts:  // a pidfd
      return request.body.network.has_keeper != 0 ? 1 : 0;
    case PlanKind::kInspectTask:  // a pidfd
    case PlanKind::kVerifyTask:
    case PlanKind::kRemoveTree:  // the directory
    case PlanKind::kChownTree:
    case PlanKind::kWriteNetworkFile:  // its content
    case PlanKind::kRunCni:            // the request
      return 1;
    default:
      return 0;
  }
}

struct HelloReply {
  std::uint32_t pid = 0;
  std::uint64_t effective_capabilities = 0;  // capabilities(7) bits
  std::uint64_t mount_namespace = 0;         // inode of /proc/self/ns/mnt
  std::uint32_t has_unique_mount_ids = 0;    // Linux 6.8, statmount(2) allowed
  std::uint32_t has_mount_beneath = 0;       // Linux 6.5
};

// The kernel's facts about one mount, read back after the plan. Propagation is
// the actual one, not the requested one.
struct MountState {
  // The unique id (statx(2) MNT_ID_UNIQUE, 6.8); the reusable id on older
  // kernels. 0: no mount here.
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;         // 0: not shared
  std::uint64_t master = 0;             // 0: not a slave
  std::uint64_t source_peer_group = 0;  // Attach only: the source's group
  // Attach only: the anchor that was mounted on a host volume's directory, 0 if
  // the directory was a mount already. For a file system, the mount that its
  // users' mounts are clones of.
  std::uint64_t anchor_id = 0;
  std::uint64_t device = 0;        // of the mount's file system, as st_dev
  std::uint64_t block_device = 0;  // st_rdev, if there is a block device
  std::uint32_t exists = 0;        // 1: a directory or file, mounted or not
  std::uint32_t is_directory = 0;
  // InspectTarget only: the mount lies on another mount at its place, as in a
  // swap that was cut off.
  std::uint32_t is_stacked = 0;
};

struct PluginReply {
  std::uint64_t socket_inode = 0;
  std::uint32_t peer_pid = 0;
  std::uint32_t peer_uid = 0;
};

// The parts that a repair restored.
enum NetworkRepair : std::uint32_t {
  kRepairedLink = 1U << 0U,     // the pair itself
  kRepairedHostEnd = 1U << 1U,  // its state, routes or neighbours
  kRepairedInside = 1U << 2U,   // the same for the allocation's end
  // Port maps, and rules that let its packets pass.
  kRepairedElements = 1U << 3U,
};

struct NetworkState {
  std::uint64_t netns_inode = 0;       // 0: no namespace is pinned at the name
  std::uint32_t host_ifindex = 0;      // 0: no host end of that name
  std::uint32_t elements_present = 0;  // 1: all of its nf_tables elements exist
  std::uint32_t repaired = 0;          // RepairNetwork only: NetworkRepair bits
};

inline constexpr std::size_t kMaxCgroupPath = 1024;

struct CgroupState {
  std::uint64_t id = 0;
  std::array<char, kMaxCgroupPath> path{};  // "/nomad.slice/web", with a NUL
  std::uint64_t mount_namespace = 0;        // InspectTask only: its inode
};

enum class HolderKind : std::uint8_t {
  kCwd = 1,
  kRoot = 2,
  kExe = 3,
  kFd = 4,
  kMap = 5,  // a file mapped into memory
  // FindProcesses only:
  kMember = 6,   // is in the cgroup
  kNetwork = 7,  // is in the network namespace
  // FindCopies only:
  kMount = 8,       // its mount namespace has a copy or a handed-out mount
  kDevice = 9,      // has the block device open
  kNamespace = 10,  // pid 0: a mount namespace without a process has a copy
};

// One process, and the first use that was found.
struct Holder {
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;  // real
  HolderKind kind = HolderKind::kCwd;
  std::uint8_t is_copy = 0;     // holds a copy in its own mount namespace
  std::uint8_t in_cgroup = 0;   // in the plan's cgroup
  std::int32_t fd = -1;         // kFd only
  std::uint32_t mount = 0;      // its index in the plan's `handed_out`
  std::array<char, 16> comm{};  // with a NUL; any bytes
};

inline constexpr std::size_t kMaxHolders = 32;

struct HoldersState {
  std::uint32_t count = 0;
  std::uint32_t more = 0;  // 1: others did not fit here
  // 1: time ran out, or a process could not be read
  std::uint32_t incomplete = 0;
  // The first reason for `incomplete` as an errno: ETIME, or the errno for the
  // process `unseen_pid`. 0: another reason or none.
  std::uint32_t unseen_error = 0;
  std::uint32_t unseen_pid = 0;
  // 1: only init could not be read, which some machines hide from everybody.
  std::uint32_t init_unseen = 0;
  // A bit for each of the plan's mounts that somebody has, even if `holders`
  // has no room for the process.
  std::uint64_t held = 0;
  std::array<Holder, kMaxHolders> holders{};
};

struct CopiesState {
  HoldersState holders;
  FileSystemPlan found;  // of the volume; device 0: unknown
};

// One of mountd's mounts, and the task's mount that shows it, if any.
struct TaskMount {
  std::uint32_t exists_on_host = 0;  // 1: still attached here
  std::uint32_t found = 0;
  std::uint32_t covered = 0;     // the task has another mount on top of it
  std::uint64_t attributes = 0;  // MOUNT_ATTR_*
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct TaskState {
  std::uint64_t mount_namespace = 0;         // inode
  std::uint32_t has_own_user_namespace = 0;  // 1: that owns the mount namespace
  std::uint32_t count = 0;
  std::array<TaskMount, kMaxTaskMounts> mounts{};
};

struct TreeReply {
  std::uint64_t done = 0;  // files and directories of this plan
  std::uint64_t left = 0;  // ChownTree: files of other owners, unchanged
  std::uint32_t finished = 0;
  std::uint32_t depth = 0;  // ChownTree: position to continue at
  std::array<std::uint64_t, kMaxTreeDepth> after{};
};

// The answer's fd reports mounts and unmounts in the executor's mount
// namespace, to any process that has the fd, as long as it is open.
struct WatchReply {
  // 1: a fanotify group (Linux 6.15). 0: mountinfo, with POLLPRI after a
  // change.
  std::uint32_t tells_ids = 0;
};

// An object that the kernel has, whether mountd has a record of it or not. The
// fd of ListTargets' answer holds one FoundTarget for each allocation's
// directory, without task and name, and one for each mount in its inboxes.
struct FoundTarget {
  TargetPlan target;
  std::uint32_t uid = 0;  // user who may pass through the directory
  MountState state;       // of the mount
};

// The same for ListNetworks: one for each link of an allocation, or several if
// the link has more port maps than fit, and one for each pinned namespace
// without a link.
struct FoundNetwork {
  WireName allocation;
  // 0: no namespace of that allocation is pinned
  std::uint64_t netns_inode = 0;
  std::array<std::uint8_t, 4> ipv4{};
  std::array<std::uint8_t, 16> ipv6{};
  std::uint32_t flags = 0;  // kIsolated
  std::uint32_t port_count = 0;
  std::array<PortMap, kMaxPorts> ports{};
};

// The answer's fd holds the ids of all mounts of that namespace, 8 bytes each.
// CountMounts sets `count` only.
struct MountListReply {
  std::uint64_t count = 0;
  std::uint64_t most = 0;  // fs.mount-max
};

enum class MountHealth : std::uint32_t {
  kUnknown = 0,
  kHealthy = 1,
  kDead = 2,  // its file system returns an error
  kHung = 3,  // it does not answer within timeouts.probe_answer
};

struct ProbeReply {
  MountHealth health = MountHealth::kUnknown;
  std::int32_t sys_errno = 0;  // kDead
  // Children of this executor that were killed and have not ended yet.
  std::uint32_t lost_children = 0;
};

union ReplyBody {
  HelloReply hello;
  MountState mount;
  HandedOutMount handed_out;
  PluginReply plugin;
  NetworkState network;
  CgroupState cgroup;
  HoldersState holders;
  CopiesState copies;
  TaskState task;
  TreeReply tree;
  WatchReply watch;
  MountListReply mount_list;
  ProbeReply probe;
  ReplyBody() : hello{} {}
};

// `code` 0 is success. Otherwise it is a mountd::Code, with the failed
// operation, its object and the errno. Texts end with a NUL.
struct Reply {
  std::uint32_t version = kProtocolVersion;
  std::uint32_t code = 0;
  std::int32_t sys_errno = 0;
  std::array<char, 32> op{};
  std::array<char, 192> object{};
  std::array<char, 192> detail{};
  ReplyBody body;
};

static_assert(std::is_trivially_copyable_v<Request>);
static_assert(std::is_trivially_copyable_v<Reply>);
static_assert(std::is_trivially_copyable_v<FoundTarget>);
static_assert(std::is_trivially_copyable_v<FoundNetwork>);

}  // namespace mountd::exec
