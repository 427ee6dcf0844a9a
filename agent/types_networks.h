// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

// Networks: the request of SetupNetwork, and a network that an allocation has.
namespace mountd::agent {

struct Port {
  bool operator==(const Port&) const = default;

  std::string label{};
  std::uint16_t host = 0;
  std::uint16_t container = 0;  // 0: the same as host
  // "tcp", "udp", "sctp", or several with "+". "udp?", in mode "bridge" alone,
  // maps the port only if it is free. A network's status then has "udp" if
  // mountd has mapped the port, and leaves "udp" out otherwise.
  std::string protocols = "tcp";
  std::uint16_t count = 1;     // how many ports in a row
  std::string host_address{};  // an address of the host; "": any
};

struct NetworkSpec {
  bool operator==(const NetworkSpec&) const = default;

  std::string mode = "bridge";  // "none", "host", "driver", "cni/NAME"
  std::string network{};        // "": the configuration's default
  std::vector<Port> ports{};
  std::string interface {};  // the interface's name inside; "": "eth0"
  std::string address{};     // exactly this one; "": any free one
  std::string address6{};
  bool isolated = false;  // no traffic to or from other allocations
  // True if the task reaches all destinations by this network. If absent, true
  // only for the first network of the allocation.
  std::optional<bool> default_route{};
  std::string hostname{};
  struct Host {
    bool operator==(const Host&) const = default;

    std::string address;
    std::vector<std::string> names;
  };
  // Added to localhost and the allocation's own name.
  std::vector<Host> hosts{};
  std::vector<std::string> dns_servers{};
  std::vector<std::string> dns_searches{};
  std::vector<std::string> dns_options{};
  // Only CNI's networks use the fields from here to `bandwidth`.
  std::map<std::string, std::string> cni_args{};
  std::string mac{};
  std::vector<std::string> ips{};  // addresses, also with a prefix
  // Keys: "ingress_rate", "egress_rate" in bits a second; "ingress_burst",
  // "egress_burst" in bits.
  std::map<std::string, std::uint64_t> bandwidth{};
  // A network namespace to use instead of a new one; -1: none. The caller keeps
  // the fd and closes it.
  int netns = -1;
  // A pidfd of a process of the caller that keeps the ports by sockets of its
  // own; -1: none. The caller keeps the fd and closes it.
  int ports_keeper = -1;
};

struct NetworkStatus {
  bool operator==(const NetworkStatus&) const = default;

  std::string mode;
  std::string network;
  std::string netns_path;
  std::uint64_t netns_inode = 0;
  std::string interface;
  std::string address;
  std::string address6;
  std::string gateway;
  std::string gateway6;
  std::string host_interface;
  std::string mac;  // of CNI's networks only
  std::vector<std::string> dns_servers;
  std::vector<std::string> dns_searches;
  std::vector<std::string> dns_options;
  std::vector<Port> ports;
  bool isolated = false;
  bool default_route = false;
  struct File {
    bool operator==(const File&) const = default;

    std::string host_path;
    std::string task_path;
  };
  std::vector<File> files;  // the agent mounts these into tasks, read-only
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const Port& value);
std::ostream& operator<<(std::ostream& out, const NetworkSpec& value);
std::ostream& operator<<(std::ostream& out, const NetworkSpec::Host& value);
std::ostream& operator<<(std::ostream& out, const NetworkStatus& value);
std::ostream& operator<<(std::ostream& out, const NetworkStatus::File& value);

}  // namespace mountd::agent
