// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

// Builds netlink requests for one sendto, one after the other. Builds them by
// hand, because the floor is to have nothing around the messages.
class Requests {
 public:
  // Adds NLM_F_REQUEST to `flags`. To wait for an answer, set NLM_F_ACK in the
  // last message before a batch's end.
  template <typename Header>
  Requests& Add(int type, int flags, const Header& header) {
    Start(type, flags);
    return Raw(header);
  }
  template <typename T>
  Requests& Raw(const T& value) {
    return Append(&value, sizeof(value));
  }
  template <typename T>
  Requests& Put(int attribute, const T& value) {
    return PutBytes(attribute, &value, sizeof(value));
  }
  Requests& PutBytes(int attribute, const void* bytes, std::size_t size);
  Requests& PutText(int attribute, const std::string& text);  // with its NUL
  Requests& Begin(int attribute);  // a nested attribute
  Requests& End();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint32_t last_acknowledged() const { return acknowledged_; }

 private:
  void Start(int type, int flags);
  Requests& Append(const void* bytes, std::size_t size);
  nlmsghdr* message();

  std::vector<std::byte> bytes_;
  std::vector<std::size_t> nests_;
  std::size_t message_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint32_t acknowledged_ = 0;
};

// Opens a socket of the calling thread's namespace.
Result<UniqueFd> OpenNetlink(int protocol);

// Does one sendto, and receives until the acknowledgement. Fails on any error.
Result<void> Exchange(const UniqueFd& socket, const Requests& requests,
                      const char* op);

// Sets lo up in the socket's namespace.
Result<void> RaiseLoopback(const UniqueFd& socket);

// Watches links of the calling thread's namespace go.
class LinkWatch {
 public:
  static Result<LinkWatch> Open();
  // Drops all notifications so far. Call before links are removed, because the
  // kernel also reports links that are made, and the buffer would overflow.
  void Forget();
  // Returns when RTM_DELLINK has come for all of these links. A link has no
  // address, route or neighbour any more by then.
  Result<void> AwaitGone(const std::set<std::string>& names);

 private:
  explicit LinkWatch(UniqueFd socket) : socket_(std::move(socket)) {}
  Result<void> Read();

  UniqueFd socket_;
  std::set<std::string> gone_;
};

}  // namespace mountd::bench
