// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/daemon_checks.h"

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

// True if mountd's reason says that root has not configured the feature. That
// is no fault of the node.
bool IsByChoice(const std::string& reason) {
  return reason.starts_with("the configuration ") ||
         reason.starts_with("no rule ");
}

std::string PortsOf(const Capabilities& offers) {
  std::vector<std::string> words;
  for (const Capabilities::HostPorts& one : offers.host_ports) {
    words.push_back(
        std::to_string(one.first) +
        (one.first == one.last ? "" : "-" + std::to_string(one.last)));
  }
  return Join(words);
}

Check OfNetwork(const std::string& network, const AddressUsage& usage) {
  const std::string what = "addresses of " + network;
  const std::string why = std::to_string(usage.free) + " of " +
                          std::to_string(usage.capacity) + " are free";
  const std::string advice = "give [network." + network +
                             "] a larger range in /etc/mountd/mountd.toml, or "
                             "release unused allocations (mountctl status)";
  if (usage.free == 0) {
    return {Verdict::kFailed, what, why, advice};
  }
  // mountd sends AddressesScarce at the same threshold.
  if (usage.free <= usage.capacity / 10) {
    return {Verdict::kWarning, what, why, advice};
  }
  return Fine(what, why);
}

Check OfPlugin(const PluginStatus& plugin) {
  const std::string what = "plugin " + plugin.id;
  const std::string why =
      plugin.state + (plugin.reason.empty() ? "" : ": " + plugin.reason);
  if (plugin.state == "healthy") {
    return Fine(what, plugin.state);
  }
  if (plugin.state == "starting") {
    return {Verdict::kWarning, what, why,
            "mountctl plugin status " + plugin.id + " --wait 30"};
  }
  if (plugin.state == "gone") {
    return {Verdict::kWarning, what,
            why + "; it was unregistered by force, and volumes of it are left",
            "register it again (mountctl plugin register), then mountctl owed "
            "--retry"};
  }
  return {Verdict::kFailed, what, why,
          plugin.allocation.empty()
              ? "read its log; for a plugin that mountd.toml declares: "
                "journalctl -u mountd-plugin-" +
                    plugin.id
              : "read the log of allocation " + plugin.allocation};
}

}  // namespace

Check CheckKernel(const Capabilities& offers) {
  return Fine("kernel", offers.kernel);
}

std::vector<Check> CheckFeatures(const Capabilities& offers) {
  std::vector<Check> checks;
  for (const auto& [feature, reason] : offers.missing) {
    const std::string what = "feature " + feature;
    if (IsByChoice(reason)) {
      checks.push_back(Fine(what, "not offered: " + reason));
      continue;
    }
    const bool of_cni = feature.starts_with("cni");
    checks.push_back({Verdict::kWarning, what, "not offered: " + reason,
                      of_cni ? "correct it in the directories of [cni]"
                             : "use a newer kernel"});
  }
  if (checks.empty()) {
    checks.push_back(Fine("features", "the node offers all"));
  }
  return checks;
}

Check CheckPolicy(const CallerFacts& caller, const Capabilities& offers) {
  if (offers.rules) {
    const std::string all =
        offers.administrator
            ? ", an administrator who sees and may remove everybody's objects"
            : "";
    return Fine("policy",
                "a rule names " + caller.user + all +
                    "; networks: " + Join(offers.network_modes) +
                    "; host ports: " + PortsOf(offers) +
                    "; other grants appear only when a call needs them");
  }
  if (caller.root) {
    return Fine("policy",
                "no rule names root, so it may see and remove everything but "
                "make nothing");
  }
  return {Verdict::kFailed, "policy",
          "no rule names " + caller.user + ", so mountd refuses all its calls",
          "add [[rule]] users = [\"" + caller.user +
              "\"] to /etc/mountd/mountd.toml, then systemctl "
              "reload-or-restart mountd.service"};
}

std::vector<Check> CheckAddresses(const Capabilities& offers) {
  std::vector<Check> checks;
  for (const auto& [network, usage] : offers.addresses) {
    checks.push_back(OfNetwork(network, usage));
  }
  return checks;
}

std::optional<Check> CheckHostPorts(const Capabilities& offers) {
  std::uint64_t free = 0;
  for (const Capabilities::HostPorts& one : offers.host_ports) {
    free += one.free;
  }
  if (offers.host_ports.empty()) {
    return std::nullopt;
  }
  const std::string why =
      std::to_string(free) + " of " + PortsOf(offers) + " are free";
  if (free > 0) {
    return Fine("host ports", why);
  }
  return Check{
      Verdict::kWarning, "host ports", why,
      "add ports to host_ports of the rule, or release unused allocations"};
}

std::vector<Check> CheckPlugins(const std::vector<PluginStatus>& plugins) {
  std::vector<Check> checks;
  checks.reserve(plugins.size());
  for (const PluginStatus& plugin : plugins) {
    checks.push_back(OfPlugin(plugin));
  }
  if (checks.empty()) {
    checks.push_back(Fine("plugins", "you may see none"));
  }
  return checks;
}

Check CheckOwed(const OwedFacts& facts) {
  if (facts.count == 0) {
    return Fine("owed", "nothing");
  }
  std::string why =
      Count(facts.count, "tear-down") + ", the oldest for " + Age(facts.oldest);
  if (facts.seen.empty()) {
    why += "; you may see none of them";
  } else {
    const OwedTeardown& first = facts.seen.front();
    why += ": " + first.kind + " " + first.object + ": " + first.reason;
  }
  return {facts.oldest > facts.warning ? Verdict::kFailed : Verdict::kWarning,
          "owed", why,
          "mountctl owed lists them, mountctl holders names who uses a mount, "
          "mountctl owed --retry retries them now"};
}

Check CheckStuck(const Capabilities& offers) {
  if (offers.stuck_executors == 0) {
    return Fine("executors", "none hangs");
  }
  return {Verdict::kFailed, "executors",
          std::to_string(offers.stuck_executors) +
              " hang in the kernel and are abandoned",
          "ps -C mountd-exec -o pid,stat,wchan:32 says where; mostly it is the "
          "file system of a dead server"};
}

Check CheckStores(const Capabilities& offers) {
  if (offers.stores_set_aside.empty()) {
    return Fine("stores", "none is damaged");
  }
  return {Verdict::kWarning, "stores",
          "the last start found these damaged and set them aside: " +
              Join(offers.stores_set_aside),
          "find the cause, such as a failing disk, then delete them"};
}

}  // namespace mountd::agent
