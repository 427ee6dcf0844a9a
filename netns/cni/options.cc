// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/options.h"

#include <getopt.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "mountd/base/number.h"
#include "netns/cni/documents/names.h"

namespace mountd::cni {

const char kUsage[] =
    R"(mountd-cni-run [OPTION...] VERB: one CNI operation, from configuration and
plugins that root alone can write, for a request that nobody vouches for.

  add      attaches; what a failed attempt left is undone before it ends. What is
           attached already, by the same request, is answered as it is known.
  check    whether it still is as ADD left it
  del      detaches, with the configuration of ADD; as often as one likes
  gc       detaches what the request does not list as valid, and tells plugins.
           No attachment may have been made since that list was.
  status   whether a network's plugins could do an ADD now
  list     the networks there are, their plugins and versions; no request

  --config-dir DIR   where networks are configured; several: the first counts
  --plugin-dir DIR   where plugins are; several: the first counts
  --state-dir DIR    what is attached; of this boot, mode 0700, made if missing
  --kept-dir DIR     the same, to outlive the boot: what is in this one alone was
                     attached in an earlier boot, and is detached without its
                     namespace by gc, or before the next add
  --netns PATH       where the namespace is pinned: for add. check and del take
                     it from add, and del goes on without one that is gone
  --netns-inode N    which namespace has to be there
  --network NAME     the only one that the request may name; gc: the only one
                     that it is about. Not for list
  --container-id ID  the only one that the request may be about: for add, check
                     and del
  --host-ports LIST  the only ones that port_mappings may have: "20000-20999,8080",
                     "" for none. For add; check and del take it and look at no
                     port, as both are about what add was granted
  --recorded         del and gc go by what is recorded: del of what is not does
                     nothing, gc waits for no other operation, and tells plugins
                     of no network that had no attachment
  --deadline-ms N    for all of it, the undo included (30000)
  --attempts N       how often add is tried, 1 to 10 (3)
  --backoff-ms N     before the second attempt, then twice that (250)

stdin, but for list: one JSON object of at most 1 MiB, no unknown members. One
that is outside the options is PermissionDenied, and nothing is run:
  network, container_id, ifname   gc: network, or all of them
  args {"K":"V"}   port_mappings [{hostPort, containerPort, protocol, hostIP}]
  dns {servers, searches, options}   ips ["ADDRESS/PREFIX"]   mac
  bandwidth {ingressRate, ingressBurst, egressRate, egressBurst}   in bits
  valid [{container_id, ifname}]   gc alone
  earlier_boots    gc: true for what they left alone, whatever is valid

stdout: one JSON object. "ok": true with
  add      result {cniVersion, interfaces [{name, mac, sandbox, mtu}],
           ips [{address, gateway, interface}], routes [{dst, gw}],
           dns {nameservers, domain, search, options}}: typed, bounded, and
           nothing else that plugins answer (netns/cni/documents/plugin_result.h)
           interface, address, address6: of the first that has an address, one
           in a sandbox before others. address6 is "" without an IPv6 one, and
           address that one where there is no IPv4 one
           existing (true: by an add before). All together below 256 KiB
  check    checked (false: the network wants none)
  del      known (false: no record and no such network, so nothing was done)
  gc       removed ["CONTAINER/IFNAME"]
  status   checked (false: a network before CNI 1.1, its plugins are there)
  list     networks, plugins, unusable
or "ok": false with code (mountd's), op, object, detail, and where a plugin is to
blame plugin and cni_code; left: what could not be undone and is still known, so
that del can be tried again.

Exit status: 0 if there is an answer, 1 if there is none, 2 for a bad command line.
)";

namespace {

enum Option : int {
  kHelp = 'h',
  kConfigDir = 256,
  kPluginDir,
  kStateDir,
  kKeptDir,
  kNetns,
  kNetnsInode,
  kNetwork,
  kContainerId,
  kHostPorts,
  kRecorded,
  kDeadline,
  kAttempts,
  kBackoff,
};

constexpr std::array<option, 15> kOptions = {{
    {"help", no_argument, nullptr, kHelp},
    {"config-dir", required_argument, nullptr, kConfigDir},
    {"plugin-dir", required_argument, nullptr, kPluginDir},
    {"state-dir", required_argument, nullptr, kStateDir},
    {"kept-dir", required_argument, nullptr, kKeptDir},
    {"netns", required_argument, nullptr, kNetns},
    {"netns-inode", required_argument, nullptr, kNetnsInode},
    {"network", required_argument, nullptr, kNetwork},
    {"container-id", required_argument, nullptr, kContainerId},
    {"host-ports", required_argument, nullptr, kHostPorts},
    {"recorded", no_argument, nullptr, kRecorded},
    {"deadline-ms", required_argument, nullptr, kDeadline},
    {"attempts", required_argument, nullptr, kAttempts},
    {"backoff-ms", required_argument, nullptr, kBackoff},
    {nullptr, 0, nullptr, 0},
}};

constexpr std::array<std::string_view, 6> kVerbs = {"add", "check",  "del",
                                                    "gc",  "status", "list"};

Error BadUsage(const std::string& why) {
  return MakeError(Code::kInvalidArgument, "command line", "", why);
}

Result<std::uint64_t> NumberOf(const char* text, std::uint64_t max) {
  const auto number = ParseNumber<std::uint64_t>(text);
  if (!number || *number == 0 || *number > max) {
    return BadUsage(std::string(text) + " must be a number from 1 to " +
                    std::to_string(max));
  }
  return *number;
}

Result<std::chrono::milliseconds> TimeOf(const char* text) {
  constexpr std::uint64_t kDayMs = 24ULL * 60 * 60 * 1000;
  MOUNTD_ASSIGN(const std::uint64_t number, NumberOf(text, kDayMs));
  return std::chrono::milliseconds(number);
}

// Accepts each bound only once, because with two of them one would have no
// effect.
Result<void> TakeName(const char* value, bool (*is_name)(std::string_view),
                      std::string& name) {
  if (!name.empty() || !is_name(value)) {
    return BadUsage(
        "--network and --container-id take one name each, and only once");
  }
  name = value;
  return Ok();
}

Result<void> TakeHostPorts(const char* value, RequestBounds& bounds) {
  auto ports = ParsePorts(value);
  if (bounds.host_ports || !ports) {
    return BadUsage(
        "--host-ports takes a list of ports and ranges FIRST-LAST, and only "
        "once");
  }
  bounds.host_ports = std::move(ports);
  return Ok();
}

Result<void> Take(int option, const char* value, Options& options) {
  switch (option) {
    case kHelp:
      options.help = true;
      return Ok();
    case kConfigDir:
      options.config_dirs.emplace_back(value);
      return Ok();
    case kPluginDir:
      options.plugin_dirs.emplace_back(value);
      return Ok();
    case kStateDir:
      options.state_dir = value;
      return Ok();
    case kKeptDir:
      options.kept_dir = value;
      return Ok();
    case kNetns:
      options.netns = value;
      return Ok();
    case kNetnsInode: {
      MOUNTD_ASSIGN(options.netns_inode, NumberOf(value, ~std::uint64_t{0}));
      return Ok();
    }
    case kNetwork:
      return TakeName(value, IsNetworkName, options.bounds.network);
    case kContainerId:
      return TakeName(value, IsContainerId, options.bounds.container_id);
    case kRecorded:
      options.recorded = true;
      return Ok();
    case kHostPorts:
      return TakeHostPorts(value, options.bounds);
    case kDeadline: {
      MOUNTD_ASSIGN(options.deadline, TimeOf(value));
      return Ok();
    }
    case kAttempts: {
      MOUNTD_ASSIGN(const std::uint64_t attempts, NumberOf(value, 10));
      options.attempts = static_cast<unsigned>(attempts);
      return Ok();
    }
    case kBackoff: {
      MOUNTD_ASSIGN(options.backoff, TimeOf(value));
      return Ok();
    }
    default:
      return BadUsage("an option is unknown or lacks its value");
  }
}

// Checks that the verb has the options it needs, and none that it would ignore.
Result<void> CheckVerbsOptions(const Options& options) {
  const std::string& verb = options.verb;
  const bool stateless = verb == "list" || verb == "status";
  const bool of_attachment = !stateless && verb != "gc";
  if (options.state_dir.empty() && !stateless) {
    return BadUsage("needs --state-dir");
  }
  if (options.netns.empty() && verb == "add") {
    return BadUsage("add needs --netns");
  }
  const bool about_one = !options.netns.empty() ||
                         !options.bounds.container_id.empty() ||
                         options.bounds.host_ports.has_value();
  if (about_one && !of_attachment) {
    return BadUsage(
        "--netns, --container-id and --host-ports are only for add, check and "
        "del");
  }
  if (!options.bounds.network.empty() && verb == "list") {
    return BadUsage("--network cannot be used with list");
  }
  if (options.recorded && verb != "del" && verb != "gc") {
    return BadUsage("--recorded is only for del and gc");
  }
  return Ok();
}

}  // namespace

Result<Options> ParseOptions(int argc, char** argv) {
  Options options;
  // The runner reports errors itself. 0 makes getopt_long(3) start over.
  ::opterr = 0;
  ::optind = 0;
  int option = 0;
  while ((option = ::getopt_long(argc, argv, "h", kOptions.data(), nullptr)) !=
         -1) {
    MOUNTD_TRY(Take(option, ::optarg, options));
  }
  if (options.help) {
    return options;
  }
  if (::optind + 1 != argc) {
    return BadUsage("needs one verb");
  }
  options.verb = argv[::optind];
  if (std::find(kVerbs.begin(), kVerbs.end(), options.verb) == kVerbs.end()) {
    return BadUsage("unknown verb");
  }
  MOUNTD_TRY(CheckVerbsOptions(options));
  return options;
}

}  // namespace mountd::cni
