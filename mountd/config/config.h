// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/config/config_limits.h"
#include "mountd/plan/values.h"
#include "netns/address/address.h"

namespace mountd {

// [host_volume.<name>]: a directory of the host that callers may bind-mount by
// name.
struct HostVolumeConfig {
  std::string path;  // absolute, normalised; opened without following links
  bool read_only = false;
  // The modes that callers may ask for; kPrivate unless listed.
  std::vector<exec::Propagation> propagation = {exec::Propagation::kPrivate};
  // The owners. If any are named, nobody else may use the volume, whatever
  // rules say.
  std::vector<std::uint32_t> uids{};
};

// [filesystem.<name>]: a file system that mountd mounts at base/f/<name> when
// it is first used, and unmounts after its last user. Checked by
// mountd/config/config_filesystem.h.
struct FilesystemConfig {
  std::string type;
  std::string source;
  std::vector<std::string> options{};  // without nosuid, nodev and ro
  bool read_only = false;
  std::vector<exec::Propagation> propagation = {exec::Propagation::kPrivate};
  std::vector<std::uint32_t> uids{};  // as a host volume's
};

// [plugin.<name>]: a CSI plugin that mountd has started as root, as the
// transient systemd unit mountd-plugin-<name>.service, and supervises.
struct PluginConfig {
  std::string type;                     // "node", "controller" or "monolith"
  std::vector<std::string> command{};   // the program's path and its arguments
  std::string restart = "always";       // systemd's Restart=
  std::uint64_t health_timeout_ms = 0;  // 0: timeouts.plugin_health
  bool bare_directories = false;
  friend bool operator==(const PluginConfig&, const PluginConfig&) = default;
};

// [network.<name>]: a network and its ranges of addresses.
struct NetworkConfig {
  // At least one of both lists has a range. An allocation gets one address of
  // each family that has a range.
  std::vector<netns::Ipv4Range> ipv4;
  std::vector<netns::Ipv6Range> ipv6;
  std::uint32_t mtu = 0;  // 0: the kernel's default
  // Addresses to which packets go out with the allocation's own source address,
  // because these destinations have a route back to the allocation.
  std::vector<netns::Ipv4Range> no_masquerade4{};
  std::vector<netns::Ipv6Range> no_masquerade6{};
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// Begins the name of a CNI network where a name may be of either kind of
// network.
inline constexpr std::string_view kCniPrefix = "cni/";

// [cni]: networks that root configures and third parties' plugins make. Without
// config_dirs there are no such networks.
struct CniConfig {
  // If two networks share a name, the earlier directory wins.
  std::vector<std::string> config_dirs{};
  std::vector<std::string> plugin_dirs{};
  bool enabled() const { return !config_dirs.empty(); }
  friend bool operator==(const CniConfig&, const CniConfig&) = default;
};

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// A range that includes both ends.
struct IdRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};
bool Contains(const std::vector<IdRange>& ranges, std::uint32_t id);

// [[rule]]: the rights of users or groups. A caller has the union of all rules
// that match, and no right without one.
struct RuleConfig {
  std::vector<std::uint32_t> uids;
  std::vector<std::uint32_t> gids;
  std::vector<std::string> host_volumes;      // "name" or "name:ro"
  std::vector<std::string> filesystems{};     // "name" or "name:ro"
  std::vector<std::string> plugins;           // may publish their volumes
  std::vector<std::string> register_plugins;  // may register
  // Plugins whose controllers the users may call.
  std::vector<std::string> control_plugins{};
  std::vector<std::string> networks;  // "name", "*"; "cni/name", "cni/*"
  std::vector<PortRange> host_ports;
  // Directories of the host that hold this user's allocation directories.
  // Absolute and normalised.
  std::vector<std::string> alloc_roots;
  // Paths in the hierarchy of version 2, such as "/nomad.slice". mountd may
  // look at mounts of tasks there for this user.
  std::vector<std::string> cgroups;
  // Ids of files on disk, both uids and gids, besides the user's own. The user
  // may own files of these ids, give files to them, and make mounts that show
  // files of these ids under other ids. Never 0.
  std::vector<IdRange> ids;
  bool bidirectional = false;
  // The users may have root's files in this rule's host volumes, and in volumes
  // of its plugins, shown as their own. They can then make setuid programs of
  // root on those disks.
  bool root_as_caller = false;
  bool detached = false;    // may have mounts as fds
  bool containers = false;  // may have mounts made in containers in `cgroups`
  // May have tmpfs mounts in those containers, too.
  bool container_tmpfs = false;
  // May pass network namespaces of the host's user namespace, such as those of
  // containers that root started.
  bool host_namespaces = false;
  // How a fence may stop the user's tasks in `cgroups`.
  exec::TaskStop stop_tasks = exec::TaskStop::kNo;
  bool administer = false;  // sees and may undo every user's resources
  std::uint32_t line = 0;   // line of the file where the rule begins
};

// Returns whether the cgroup at this path is one that the rule grants, or lies
// beneath one.
bool AllowsCgroup(const RuleConfig& rule, std::string_view path);

// Returns whether the rule grants mounts, or a tmpfs, in containers of that
// cgroup.
bool AllowsContainer(const RuleConfig& rule, std::string_view cgroup,
                     bool tmpfs);

// Returns whether `names` contains `name` or "*".
bool Lists(const std::vector<std::string>& names, std::string_view name);
// Returns whether `entries` contains `name` or "*". If `read_only`, also
// accepts these entries with ":ro".
bool ListsWithAccess(const std::vector<std::string>& entries,
                     std::string_view name, bool read_only);
// Returns whether the rule allows a fence to stop tasks of that cgroup in this
// way.
bool AllowsStop(const RuleConfig& rule, std::string_view cgroup,
                exec::TaskStop how);

// Returns whether the rule names this user or one of these groups.
bool Applies(const RuleConfig& rule, std::uint32_t uid,
             std::span<const std::uint32_t> gids);

// Returns whether one of the rule's ranges holds all of these host ports.
bool GrantsPorts(const RuleConfig& rule, std::uint16_t first,
                 std::uint16_t count);

// Returns whether the rule names this CNI network. "*" without "cni/" does not
// count, because files of other projects decide where a CNI network leads.
bool GrantsCniNetwork(const RuleConfig& rule, std::string_view network);

// Returns whether the rule grants all ids on disk of the extent.
bool AllowsIds(const RuleConfig& rule, const exec::IdExtent& extent);

// [firewall]: changes outside mountd's own table.
struct FirewallConfig {
  // Adds rules to iptables' chain FORWARD, for hosts where it drops by default.
  bool forward_rules = false;
  friend bool operator==(const FirewallConfig&,
                         const FirewallConfig&) = default;
};

// [mounts]: where mountd keeps the base.
struct MountsConfig {
  // Keeps the base in a mount namespace of its own, so that PID 1 does not see
  // the base's mounts (propagation/residence.h).
  bool own_namespace = false;
  friend bool operator==(const MountsConfig&, const MountsConfig&) = default;
};

// mountd.toml, parsed and checked as a whole; immutable. Both mountd and the
// executors read it, and refuse a file that does not belong to root.
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

// Parses the text. `origin` names the text in errors: "mountd.toml:12:
// host_volume.data.path: must be absolute". Unknown keys are errors.
Result<Config> ParseConfig(std::string_view text, std::string_view origin);

// Reads and parses `path`. With `require_root_owned`, PermissionDenied if the
// file does not belong to root or others may write to it.
Result<Config> LoadConfig(const std::string& path, bool require_root_owned);

}  // namespace mountd
