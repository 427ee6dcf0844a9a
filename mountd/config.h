// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/exec/plan.h"
#include "netns/address.h"

namespace mountd {

// [host_volume.<name>]: a directory of the host that may be bind-mounted by
// name.
struct HostVolumeConfig {
  std::string path;  // absolute, normalised; opened without following links
  bool read_only = false;
  // Which modes may be asked for; private alone unless listed.
  std::vector<exec::Propagation> propagation = {exec::Propagation::kPrivate};
  // Whose it is: if any are named, nobody else may use it, whatever rules say.
  std::vector<std::uint32_t> uids{};
};

// [filesystem.<name>]: mounted by mountd when it is first used, at
// base/f/<name>, and unmounted after its last user. Checked by
// mountd/config_filesystem.h.
struct FilesystemConfig {
  std::string type;
  std::string source;
  std::vector<std::string> options{};  // besides nosuid, nodev and ro
  bool read_only = false;
  std::vector<exec::Propagation> propagation = {exec::Propagation::kPrivate};
  std::vector<std::uint32_t> uids{};  // as a host volume's
};

// [plugin.<name>]: a CSI plugin that is started as root, as the transient
// systemd unit mountd-plugin-<name>.service, and supervised.
struct PluginConfig {
  std::string type;                     // "node", "controller" or "monolith"
  std::vector<std::string> command{};   // a program's path, and arguments
  std::string restart = "always";       // systemd's Restart=
  std::uint64_t health_timeout_ms = 0;  // 0: timeouts.plugin_health
  bool bare_directories = false;
  friend bool operator==(const PluginConfig&, const PluginConfig&) = default;
};

// [network.<name>]: where addresses come from.
struct NetworkConfig {
  std::vector<netns::Ipv4Range> ipv4;  // at least one
  std::vector<netns::Ipv6Range> ipv6;
  std::uint32_t mtu = 0;  // 0: the kernel's default
  // Destinations that see the allocations' own addresses, as they have routes
  // back to them.
  std::vector<netns::Ipv4Range> no_masquerade4{};
  std::vector<netns::Ipv6Range> no_masquerade6{};
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// What a CNI network's name has before it, where networks of both kinds are.
inline constexpr std::string_view kCniPrefix = "cni/";

// [cni]: networks of root's own making, by third parties' plugins. Without
// directories there are none.
struct CniConfig {
  std::vector<std::string> config_dirs{};  // of two networks the first counts
  std::vector<std::string> plugin_dirs{};
  bool enabled() const { return !config_dirs.empty(); }
  friend bool operator==(const CniConfig&, const CniConfig&) = default;
};

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// Both ends included.
struct IdRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};
bool Contains(const std::vector<IdRange>& ranges, std::uint32_t id);

// [[rule]]: what one user or one group may do. A caller has the union of all
// rules that match; nothing is allowed without one.
struct RuleConfig {
  std::vector<std::uint32_t> uids;
  std::vector<std::uint32_t> gids;
  std::vector<std::string> host_volumes;       // "name" or "name:ro"
  std::vector<std::string> filesystems{};      // the same
  std::vector<std::string> plugins;            // may publish volumes of
  std::vector<std::string> register_plugins;   // may register
  std::vector<std::string> control_plugins{};  // may make controller calls of
  std::vector<std::string> networks;  // "name", "*"; "cni/name", "cni/*"
  std::vector<PortRange> host_ports;
  // Directories of the host beneath which this user's allocation directories
  // lie: absolute, normalised.
  std::vector<std::string> alloc_roots;
  // Paths in the hierarchy of version 2, "/nomad.slice": whose tasks' mounts
  // may be looked at.
  std::vector<std::string> cgroups;
  // Owners of files, uids and gids as they are on disk, that this user may
  // have files of and give them to, besides its own, and whose files its mounts
  // may show as others'. Never 0.
  std::vector<IdRange> ids;
  bool bidirectional = false;
  bool detached = false;    // may have mounts as fds
  bool containers = false;  // may have mounts made in containers in `cgroups`
  bool container_tmpfs = false;  // tmpfs mounts there, too
  // May hand in network namespaces of the host's user namespace, as those of
  // containers that root has started.
  bool host_namespaces = false;
  bool administer = false;  // sees and may undo every user's resources
  std::uint32_t line = 0;   // of the file, where it begins
};

// Whether the cgroup at this path is one that the rule grants, or beneath it.
bool AllowsCgroup(const RuleConfig& rule, std::string_view path);

// Whether the rule grants mounts in containers of that cgroup, or a tmpfs.
bool AllowsContainer(const RuleConfig& rule, std::string_view cgroup,
                     bool tmpfs);

// Whether the rule names this user or one of these groups.
bool Applies(const RuleConfig& rule, std::uint32_t uid,
             std::span<const std::uint32_t> gids);

// Whether one of the rule's ranges of host ports has all of these.
bool GrantsPorts(const RuleConfig& rule, std::uint16_t first,
                 std::uint16_t count);

// Whether the rule names this CNI network. "*" alone is not enough: what such a
// network leads to is told by files of others.
bool GrantsCniNetwork(const RuleConfig& rule, std::string_view network);

// Whether the rule lets all of the extent's ids on disk be shown.
bool AllowsIds(const RuleConfig& rule, const exec::IdExtent& extent);

// [firewall]: what is done besides the own table.
struct FirewallConfig {
  // Rules in iptables' chain FORWARD, for hosts where it drops by default.
  bool forward_rules = false;
  friend bool operator==(const FirewallConfig&,
                         const FirewallConfig&) = default;
};

// [mounts]: where mountd's tree is.
struct MountsConfig {
  // A mount namespace of its own, for nodes where PID 1 need not see what is
  // mounted in it (propagation/tree_namespace.h).
  bool own_namespace = false;
  friend bool operator==(const MountsConfig&, const MountsConfig&) = default;
};

struct LimitsConfig {
  std::uint32_t peers_per_uid = 32;
  std::uint32_t allocations_per_uid = 1000;
  std::uint32_t operations_per_uid = 64;  // under way at once
  std::uint32_t plugins_per_uid = 64;
  std::uint32_t rpcs_per_plugin = 32;  // of the Node service, under way at once
  std::uint32_t mounts_per_uid = 10'000;
  std::uint32_t mounts_per_allocation = 256;
  std::uint32_t mounts_per_plugin = 10'000;  // below its directory
  std::uint32_t inboxes_per_allocation = 64;
  std::uint64_t tmpfs_bytes = 16U << 20U;  // of one mount; 0: none at all
  std::uint64_t tmpfs_bytes_per_allocation = 64U << 20U;
  // Of hosts, hostname and resolv.conf, in whole pages: a thousand allocations
  // can have a page of each, and five users can have as much in the base.
  std::uint64_t network_file_bytes_per_uid = 12U << 20U;
  std::uint32_t namespaces_per_uid = 512;  // network namespaces made for it
  std::uint32_t mount_executors = 4;
  std::uint32_t mount_reserve = 1000;  // below fs.mount-max, kept for others
  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

struct TimeoutsConfig {
  std::chrono::milliseconds plan{10'000};           // one executor plan
  std::chrono::milliseconds rpc{60'000};            // one try of a CSI RPC
  std::chrono::milliseconds rpc_retries{120'000};   // all tries of one
  std::chrono::milliseconds patience{20'000};       // then a call is InProgress
  std::chrono::milliseconds probe_starting{5'000};  // until a plugin is ready
  std::chrono::milliseconds probe_ready{30'000};
  // Until a plugin has to be ready for the first time.
  std::chrono::milliseconds plugin_health{30'000};
  std::chrono::milliseconds probe_timeout{5'000};
  std::chrono::milliseconds probe_mounts{30'000};  // between probes of mounts
  std::chrono::milliseconds probe_answer{2'000};   // then it hangs
  std::chrono::milliseconds cni{30'000};  // one operation, its undo included
  // A tear-down that is owed for longer is warned of.
  std::chrono::milliseconds owed_warning{300'000};
  friend bool operator==(const TimeoutsConfig&,
                         const TimeoutsConfig&) = default;
};

// mountd.toml, parsed and checked as a whole; immutable. Both mountd and the
// executors read it, if it is root's.
struct Config {
  std::map<std::string, HostVolumeConfig> host_volumes;
  std::map<std::string, FilesystemConfig> filesystems;
  std::map<std::string, PluginConfig> plugins;
  std::map<std::string, NetworkConfig> networks;
  std::vector<RuleConfig> rules;
  CniConfig cni{};
  FirewallConfig firewall{};
  MountsConfig mounts{};
  LimitsConfig limits;
  TimeoutsConfig timeouts;
};

// `origin` names the text in errors: "mountd.toml:12: host_volume.data.path:
// must be absolute". Unknown keys are errors.
Result<Config> ParseConfig(std::string_view text, std::string_view origin);

// Reads and parses `path`. With `require_root_owned`, the file must belong to
// root and be writable by nobody else, or PermissionDenied.
Result<Config> LoadConfig(const std::string& path, bool require_root_owned);

}  // namespace mountd
