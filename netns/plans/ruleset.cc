// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/ruleset.h"

#include "netns/plans/elements.h"

namespace mountd::netns {
namespace {

// Declares chains before flushing them, because at the first load none exists.
constexpr char kObjects[] = R"(table inet mountd {
  set version { type mark; }
  map pm4 { type inet_proto . inet_service : ipv4_addr . inet_service; }
  map pm4h { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
  map pm6 { type inet_proto . inet_service : ipv6_addr . inet_service; }
  map pm6h { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; }
  set src4 { type ifname . ipv4_addr; }
  set src6 { type ifname . ipv6_addr; }
  set open { type ifname; }
  chain admin { }
  chain guard { type filter hook prerouting priority raw; policy accept; }
  chain portmap { }
  chain nat_pre { type nat hook prerouting priority dstnat; }
  chain nat_out { type nat hook output priority -100; }
  chain nat_post { type nat hook postrouting priority srcnat; policy accept; }
  chain forward { type filter hook forward priority filter; policy accept; }
}
flush chain inet mountd guard
flush chain inet mountd portmap
flush chain inet mountd nat_pre
flush chain inet mountd nat_out
flush chain inet mountd nat_post
flush chain inet mountd forward
flush set inet mountd version
)";

// guard: an allocation cannot reach loopback services of the host, although its
// link has route_localnet, and it can send only from its own addresses.
// nat_pre: maps no port for 127/8, because the kernel itself refuses packets
// from outside to 127/8, but only if no rule has changed their destination.
// nat_out: maps no port for ::1, because no route leads from ::1 to an
// allocation. Nobody listens there, so the kernel refuses such a connection at
// once. forward: allocations reach each other and the outside. The outside
// reaches them only through port maps.
// other and the outside; the outside reaches them only through port maps.
constexpr char kRules[] = R"(table inet mountd {
  chain guard {
    iifname != "md*" return
    ip daddr 127.0.0.0/8 drop
    iifname . ip saddr @src4 accept
    ip6 saddr fe80::/10 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    iifname . ip6 saddr @src6 accept
    drop
  }
  chain portmap {
    dnat ip to ip daddr . meta l4proto . th dport map @pm4h
    dnat ip to meta l4proto . th dport map @pm4
    dnat ip6 to ip6 daddr . meta l4proto . th dport map @pm6h
    dnat ip6 to meta l4proto . th dport map @pm6
  }
  chain nat_pre {
    ip daddr 127.0.0.0/8 return
    meta l4proto { tcp, udp, sctp } fib daddr type local jump portmap
  }
  chain nat_out {
    ip6 daddr ::1 return
    meta l4proto { tcp, udp, sctp } fib daddr type local jump portmap
  }
  chain forward {
    iifname != "md*" oifname != "md*" return
    ct state vmap { established : accept, related : accept, invalid : drop }
    jump admin
    ct status dnat accept
    iifname "md*" oifname "md*" iifname @open oifname @open accept
    iifname "md*" oifname "md*" drop
    iifname "md*" accept
    drop
  }
}
)";

// Returns rules for packets that go through a port map and come from the host
// itself or from an allocation. The rules make the host's address in the
// target's network their source. Then the answer arrives by the link that the
// packet went to, whatever other links the allocation has.
template <typename Range>
std::string HostSourceRules(const char* family,
                            const std::vector<Range>& ranges) {
  const std::string ip = std::string(family) + " ";
  std::string rules;
  for (const Range& range : ranges) {
    const std::string to = "oifname \"md*\" ct status dnat " + ip + "daddr " +
                           ToString(range) + " snat " + ip + "to " +
                           ToString(HostAddress(range)) + "\n";
    for (const char* from : {"fib saddr type local ", "iifname \"md*\" "}) {
      rules += std::string("add rule inet mountd nat_post ") + from + to;
    }
  }
  return rules;
}

// The same for what is left of networks that are no longer declared.
constexpr char kLastHostSourceRules[] = R"(table inet mountd {
  chain nat_post {
    oifname "md*" ct status dnat ip saddr 127.0.0.0/8 masquerade
    iifname "md*" oifname "md*" ct status dnat masquerade
  }
}
)";

// Returns the masquerading rules of one family. Each excluded range has a rule
// of its own, because overlapping ranges cannot be in one set.
template <typename Range>
std::string MasqueradeRules(const char* family, const std::vector<Range>& own,
                            const std::vector<Range>& excluded,
                            const char* multicast) {
  if (own.empty()) {
    return "";
  }
  const std::string rule = "add rule inet mountd nat_post oifname != \"md*\" ";
  const std::string ip = std::string(family) + " ";
  std::string sources;
  for (const Range& range : own) {
    sources += (sources.empty() ? "" : ", ") + ToString(range);
  }
  const std::string from = ip + "saddr { " + sources + " } ";
  std::string rules = rule + from + ip + "daddr { " + sources + ", " +
                      multicast + " } return\n";
  for (const Range& range : excluded) {
    rules += rule + from + ip + "daddr " + ToString(range) + " return\n";
  }
  return rules + rule + from + "masquerade\n";
}

// Returns the text's FNV-1a hash as the ruleset's version, so that any change
// of the text gives another version.
std::uint32_t Fnv1a(const std::string& text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

}  // namespace

Ruleset RulesetFor(const Config& config) {
  Ruleset ruleset;
  ruleset.commands = std::string(kObjects) + kRules;
  for (const auto& [name, network] : config.networks) {
    ruleset.commands += HostSourceRules("ip", network.ipv4) +
                        HostSourceRules("ip6", network.ipv6);
  }
  ruleset.commands += kLastHostSourceRules;
  for (const auto& [name, network] : config.networks) {
    ruleset.commands += MasqueradeRules("ip", network.ipv4,
                                        network.no_masquerade4, "224.0.0.0/4");
    ruleset.commands += MasqueradeRules("ip6", network.ipv6,
                                        network.no_masquerade6, "ff00::/8");
  }
  ruleset.version = Fnv1a(ruleset.commands);
  ruleset.commands += "add element inet mountd version { " +
                      std::to_string(ruleset.version) + " }\n";
  return ruleset;
}

Result<void> PrepareRuleset(exec::Kernel& kernel, Channel* nft,
                            const Config& config, bool anew) {
  const Ruleset ruleset = RulesetFor(config);
  MOUNTD_ASSIGN(
      const std::vector<bool> found,
      FindElements(nft, {VersionElement(ruleset.version)}, "ruleset"));
  if (found.front() && !anew) {
    return Ok();
  }
  return exec::Named(kernel.RunNft(ruleset.commands), "nft", "ruleset");
}

}  // namespace mountd::netns
