// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/host_sockets.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>

#include "mountd/base/unique_fd.h"
#include "netns/attributes.h"

namespace mountd::netns {
namespace {

constexpr char kObject[] = "sockets of the host";

// The kernel compares ports itself (inet_diag_bc_sk): a host may have thousands
// of other sockets. Each comparison takes two slots, the second of which holds
// the port; a jump to beyond the end is a no.
struct PortFilter {
  PortFilter(std::uint16_t first, std::uint16_t last)
      : slots{{{INET_DIAG_BC_S_GE, 8, 20},
               {0, 0, first},
               {INET_DIAG_BC_S_LE, 8, 12},
               {0, 0, last}}} {}
  std::array<inet_diag_bc_op, 4> slots;
};

struct DumpRequest {
  nlmsghdr header{};
  inet_diag_req_v2 query{};
  nlattr attribute{};
  PortFilter filter;

  DumpRequest(std::uint8_t family, std::uint8_t protocol, std::uint16_t first,
              std::uint16_t last)
      : filter(first, last) {
    header.nlmsg_len = sizeof(DumpRequest);
    header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    query.sdiag_family = family;
    query.sdiag_protocol = protocol;
    query.idiag_states = 1U << static_cast<unsigned>(
                             protocol == IPPROTO_TCP ? TCP_LISTEN : TCP_CLOSE);
    attribute.nla_len = sizeof(attribute) + sizeof(filter);
    attribute.nla_type = INET_DIAG_REQ_BYTECODE;
  }
};
static_assert(sizeof(DumpRequest) == sizeof(nlmsghdr) +
                                         sizeof(inet_diag_req_v2) +
                                         sizeof(nlattr) + sizeof(PortFilter));

// The kernel says so of any that listens or is not connected.
bool HearsIpv6Alone(const Attributes& socket) {
  return socket.Value<std::uint8_t>(INET_DIAG_SKV6ONLY).value_or(0) != 0;
}

HostIp AddressOf(const inet_diag_msg& socket, bool ipv6_alone) {
  constexpr Ipv6 kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::ptrdiff_t kPrefix = 12;
  HostIp address;
  std::memcpy(address.bytes.data(), socket.id.idiag_src, sizeof(Ipv6));
  if (socket.idiag_family == AF_INET) {
    address.family = HostIp::Family::kIpv4;
    std::fill(address.bytes.begin() + sizeof(Ipv4), address.bytes.end(), 0);
  } else if (std::equal(kMapped.begin(), kMapped.begin() + kPrefix,
                        address.bytes.begin())) {
    address.family = HostIp::Family::kIpv4;
    std::rotate(address.bytes.begin(), address.bytes.begin() + kPrefix,
                address.bytes.end());
    std::fill(address.bytes.begin() + sizeof(Ipv4), address.bytes.end(), 0);
  } else if (!IsNone(address.bytes) || ipv6_alone) {
    address.family = HostIp::Family::kIpv6;
  }
  return address;
}

// What one message says; true if it is the last.
Result<bool> Take(nlmsghdr* header, std::vector<HostSocket>* sockets) {
  if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) {
    int status = 0;  // what both begin with
    if (nlmsg_datalen(header) >= static_cast<int>(sizeof(status))) {
      std::memcpy(&status, nlmsg_data(header), sizeof(status));
    }
    return status == 0 ? Result<bool>(true)
                       : ErrnoError(status == INT_MIN ? EBADMSG : -status,
                                    "SOCK_DIAG_BY_FAMILY", kObject);
  }
  inet_diag_msg socket{};
  if (nlmsg_datalen(header) < static_cast<int>(sizeof(socket))) {
    return false;
  }
  std::memcpy(&socket, nlmsg_data(header), sizeof(socket));
  const std::span<const std::byte> payload(
      static_cast<const std::byte*>(nlmsg_data(header)),
      static_cast<std::size_t>(nlmsg_datalen(header)));
  const bool ipv6_alone =
      HearsIpv6Alone(AttributesAfter<inet_diag_msg>(payload));
  sockets->push_back(
      {ntohs(socket.id.idiag_sport), AddressOf(socket, ipv6_alone)});
  return false;
}

}  // namespace

Result<bool> TakeHostSockets(std::span<std::byte> datagram,
                             std::vector<HostSocket>* sockets) {
  bool last = false;
  auto left = static_cast<int>(datagram.size());
  auto* header = reinterpret_cast<nlmsghdr*>(datagram.data());
  for (; nlmsg_ok(header, left) != 0; header = nlmsg_next(header, &left)) {
    MOUNTD_ASSIGN(last, Take(header, sockets));
  }
  return last;
}

namespace {

Result<void> Dump(int netlink, const DumpRequest& request,
                  std::vector<HostSocket>* sockets) {
  alignas(nlmsghdr) static thread_local std::array<std::byte, 65536> buffer;
  if (::send(netlink, &request, sizeof(request), 0) < 0) {
    return ErrnoError(errno, "send", kObject);
  }
  for (bool last = false; !last;) {
    const ssize_t size = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (size <= 0) {
      return ErrnoError(size < 0 ? errno : EPIPE, "recv", kObject);
    }
    MOUNTD_ASSIGN(
        last,
        TakeHostSockets(std::span(buffer).first(static_cast<std::size_t>(size)),
                        sockets));
  }
  return Ok();
}

}  // namespace

Result<std::vector<HostSocket>> FindHostSockets(std::uint8_t protocol,
                                                std::uint16_t first,
                                                std::uint16_t last) {
  const UniqueFd netlink(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.valid()) {
    return ErrnoError(errno, "socket", kObject);
  }
  std::vector<HostSocket> sockets;
  for (const std::uint8_t family :
       std::array<std::uint8_t, 2>{AF_INET, AF_INET6}) {
    MOUNTD_TRY(Dump(netlink.get(), DumpRequest(family, protocol, first, last),
                    &sockets));
  }
  return sockets;
}

}  // namespace mountd::netns
