// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "mountd/base/names.h"

// The plans: everything mountd can ask of an executor, as fixed plain structs
// of ids, numbers and flags. One plan is one SOCK_SEQPACKET message (Request),
// with just the fds beside it that its kind takes (FdsOf); its answer another
// (Reply), with at most one. Nothing here is text to parse, or an option
// string; a name is one path component of a known alphabet, and the only path
// is one that a container is asked for in its own root (ContainerPlan). Both
// ends are of one build: another `version` is refused.
//
// The executor checks every field again (exec/invariants.h): what it may do is
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
  // Tasks, and who uses a mount.
  kInspectCgroup = 40,
  kFindHolders = 41,
  kInspectTask = 42,
  kVerifyTask = 43,
  kFindProcesses = 44,
  kFindCopies = 45,
  // Trees of files in allocations' directories.
  kRemoveTree = 50,
  kChownTree = 51,
  // Whether mounts are there, and answer.
  kWatchMounts = 60,
  kListMounts = 61,
  kProbeMount = 62,
  kProbeVolume = 64,
  kListTargets = 65,
  kCountMounts = 63,  // below a plugin's directory
  // CSI plugins' sockets.
  kInspectPluginSocket = 70,
  kRemovePluginSocket = 71,
  // Those that the config declares, as units.
  kStartPlugin = 72,
  kStopPlugin = 73,
};

// ---- Mounts -----------------------------------------------------------------

// How later mounts travel between a source and its target, as users name it:
// "private" (rprivate), "host-to-task" (rslave), "bidirectional" (rshared).
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

// base/a/<allocation>: its owner alone, besides root, may pass through it.
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
  kPublishedVolume = 2,  // what plugin published for (allocation, volume)
  kTmpfs = 3,            // a new, empty one, as `tmpfs` says
  kFilesystem = 4,       // `filesystem`, as declared there
};

// A range of an idmapped mount (mount_setattr(2), Linux 5.12): what belongs to
// the `count` ids from `on_disk` on shows as belonging to those from `shown`
// on, for users and groups alike.
struct IdExtent {
  std::uint32_t on_disk = 0;
  std::uint32_t shown = 0;
  std::uint32_t count = 0;
  friend bool operator==(const IdExtent&, const IdExtent&) = default;
};

inline constexpr std::size_t kMaxIdExtents = 4;

// None: ids show as they are.
struct IdMapPlan {
  std::uint32_t count = 0;
  std::array<IdExtent, kMaxIdExtents> extents{};
  friend bool operator==(const IdMapPlan&, const IdMapPlan&) = default;
};

// A tmpfs(5) of one mount's own. What it can hold is bounded in both ways: data
// by `bytes`, what the kernel needs for each file by `inodes`.
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
// A page; and what the kernel itself reckons for a file, at least.
inline constexpr std::uint64_t kMinTmpfsBytes = 4096;
inline constexpr std::uint64_t kTmpfsBytesPerInode = 1024;
// chown(2)'s "leave it": no user's id.
inline constexpr std::uint32_t kNoId = 0xFFFFFFFF;

struct SourcePlan {
  SourceKind kind = SourceKind::kHostVolume;
  WireName host_volume;
  WireName filesystem;
  WireName plugin;
  std::array<char, VolumeKey::kHexDigits> volume{};
  TmpfsPlan tmpfs;
};

// Who passed a directory, as the kernel told mountd: with it the executor looks
// up in its own config where that directory may lie. Of the groups, the primary
// and those that a rule names, as many as there is room for.
struct CallerPlan {
  std::uint32_t uid = 0;
  std::uint32_t gid_count = 0;
  std::array<std::uint32_t, 16> gids{};
};

inline constexpr std::size_t kMaxContainerPath = 1024;

// Where a mount is attached. Whichever it is, `target` names it.
enum class TargetKind : std::uint32_t {
  kInbox = 1,      // right at the target
  kDirectory = 2,  // on a directory that the caller passed: the plan's fd
  kContainer = 3,  // in a container's mount namespace: the fd is a pidfd of it
};

// A container as its runtime has created it, and where to mount in it. It must
// be in `cgroup` or in one beneath, and none that the caller itself is in.
struct ContainerPlan {
  std::uint64_t cgroup = 0;
  std::uint32_t caller = 0;  // the pid of the process that asks
  // From its root: absolute, without ".", ".." or "//", with a NUL.
  std::array<char, kMaxContainerPath> path{};
};

struct AttachPlan {
  TargetPlan target;
  TargetKind target_kind = TargetKind::kInbox;
  CallerPlan caller;        // kDirectory only: who passed it
  ContainerPlan container;  // kContainer only
  SourcePlan source;
  Propagation propagation = Propagation::kPrivate;
  std::uint32_t attributes = 0;
  IdMapPlan ids;
  // The mount at the target that the new one takes the place of; 0: there is
  // none. In the same plan again, after it was done, it is still the old one.
  std::uint64_t replaces = 0;
};

// A clone of the source that is attached nowhere, as the answer's fd. Whoever
// has it can attach it in namespaces of his own and there take any flag off it,
// read-only too. So it is of a writable source alone, and never bidirectional:
// through its peer group one could mount on the host.
struct OpenTreePlan {
  WireName allocation;
  SourcePlan source;
  Propagation propagation = Propagation::kPrivate;
  std::uint32_t attributes = 0;
};

// How far an unmount goes for a mount that is used (umount2(2)).
enum class UnmountMode : std::uint32_t {
  kPlain = 0,   // Busy
  kDetach = 1,  // gone from the tree; its users keep it
  kForce = 2,   // requests that its file system waits for are given up first
  kAbort = 3,   // the FUSE connection is cut first, for all of its mounts
};

// Detaches the mount at `target` only if it is still `mount_id`. Done already
// (no mount there) is success; another mount there is FailedPrecondition.
struct DetachPlan {
  TargetPlan target;
  std::uint64_t mount_id = 0;
  UnmountMode mode = UnmountMode::kPlain;
};

// Takes away what Attach mounted for a source's users, if it is still
// `anchor_id`: the anchor on a host volume's directory, or a file system; 0:
// whichever it is, as its id may have been lost with an answer. Busy while
// anything uses it.
struct AnchorPlan {
  SourceKind kind = SourceKind::kHostVolume;  // or kFilesystem
  WireName source;
  std::uint64_t anchor_id = 0;
};

// ---- Plugins ----------------------------------------------------------------

struct PluginPlan {
  WireName plugin;
};

// The socket of one of its instances.
struct PluginSocketPlan {
  WireName plugin;
  std::array<char, InstanceKey::kHexDigits> instance{};
  // Where whoever listens there has to be (kConnectPlugin); 0: anywhere.
  std::uint64_t cgroup = 0;
};

enum class VolumeArea : std::uint32_t {
  kStaging = 1,  // p/<plugin>/staging/<volume>: made here, before NodeStage
  kPublish = 2,  // p/<plugin>/publish/<allocation>/<volume>: the parent is made
                 // here, the last part by the plugin (CSI NodePublishVolume)
};

struct VolumeDirPlan {
  WireName plugin;
  VolumeArea area = VolumeArea::kStaging;
  WireName allocation;  // kPublish only
  std::array<char, VolumeKey::kHexDigits> volume{};
  // kRemoveVolumeDir of kPublish: what is mounted at it is detached first.
  // (What the plugin mounted beside goes with the allocation's last volume
  // anyway.)
  std::uint32_t detach = 0;
};

// ---- Networks ---------------------------------------------------------------

inline constexpr std::size_t kMaxPorts = 128;

enum Protocol : std::uint8_t { kTcp = 1, kUdp = 2, kSctp = 4 };
inline constexpr std::uint8_t kAllProtocols = kTcp | kUdp | kSctp;

// `count` ports in a row of the host, each to the port as far into the
// container's. They may not be more than kMaxPortsInAll in a plan.
struct PortMap {
  std::uint16_t host_port = 0;       // host byte order
  std::uint16_t container_port = 0;  // host byte order
  std::uint8_t protocols = 0;        // Protocol bits
  std::uint8_t host_family = 0;      // 4, 6; 0: any
  std::uint16_t count = 1;
  // Of the host; an IPv4 address is the first four bytes. All zero: any of the
  // family.
  std::array<std::uint8_t, 16> host_address{};
};
inline constexpr std::uint32_t kMaxPortsInAll = 1024;

// Where an allocation's network namespace comes from, and who ends it.
enum class NamespaceOrigin : std::uint32_t {
  kNew = 1,       // of the executor's making
  kGiven = 2,     // passed beside the plan as an fd of nsfs
  kExisting = 3,  // pinned already, by an earlier plan of the allocation
};

enum NetworkFlag : std::uint32_t {
  kIsolated = 1U << 0U,      // no traffic to or from other allocations
  kDefaultRoute = 1U << 1U,  // else only to the network's own ranges
};
inline constexpr std::uint32_t kAllNetworkFlags = kIsolated | kDefaultRoute;

// One network of an allocation: a routed veth in its namespace
// /run/netns/<allocation>, and with `origin` kNew or kGiven that namespace. The
// host end's name, the MAC and the gateway are derived (netns/address.h).
// Addresses are in network byte order; all zero means none of that family. They
// must lie in the ranges the root-owned config declares for `network`. Without
// an IPv4 address the plan is on the namespace alone.
struct NetworkPlan {
  WireName allocation;
  WireName network;                   // the config's [network.<name>]
  std::array<char, 16> interface {};  // inside, with a NUL
  std::array<std::uint8_t, 4> ipv4{};
  std::array<std::uint8_t, 16> ipv6{};
  NamespaceOrigin origin = NamespaceOrigin::kNew;
  std::uint32_t flags = 0;  // NetworkFlag
  std::uint32_t port_count = 0;
  std::array<PortMap, kMaxPorts> ports{};
  // The namespace must be this one: of kExisting, or to be unpinned, or to be
  // repaired; 0 if it was never recorded (a create that was cut off). Either
  // way it must be one that an executor pinned (netns/pin.h); with 0 another's
  // is left.
  std::uint64_t netns_inode = 0;
  // The caller. kGiven: whose user namespace it must be of; with the second,
  // and a rule that allows it, it may be of the host's.
  std::uint32_t owner_uid = 0;
  std::uint32_t may_be_hosts = 0;
  // CreateNetwork and CheckHostPorts: 1 if the last fd beside the plan is a
  // pidfd of a process of the caller's, whose sockets on the plan's ports keep
  // these for the allocation.
  std::uint32_t has_keeper = 0;
};

enum class NetworkFileKind : std::uint32_t {
  kHosts = 1,
  kHostname = 2,
  kResolvConf = 3,
};

// base/d/<allocation>/<kind>; its content comes as a memfd beside the plan.
struct NetworkFilePlan {
  WireName allocation;
  std::uint32_t uid = 0;  // that may reach it
  NetworkFileKind kind = NetworkFileKind::kHosts;
};
inline constexpr std::size_t kMaxNetworkFileBytes = std::size_t{128} << 10U;

struct PrepareNetworksPlan {
  std::uint32_t anew = 0;  // also the rules that somebody has changed
};

// What WatchNetworks hands out: a netlink socket that hears of changes.
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

// One operation on CNI networks, by mountd-cni-run (netns/cni/options.h), with
// the directories of the root-owned config's [cni]. What it is asked beyond
// this is JSON in the memfd beside the plan; what it answers, JSON again, is in
// the memfd that comes back. Neither is read here.
struct CniPlan {
  CniVerb verb = CniVerb::kList;
  WireName allocation;            // kAdd, kCheck, kDel: the container
  WireName network;               // the same and kStatus
  std::uint64_t netns_inode = 0;  // kAdd: what /run/netns/<allocation> must be
};
inline constexpr std::size_t kMaxCniAnswerBytes = std::size_t{2} << 20U;

// ---- Tasks ------------------------------------------------------------------

// A cgroup (version 2) goes by its id, the inode number of its directory: of
// this boot, and not used again. It must lie at or beneath a path that some
// rule of the root-owned config grants.
struct CgroupPlan {
  std::uint64_t id = 0;
};

enum class HolderScope : std::uint32_t {
  kCgroup = 1,  // the processes of `cgroup` and of those beneath it
  kNode = 2,    // all processes
};

// How the mount is known that an fd was handed out of. The reusable id is the
// only one that another mount namespace shows of a mount that is attached
// there.
struct HandedOutMount {
  std::uint64_t mount_id = 0;  // 0: the kernel has no unique ids
  std::uint64_t reusable_id = 0;
  std::uint64_t device = 0;  // of its file system, as mountinfo has it
};

// Who keeps the mount busy, or would, looked for during `budget_ms` at most. Or
// who has one of `count` mounts that were handed out, with kNode alone.
inline constexpr std::size_t kMaxHandedOut = 32;
struct HoldersPlan {
  std::uint64_t mount_id = 0;  // 0: those of `handed_out`
  HolderScope scope = HolderScope::kCgroup;
  std::uint32_t budget_ms = 0;
  std::uint64_t cgroup = 0;  // 0: none, with kNode alone
  std::uint32_t count = 0;
  std::array<HandedOutMount, kMaxHandedOut> handed_out{};
};
inline constexpr std::uint32_t kMaxHolderBudgetMs = 60'000;

// The processes that are in `cgroup` or one beneath, or in the network
// namespace, looked for during `budget_ms` at most. 0: not by that; one is
// given.
struct ProcessesPlan {
  std::uint64_t cgroup = 0;
  std::uint64_t netns_inode = 0;
  std::uint32_t budget_ms = 0;
};

// What a volume is, as the kernel says it while it is mounted: by this it is
// known once no mount of mountd's shows it any more.
inline constexpr std::size_t kMaxFileSystemRoot = 1024;
inline constexpr std::size_t kMaxFileSystemSource = 256;
struct FileSystemPlan {
  std::uint64_t device = 0;     // as st_dev; 0: not known
  std::uint64_t node = 0;       // of a block device, as st_rdev; 0: it is none
  std::array<char, 32> type{};  // "ext4", with a NUL
  // The part of it that is the volume: "/" if it is all, with a NUL.
  std::array<char, kMaxFileSystemRoot> root{};
  // Of its mounts, with a NUL; "": not known, or too long.
  std::array<char, kMaxFileSystemSource> source{};
  friend bool operator==(const FileSystemPlan&,
                         const FileSystemPlan&) = default;
};

// Who has copies, looked for during `budget_ms` at most: of the mounts
// `mount_ids`, or of the one volume that is published at `volume`, or was and
// is `before`. kCgroup: only its processes and those beneath are looked at;
// with none of a volume, which is told alone. kNode: all are; but of what
// mountd has mounted for others, too, only those of the cgroup are meant.
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

// The mounts of `mount_ids` as the task sees them that the pidfd beside the
// plan is of. Its cgroup must be `cgroup` or one beneath.
inline constexpr std::size_t kMaxTaskMounts = 64;
struct VerifyTaskPlan {
  std::uint64_t cgroup = 0;
  std::uint32_t count = 0;
  std::array<std::uint64_t, kMaxTaskMounts> mount_ids{};
};

// ---- Trees ------------------------------------------------------------------

inline constexpr std::size_t kMaxTreeDepth = 64;

// Both take the directory as an fd beside the plan, and do a part of the work.
struct TreePlan {
  CallerPlan caller;
  // ChownTree only: the owner to be, and where to go on, as the last answer
  // said; `depth` 0: from the start.
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

// Of what a plugin published; `mount_id` 0: something that is no mount.
struct VolumeProbePlan {
  VolumeDirPlan directory;
  std::uint64_t mount_id = 0;
};

// ---- Messages ---------------------------------------------------------------

// How many fds a plan may have beside it.
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

// How many fds the request takes beside it.
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

// What the kernel says of one mount, read back after the fact. Propagation is
// what it is, not what was asked.
struct MountState {
  std::uint64_t mount_id = 0;    // unique id (statx(2) MNT_ID_UNIQUE, 6.8);
                                 // without, the reusable one; 0: no mount here
  std::uint64_t peer_group = 0;  // 0: not shared
  std::uint64_t master = 0;      // 0: not a slave
  std::uint64_t source_peer_group = 0;  // Attach only: the source's group
  std::uint64_t anchor_id = 0;  // Attach only: the mount put on a host volume's
                                // directory, 0 if it was one already; of a file
                                // system, the one its users' are clones of
  std::uint64_t device = 0;     // of the mount's file system, as st_dev
  std::uint64_t block_device = 0;  // st_rdev, if a block device is there
  std::uint32_t exists = 0;  // a directory or file is there, mounted or not
  std::uint32_t is_directory = 0;
  std::uint32_t is_stacked = 0;  // InspectTarget only: it lies on another mount
                                 // at its place, as in a swap that was cut off
};

struct PluginReply {
  std::uint64_t socket_inode = 0;
  std::uint32_t peer_pid = 0;
  std::uint32_t peer_uid = 0;
};

// What a repair put right.
enum NetworkRepair : std::uint32_t {
  kRepairedLink = 1U << 0U,      // the pair itself
  kRepairedHostEnd = 1U << 1U,   // its state, routes or neighbours
  kRepairedInside = 1U << 2U,    // the same of the allocation's end
  kRepairedElements = 1U << 3U,  // port maps, and what lets its packets pass
};

struct NetworkState {
  std::uint64_t netns_inode = 0;       // 0: no namespace pinned at the name
  std::uint32_t host_ifindex = 0;      // 0: no host end of that name
  std::uint32_t elements_present = 0;  // all of its nf_tables elements are
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
  // Of FindProcesses alone:
  kMember = 6,   // is in the cgroup
  kNetwork = 7,  // is in the network namespace
  // Of FindCopies alone:
  kMount = 8,       // its mount namespace has a copy, or what was handed out
  kDevice = 9,      // has the block device open
  kNamespace = 10,  // pid 0: a mount namespace without a process has a copy
};

// One process, and the first that was found of what it holds.
struct Holder {
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;  // real
  HolderKind kind = HolderKind::kCwd;
  std::uint8_t is_copy = 0;     // holds a copy in its own mount namespace
  std::uint8_t in_cgroup = 0;   // of the plan
  std::int32_t fd = -1;         // kFd only
  std::uint32_t mount = 0;      // its place in the plan's `handed_out`
  std::array<char, 16> comm{};  // with a NUL; any bytes
};

inline constexpr std::size_t kMaxHolders = 32;

struct HoldersState {
  std::uint32_t count = 0;
  std::uint32_t more = 0;        // there are some that found no place here
  std::uint32_t incomplete = 0;  // time ran out, or a process was not looked at
  // The first reason for that, an errno: ETIME, or that of the process
  // `unseen_pid`. 0: another, or none.
  std::uint32_t unseen_error = 0;
  std::uint32_t unseen_pid = 0;
  // Init alone was not looked at, which some machines keep from everybody.
  std::uint32_t init_unseen = 0;
  // A bit for each of the plan's mounts that somebody has, told above or not.
  std::uint64_t held = 0;
  std::array<Holder, kMaxHolders> holders{};
};

struct CopiesState {
  HoldersState holders;
  FileSystemPlan found;  // of the volume; device 0: it cannot be told
};

// One of our mounts, and the mount of the task that shows it, if there is one.
struct TaskMount {
  std::uint32_t exists_on_host = 0;  // still is attached here
  std::uint32_t found = 0;
  std::uint32_t covered = 0;     // the task has another mount on top of it
  std::uint64_t attributes = 0;  // MOUNT_ATTR_*
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct TaskState {
  std::uint64_t mount_namespace = 0;         // inode
  std::uint32_t has_own_user_namespace = 0;  // which owns the mount namespace
  std::uint32_t count = 0;
  std::array<TaskMount, kMaxTaskMounts> mounts{};
};

struct TreeReply {
  std::uint64_t done = 0;  // files and directories, by this plan
  std::uint64_t left = 0;  // ChownTree: those of other owners, left as they are
  std::uint32_t finished = 0;
  std::uint32_t depth = 0;  // ChownTree: where to go on, if not finished
  std::array<std::uint64_t, kMaxTreeDepth> after{};
};

// The answer's fd tells what is mounted and unmounted in the executor's mount
// namespace, to whoever has it, for as long as it is open.
struct WatchReply {
  std::uint32_t tells_ids = 0;  // it is a fanotify group (Linux 6.15); else
                                // mountinfo, POLLPRI when it has changed
};

// What there is without asking mountd's records: ListTargets' answer's fd holds
// one for each allocation's directory, without task and name, and for each
// mount in its inboxes.
struct FoundTarget {
  TargetPlan target;
  std::uint32_t uid = 0;  // that may pass through the allocation's directory
  MountState state;       // of the mount
};

// The same of ListNetworks: one for each link of an allocation, or several if
// it has more port maps than one has room for; and for each pinned namespace
// without a link.
struct FoundNetwork {
  WireName allocation;
  std::uint64_t netns_inode = 0;  // 0: none of that allocation is pinned
  std::array<std::uint8_t, 4> ipv4{};
  std::array<std::uint8_t, 16> ipv6{};
  std::uint32_t flags = 0;  // kIsolated
  std::uint32_t port_count = 0;
  std::array<PortMap, kMaxPorts> ports{};
};

// The answer's fd holds the ids of all mounts of that namespace, 8 bytes each.
// CountMounts: `count` alone.
struct MountListReply {
  std::uint64_t count = 0;
  std::uint64_t most = 0;  // fs.mount-max
};

enum class MountHealth : std::uint32_t {
  kUnknown = 0,
  kHealthy = 1,
  kDead = 2,  // its file system answers with an error
  kHung = 3,  // or not at all, in timeouts.probe_answer
};

struct ProbeReply {
  MountHealth health = MountHealth::kUnknown;
  std::int32_t sys_errno = 0;       // kDead
  std::uint32_t lost_children = 0;  // of this executor, that cannot be killed
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

// `code` 0 is success; otherwise a mountd::Code with the failed operation, the
// object it concerned and the errno. Texts are NUL-terminated.
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
