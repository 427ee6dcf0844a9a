// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/raw_netlink.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mountd::bench {
namespace {

constexpr int kPatienceMs = 30'000;

using Buffer = std::array<std::byte, std::size_t{64} << 10U>;

// Returns the header at the beginning of `bytes`, where the kernel has aligned
// it.
template <typename Head>
Head HeadOf(std::span<const std::byte> bytes) {
  Head head{};
  std::memcpy(&head, bytes.data(), std::min(bytes.size(), sizeof(head)));
  return head;
}

std::span<const std::byte> After(std::span<const std::byte> bytes,
                                 std::size_t size) {
  return bytes.subspan(std::min(bytes.size(), NLMSG_ALIGN(size)));
}

// Calls `see` with the header and the payload of each message that one recv
// returns.
template <typename F>
Result<void> ForEachReceived(const UniqueFd& socket, const F& see) {
  static thread_local Buffer buffer;
  const ssize_t size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  if (size < 0) {
    return ErrnoError(errno, "recv", "netlink");
  }
  auto left =
      std::span<const std::byte>(buffer).first(static_cast<std::size_t>(size));
  while (left.size() >= sizeof(nlmsghdr)) {
    const auto header = HeadOf<nlmsghdr>(left);
    const auto message =
        left.first(std::min<std::size_t>(left.size(), header.nlmsg_len));
    see(header, After(message, sizeof(header)));
    left = After(left, std::max<std::size_t>(header.nlmsg_len, sizeof(header)));
  }
  return Ok();
}

std::string NameOfLink(std::span<const std::byte> payload) {
  auto left = After(payload, sizeof(ifinfomsg));
  while (left.size() >= sizeof(nlattr)) {
    const auto head = HeadOf<nlattr>(left);
    if (head.nla_type == IFLA_IFNAME) {
      const auto value = After(left, sizeof(head));
      return reinterpret_cast<const char*>(value.data());
    }
    left = After(left, std::max<std::size_t>(head.nla_len, sizeof(head)));
  }
  return "";
}

}  // namespace

nlmsghdr* Requests::message() {
  return reinterpret_cast<nlmsghdr*>(&bytes_[message_]);
}

void Requests::Start(int type, int flags) {
  message_ = bytes_.size();
  nlmsghdr header = {};
  header.nlmsg_len = sizeof(header);
  header.nlmsg_type = static_cast<std::uint16_t>(type);
  header.nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST);
  header.nlmsg_seq = ++sequence_;
  if ((flags & NLM_F_ACK) != 0) {
    acknowledged_ = sequence_;
  }
  const auto* data = reinterpret_cast<const std::byte*>(&header);
  bytes_.insert(bytes_.end(), data, data + sizeof(header));
}

Requests& Requests::Append(const void* bytes, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(bytes);
  bytes_.insert(bytes_.end(), data, data + size);
  bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  message()->nlmsg_len = static_cast<std::uint32_t>(bytes_.size() - message_);
  return *this;
}

Requests& Requests::PutBytes(int attribute, const void* bytes,
                             std::size_t size) {
  const nlattr header = {static_cast<std::uint16_t>(sizeof(nlattr) + size),
                         static_cast<std::uint16_t>(attribute)};
  Raw(header);
  return Append(bytes, size);
}

Requests& Requests::PutText(int attribute, const std::string& text) {
  return PutBytes(attribute, text.c_str(), text.size() + 1);
}

Requests& Requests::Begin(int attribute) {
  nests_.push_back(bytes_.size());
  // The length is 0 until End.
  return Raw(nlattr{0, static_cast<std::uint16_t>(attribute | NLA_F_NESTED)});
}

Requests& Requests::End() {
  auto* nest = reinterpret_cast<nlattr*>(&bytes_[nests_.back()]);
  nest->nla_len = static_cast<std::uint16_t>(bytes_.size() - nests_.back());
  nests_.pop_back();
  return *this;
}

Result<UniqueFd> OpenNetlink(int protocol) {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!socket.valid()) {
    return ErrnoError(errno, "socket", "netlink");
  }
  return socket;
}

Result<void> Exchange(const UniqueFd& socket, const Requests& requests,
                      const char* op) {
  const auto bytes = requests.bytes();
  if (::send(socket.get(), bytes.data(), bytes.size(), 0) < 0) {
    return ErrnoError(errno, "send", op);
  }
  int failed = 0;
  bool done = false;
  while (!done) {
    MOUNTD_TRY(ForEachReceived(
        socket, [&](const nlmsghdr& header, std::span<const std::byte> rest) {
          if (header.nlmsg_type != NLMSG_ERROR) {
            return;
          }
          // The kernel reports each error, but success only for a request with
          // NLM_F_ACK (netlink(7)).
          const int error = -HeadOf<nlmsgerr>(rest).error;
          failed = failed == 0 ? error : failed;
          done = done || error != 0 ||
                 header.nlmsg_seq == requests.last_acknowledged();
        }));
  }
  return failed == 0 ? Ok() : Result<void>(ErrnoError(failed, op, "netlink"));
}

Result<void> RaiseLoopback(const UniqueFd& socket) {
  ifinfomsg link = {};
  link.ifi_index = 1;
  link.ifi_flags = IFF_UP;
  link.ifi_change = IFF_UP;
  Requests requests;
  requests.Add(RTM_NEWLINK, NLM_F_ACK, link);
  return Exchange(socket, requests, "set lo up");
}

Result<LinkWatch> LinkWatch::Open() {
  MOUNTD_ASSIGN(UniqueFd socket, OpenNetlink(NETLINK_ROUTE));
  const int room = 16 << 20;  // a burst must not overflow it
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address),
             sizeof(address)) != 0) {
    return ErrnoError(errno, "bind", "netlink");
  }
  return LinkWatch(std::move(socket));
}

void LinkWatch::Forget() {
  static thread_local Buffer ignored;
  // Ignores ENOBUFS, too, because it is about the past; the next message is
  // about the present.
  while (::recv(socket_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) >=
             0 ||
         errno == ENOBUFS) {
  }
  gone_.clear();
}

Result<void> LinkWatch::AwaitGone(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    while (!gone_.contains(name)) {
      if (const Result<void> read = Read(); !read) {
        return MakeError(read.error().code, "await the end of", name,
                         read.error().Message());
      }
    }
  }
  return Ok();
}

Result<void> LinkWatch::Read() {
  pollfd entry = {socket_.get(), POLLIN, 0};
  if (::poll(&entry, 1, kPatienceMs) <= 0) {
    return MakeError(Code::kDeadlineExceeded, "await", "link",
                     "it does not go");
  }
  return ForEachReceived(
      socket_, [this](const nlmsghdr& header, std::span<const std::byte> rest) {
        if (header.nlmsg_type == RTM_DELLINK) {
          gone_.insert(NameOfLink(rest));
        }
      });
}

}  // namespace mountd::bench
