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

// Netlink requests, one after the other as one sendto takes them. Built by
// hand, as the floor is to have nothing around the messages.
class Requests {
 public:
  // NLM_F_REQUEST is added. Whoever waits for an answer has NLM_F_ACK in the
  // last but for a batch's end.
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
  Requests& Begin(int attribute);                             // a nested one
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

// Of the namespace that the calling thread is in.
Result<UniqueFd> OpenNetlink(int protocol);

// One sendto, and what it takes until the acknowledgement. Any error fails.
Result<void> Exchange(const UniqueFd& socket, const Requests& requests,
                      const char* op);

// Sets lo up, in the socket's namespace.
Result<void> RaiseLoopback(const UniqueFd& socket);

// Sees links go, of the namespace that the calling thread is in.
class LinkWatch {
 public:
  static Result<LinkWatch> Open();
  // What happened until now. To be called before links are sent away, as what
  // is made meanwhile is told too and would not fit.
  void Forget();
  // Returns when all of these are gone, as RTM_DELLINK says: by then a link has
  // no address, route or neighbour any more.
  Result<void> AwaitGone(const std::set<std::string>& names);

 private:
  explicit LinkWatch(UniqueFd socket) : socket_(std::move(socket)) {}
  Result<void> Read();

  UniqueFd socket_;
  std::set<std::string> gone_;
};

}  // namespace mountd::bench
