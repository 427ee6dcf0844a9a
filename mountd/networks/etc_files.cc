// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/etc_files.h"

#include <algorithm>
#include <string_view>

namespace mountd {
namespace {

constexpr std::size_t kMaxHostname = 253;   // RFC 1035, 2.3.4, as text
constexpr std::size_t kMaxLabel = 63;       // the same
constexpr std::size_t kMaxHosts = 256;      // entries, and names of one
constexpr std::size_t kMaxDnsEntries = 16;  // of each kind
constexpr std::size_t kMaxOption = 64;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

// RFC 1123, 2.1. Also allows the underscore, because DNS names of services have
// it.
bool IsLabel(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabel && label.front() != '-' &&
         label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) {
           return IsLetterOrDigit(c) || c == '-' || c == '_';
         });
}

bool IsHostname(std::string_view name) {
  if (name.empty() || name.size() > kMaxHostname) {
    return false;
  }
  for (;;) {
    const std::size_t dot = name.find('.');
    if (!IsLabel(name.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(dot + 1);
  }
}

// A search domain may end with a dot, or be only the root, ".".
bool IsDomain(std::string_view name) {
  if (name == ".") {
    return true;
  }
  if (name.ends_with('.')) {
    name.remove_suffix(1);
  }
  return IsHostname(name);
}

bool IsAddress(std::string_view text) {
  return netns::ParseIpv4(text) || netns::ParseIpv6(text);
}

// Options such as "ndots:2" or "edns0".
bool IsOption(std::string_view option) {
  return !option.empty() && option.size() <= kMaxOption &&
         std::all_of(option.begin(), option.end(), [](char c) {
           return IsLetterOrDigit(c) || c == ':' || c == '-' || c == '_' ||
                  c == '.';
         });
}

Error BadFile(const std::string& object, const std::string& why) {
  return MakeError(Code::kInvalidArgument, "set up", object, why);
}

template <typename Check>
Result<void> CheckAll(const char* what, const std::vector<std::string>& all,
                      Check check) {
  if (all.size() > kMaxDnsEntries) {
    return MakeError(
        Code::kResourceExhausted, "set up", what,
        "too many; the limit is " + std::to_string(kMaxDnsEntries));
  }
  return std::all_of(all.begin(), all.end(), check)
             ? Ok()
             : Result<void>(BadFile(what, "has an entry that is not valid"));
}

Result<void> CheckHosts(const std::vector<HostEntry>& hosts) {
  if (hosts.size() > kMaxHosts) {
    return MakeError(Code::kResourceExhausted, "set up", "hosts",
                     "too many; the limit is " + std::to_string(kMaxHosts));
  }
  for (const HostEntry& entry : hosts) {
    if (!IsAddress(entry.address) || entry.names.empty() ||
        entry.names.size() > kMaxHosts ||
        !std::all_of(entry.names.begin(), entry.names.end(), IsHostname)) {
      return BadFile("hosts", "each entry needs an IP address and host names");
    }
  }
  return Ok();
}

std::string Words(const char* keyword, const std::vector<std::string>& words) {
  std::string line = keyword;
  for (const std::string& word : words) {
    line.append(" ").append(word);
  }
  return line + "\n";
}

std::string HostsText(const NetworkFiles& files, const netns::Ipv4& ipv4,
                      const netns::Ipv6& ipv6) {
  std::string text =
      "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
  if (!files.hostname.empty() && !netns::IsNone(ipv4)) {
    text += netns::ToString(ipv4) + " " + files.hostname + "\n";
  }
  if (!files.hostname.empty() && !netns::IsNone(ipv6)) {
    text += netns::ToString(ipv6) + " " + files.hostname + "\n";
  }
  for (const HostEntry& entry : files.hosts) {
    text += Words(entry.address.c_str(), entry.names);
  }
  return text;
}

std::string ResolvConfText(const NetworkFiles& files) {
  std::string text;
  for (const std::string& server : files.dns.servers) {
    text += "nameserver " + server + "\n";
  }
  if (!files.dns.searches.empty()) {
    text += Words("search", files.dns.searches);
  }
  if (!files.dns.options.empty()) {
    text += Words("options", files.dns.options);
  }
  return text;
}

}  // namespace

Result<void> CheckNetworkFiles(const NetworkFiles& files) {
  if (!files.hostname.empty() && !IsHostname(files.hostname)) {
    return BadFile("hostname", "must be a host name (RFC 1123)");
  }
  MOUNTD_TRY(CheckHosts(files.hosts));
  MOUNTD_TRY(CheckAll("dns servers", files.dns.servers, IsAddress));
  MOUNTD_TRY(CheckAll("dns searches", files.dns.searches, IsDomain));
  return CheckAll("dns options", files.dns.options, IsOption);
}

std::vector<NetworkFile> TextsOf(const NetworkFiles& files,
                                 const netns::Ipv4& ipv4,
                                 const netns::Ipv6& ipv6) {
  std::vector<NetworkFile> all;
  if (!files.hostname.empty()) {
    all.push_back({exec::NetworkFileKind::kHostname, "hostname",
                   "/etc/hostname", files.hostname + "\n"});
  }
  if (!files.hostname.empty() || !files.hosts.empty()) {
    all.push_back({exec::NetworkFileKind::kHosts, "hosts", "/etc/hosts",
                   HostsText(files, ipv4, ipv6)});
  }
  const std::string resolv = ResolvConfText(files);
  if (!resolv.empty()) {
    all.push_back({exec::NetworkFileKind::kResolvConf, "resolv.conf",
                   "/etc/resolv.conf", resolv});
  }
  return all;
}

}  // namespace mountd
