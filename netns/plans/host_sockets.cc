// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/host_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "mountd/base/number.h"
#include "netns/events/attributes.h"

namespace mountd::netns {
namespace {

using Sockets = std::vector<HostSocket>;
using EachSocket = std::function<void(const HostSocket&)>;

constexpr char kObject[] = "sockets of the host";
// Each thread has a network namespace of its own (setns(2)), so not "self".
constexpr char kTables[] = "/proc/thread-self/net";
constexpr std::size_t kMaxTableBytes = std::size_t{16} << 20U;

// Returns the state of a receiving socket. A UDP socket has only TCP_CLOSE
// before it is connected.
unsigned HearingState(std::uint8_t protocol) {
  return protocol == IPPROTO_UDP ? TCP_CLOSE : TCP_LISTEN;
}

// Returns a filter for the kernel (inet_diag_bc_sk), because a host may have
// thousands of other sockets. Each comparison takes two slots; the second holds
// the port. A jump beyond the end means no match.
using PortFilter = std::array<inet_diag_bc_op, 4>;

PortFilter FilterOf(std::uint16_t first, std::uint16_t last) {
  return {{{INET_DIAG_BC_S_GE, 8, 20},
           {0, 0, first},
           {INET_DIAG_BC_S_LE, 8, 12},
           {0, 0, last}}};
}

// Returns the address of a socket: an IPv4 address, also for an IPv6 address
// that maps one, or an IPv6 address. An unspecified IPv6 address counts for any
// family unless `ipv6_alone`, because such a socket receives IPv4, too.
HostIp AddressOf(bool ipv6, const Ipv6& bytes, bool ipv6_alone) {
  constexpr Ipv6 kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::size_t kPrefix = 12;
  const bool mapped =
      ipv6 &&
      std::equal(kMapped.begin(), kMapped.begin() + kPrefix, bytes.begin());
  HostIp address;
  if (!ipv6 || mapped) {
    address.family = HostIp::Family::kIpv4;
    std::copy_n(bytes.begin() + (mapped ? kPrefix : 0), sizeof(Ipv4),
                address.bytes.begin());
    return address;
  }
  address.bytes = bytes;
  if (!IsNone(bytes) || ipv6_alone) {
    address.family = HostIp::Family::kIpv6;
  }
  return address;
}

// ---- sock_diag(7) -----------------------------------------------------------

Message DumpRequest(std::uint8_t family, std::uint8_t protocol,
                    std::uint16_t first, std::uint16_t last) {
  inet_diag_req_v2 query = {};
  query.sdiag_family = family;
  query.sdiag_protocol = protocol;
  query.idiag_states = 1U << HearingState(protocol);
  Message message(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, query);
  message.Put(INET_DIAG_REQ_BYTECODE, FilterOf(first, last));
  return message;
}

// Fails if a socket may be missing.
Result<void> StreamDump(Channel* diag, const Message& dump,
                        const EachSocket& each) {
  int failed = 0;
  MOUNTD_TRY(diag->Stream(
      dump, "SOCK_DIAG_BY_FAMILY", kObject, [&](const Answer& answer) {
        if (answer.is_interrupted) {
          failed = EAGAIN;
        }
        if (answer.type != SOCK_DIAG_BY_FAMILY) {
          return;
        }
        if (const auto socket = HostSocketOf(answer.payload)) {
          each(*socket);
        } else {
          failed = EBADMSG;
        }
      }));
  return failed == 0
             ? Ok()
             : Result<void>(ErrnoError(failed, "SOCK_DIAG_BY_FAMILY", kObject));
}

Result<void> StreamDumps(exec::Kernel& kernel, std::optional<Channel>* diag,
                         std::uint8_t protocol, std::uint16_t first,
                         std::uint16_t last, const EachSocket& each) {
  if (!*diag) {
    MOUNTD_ASSIGN(*diag, Channel::Open(kernel, NETLINK_SOCK_DIAG));
  }
  for (const std::uint8_t family :
       std::array<std::uint8_t, 2>{AF_INET, AF_INET6}) {
    const Result<void> streamed =
        StreamDump(&**diag, DumpRequest(family, protocol, first, last), each);
    if (!streamed) {
      // The socket may still contain the rest of the dump, so the next plan
      // gets another socket.
      diag->reset();
      if (Result<Channel> another = Channel::Open(kernel, NETLINK_SOCK_DIAG)) {
        *diag = std::move(*another);
      }
      return streamed;
    }
  }
  return Ok();
}

// ---- /proc/net --------------------------------------------------------------

Error BadTable() {
  return ErrnoError(EBADMSG, "read", kTables, "a line has an unknown format");
}

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      return words;
    }
    line.remove_prefix(begin);
    const std::size_t size = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, size));
    line.remove_prefix(size);
  }
}

template <typename T>
bool ReadAll(std::string_view text, int base, T* value) {
  const std::optional<T> number = ParseNumber<T>(text, base);
  *value = number.value_or(T{});
  return number.has_value();
}

// Reads an address such as "0100007F:1F90": words of 32 bits in the machine's
// order, which hold bytes in network order.
bool ReadAddress(std::string_view text, HostSocket* socket) {
  constexpr std::size_t kDigits = 8;
  const std::size_t colon = text.find(':');
  if (colon != kDigits && colon != 4 * kDigits) {
    return false;
  }
  Ipv6 bytes{};
  for (std::size_t i = 0; i < colon / kDigits; ++i) {
    std::uint32_t word = 0;
    if (!ReadAll(text.substr(i * kDigits, kDigits), 16, &word)) {
      return false;
    }
    std::memcpy(&bytes.at(i * sizeof(word)), &word, sizeof(word));
  }
  socket->address = AddressOf(colon != kDigits, bytes, false);
  return ReadAll(text.substr(colon + 1), 16, &socket->port);
}

// Calls `each` with the words of each line after the headline.
template <typename Each>
Result<Sockets> ReadTable(std::string_view table, const Each& each) {
  Sockets sockets;
  table.remove_prefix(std::min(table.find('\n'), table.size()));
  while (table.size() > 1) {
    table.remove_prefix(1);  // the previous line's end
    const std::size_t end = std::min(table.find('\n'), table.size());
    if (!each(WordsOf(table.substr(0, end)), &sockets)) {
      return BadTable();
    }
    table.remove_prefix(end);
  }
  return sockets;
}

// Returns an empty text if the table does not exist: without IPv6 or SCTP
// nobody listens there.
Result<std::string> ReadTableFile(exec::Kernel& kernel, int dir,
                                  const std::string& name) {
  exec::Sys<std::string> text = kernel.ReadFile(dir, name, kMaxTableBytes);
  if (exec::FailedWith(text, ENOENT) && name != "tcp" && name != "udp") {
    return std::string();
  }
  return exec::Named(std::move(text), "read",
                     std::string(kTables) + "/" + name);
}

Result<Sockets> ReadTables(exec::Kernel& kernel, std::uint8_t protocol) {
  MOUNTD_ASSIGN(const UniqueFd dir,
                exec::Named(kernel.Open(exec::kFromRoot, kTables,
                                        O_PATH | O_DIRECTORY | O_CLOEXEC, 0),
                            "openat2", kTables));
  if (protocol == IPPROTO_SCTP) {
    MOUNTD_ASSIGN(const std::string table,
                  ReadTableFile(kernel, dir.get(), "sctp/eps"));
    return HostSocketsOfEndpoints(table);
  }
  const std::string name = protocol == IPPROTO_UDP ? "udp" : "tcp";
  Sockets all;
  for (const std::string& each : {name, name + "6"}) {
    MOUNTD_ASSIGN(const std::string table,
                  ReadTableFile(kernel, dir.get(), each));
    MOUNTD_ASSIGN(const Sockets sockets,
                  HostSocketsOfTable(table, HearingState(protocol)));
    all.insert(all.end(), sockets.begin(), sockets.end());
  }
  return all;
}

}  // namespace

std::optional<HostSocket> HostSocketOf(std::span<const std::byte> payload) {
  const auto told = HeaderOf<inet_diag_msg>(payload);
  if (!told) {
    return std::nullopt;
  }
  Ipv6 bytes{};
  std::memcpy(bytes.data(), told->id.idiag_src, sizeof(bytes));
  // The kernel reports this for each socket that listens or is not connected.
  const bool ipv6_alone = AttributesAfter<inet_diag_msg>(payload)
                              .Value<std::uint8_t>(INET_DIAG_SKV6ONLY)
                              .value_or(0) != 0;
  HostSocket socket;
  socket.port = ntohs(told->id.idiag_sport);
  socket.address = AddressOf(told->idiag_family != AF_INET, bytes, ipv6_alone);
  socket.uid = told->idiag_uid;
  socket.inode = told->idiag_inode;
  return socket;
}

Result<Sockets> HostSocketsOfTable(std::string_view table, unsigned state) {
  // The columns: sl, local_address, rem_address, st, queues, timer, retrnsmt,
  // uid, timeout, inode (proc_pid_net(5)).
  constexpr std::size_t kAddress = 1;
  constexpr std::size_t kState = 3;
  constexpr std::size_t kUid = 7;
  constexpr std::size_t kInode = 9;
  return ReadTable(table, [&](const auto& words, Sockets* sockets) {
    HostSocket socket;
    unsigned now = 0;
    if (words.size() <= kInode || !ReadAddress(words[kAddress], &socket) ||
        !ReadAll(words[kState], 16, &now) ||
        !ReadAll(words[kUid], 10, &socket.uid) ||
        !ReadAll(words[kInode], 10, &socket.inode)) {
      return false;
    }
    if (now == state) {
      sockets->push_back(socket);
    }
    return true;
  });
}

Result<Sockets> HostSocketsOfEndpoints(std::string_view table) {
  // The columns: ENDPT, SOCK, STY, SST, HBKT, LPORT, UID, INODE, LADDRS
  // (net/sctp/proc.c).
  constexpr std::size_t kState = 3;
  constexpr std::size_t kPort = 5;
  constexpr std::size_t kUid = 6;
  constexpr std::size_t kInode = 7;
  return ReadTable(table, [&](const auto& words, Sockets* sockets) {
    HostSocket socket;
    unsigned now = 0;
    if (words.size() <= kInode || !ReadAll(words[kState], 10, &now) ||
        !ReadAll(words[kPort], 10, &socket.port) ||
        !ReadAll(words[kUid], 10, &socket.uid) ||
        !ReadAll(words[kInode], 10, &socket.inode)) {
      return false;
    }
    if (now == TCP_LISTEN) {
      sockets->push_back(socket);
    }
    return true;
  });
}

Result<void> FindHostSockets(exec::Kernel& kernel, std::optional<Channel>* diag,
                             std::uint8_t protocol, std::uint16_t first,
                             std::uint16_t last, const EachSocket& each) {
  if (protocol != IPPROTO_SCTP &&
      StreamDumps(kernel, diag, protocol, first, last, each)) {
    return Ok();
  }
  const Result<Sockets> all = ReadTables(kernel, protocol);
  if (!all) {
    Error error =
        MakeError(Code::kFailedPrecondition, "look for", kObject,
                  "the kernel does not list their ports; load the modules "
                  "tcp_diag and udp_diag, or let mountd-exec read /proc/net");
    error.sys_errno = all.error().sys_errno;
    return error;
  }
  for (const HostSocket& socket : *all) {
    if (first <= socket.port && socket.port <= last) {
      each(socket);
    }
  }
  return Ok();
}

}  // namespace mountd::netns
