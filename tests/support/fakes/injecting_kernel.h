// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <linux/netlink.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/calls_of_child.h"
#include "tests/support/fakes/injecting_mounts.h"

namespace mountd::exec {

// Passes every call on to another kernel and records its name. Fails the k-th
// call, or all from the k-th on, with an errno and without making it. With
// `steps` it records nothing, and each call is a step of `steps`.
class InjectingKernel final : public InjectingMounts {
 public:
  explicit InjectingKernel(Kernel& kernel, Steps* steps = nullptr)
      : InjectingMounts(kernel, steps) {}

  // Records and fails the child's calls as if they were this process's.
  Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                             std::span<const int> kept,
                             std::chrono::milliseconds limit) override {
    return Pass<std::uint8_t>("RunChild", [&] {
      CallsOfChild made;
      const std::size_t before = calls_.size();
      const Sys<std::uint8_t> status = kernel_.RunChild(
          [&] {
            const int result = body();
            made.Write(std::span(calls_).subspan(before));
            return result;
          },
          kept, limit);
      for (std::string& call : made.Read()) {
        calls_.push_back(std::move(call));
      }
      return status;
    });
  }
  Sys<bool> HasEnded(int pidfd) override {
    return Pass<bool>("HasEnded", [&] { return kernel_.HasEnded(pidfd); });
  }
  Sys<UniqueFd> NewUserNamespace(const std::string& uid_map,
                                 const std::string& gid_map) override {
    return Pass<UniqueFd>("NewUserNamespace", [&] {
      return kernel_.NewUserNamespace(uid_map, gid_map);
    });
  }
  Sys<std::uint64_t> OwnerOf(int name_space) override {
    return Pass<std::uint64_t>("OwnerOf",
                               [&] { return kernel_.OwnerOf(name_space); });
  }
  Sys<uid_t> OwnerUidOf(int name_space) override {
    return Pass<uid_t>("OwnerUidOf",
                       [&] { return kernel_.OwnerUidOf(name_space); });
  }
  Sys<std::uint64_t> NamespaceTypeOf(int name_space) override {
    return Pass<std::uint64_t>(
        "NamespaceTypeOf", [&] { return kernel_.NamespaceTypeOf(name_space); });
  }

  Sys<UniqueFd> ConnectUnix(int file) override {
    return Pass<UniqueFd>("ConnectUnix",
                          [&] { return kernel_.ConnectUnix(file); });
  }
  Sys<ucred> PeerOf(int socket) override {
    return Pass<ucred>("PeerOf", [&] { return kernel_.PeerOf(socket); });
  }
  Sys<UniqueFd> PeerProcess(int socket) override {
    return Pass<UniqueFd>("PeerProcess",
                          [&] { return kernel_.PeerProcess(socket); });
  }

  Sys<NetNamespace> NewNetNamespace() override {
    return Pass<NetNamespace>("NewNetNamespace",
                              [&] { return kernel_.NewNetNamespace(); });
  }
  Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) override {
    return Pass<UniqueFd>("OpenNetlinkIn", [&] {
      return kernel_.OpenNetlinkIn(netns, protocol);
    });
  }
  Sys<void> Subscribe(int netlink, unsigned group) override {
    return Pass<void>("Subscribe",
                      [&] { return kernel_.Subscribe(netlink, group); });
  }
  Sys<UniqueFd> OpenNetlink(int protocol) override {
    return Pass<UniqueFd>("OpenNetlink", [&]() -> Sys<UniqueFd> {
      if (hide_socket_diag_ && protocol == NETLINK_SOCK_DIAG) {
        return EPROTONOSUPPORT;
      }
      return kernel_.OpenNetlink(protocol);
    });
  }
  Sys<void> Send(int socket, std::span<const std::byte> bytes) override {
    return Pass<void>("Send", [&] { return kernel_.Send(socket, bytes); });
  }
  Sys<std::size_t> Receive(int socket, std::span<std::byte> into) override {
    return Pass<std::size_t>("Receive",
                             [&] { return kernel_.Receive(socket, into); });
  }
  Sys<void> RunNft(const std::string& commands) override {
    return Pass<void>("RunNft", [&] { return kernel_.RunNft(commands); });
  }
};

}  // namespace mountd::exec
