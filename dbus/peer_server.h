// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "dbus/foreign_fds.h"
#include "dbus/peer.h"
#include "mountd/log_budget.h"

namespace mountd::dbus {

struct PeerServerOptions {
  std::chrono::milliseconds handshake{5000};    // from accept to ready
  std::chrono::milliseconds stall_check{1000};  // between two looks
  std::chrono::milliseconds message{5000};  // from its first byte to its last
  std::size_t max_peers = 1024;             // of all users together
};

// The peer-to-peer D-Bus socket: accepts, counts peers per uid and in all, and
// drops those that do not finish the handshake or a message in time, or do not
// read their answers. None of them can hold up another: nothing here waits for
// a peer. A user with too many fds that nobody can close is not connected.
//
// Lives on the loop's thread.
class PeerServer {
 public:
  PeerServer(EventLoop& loop, const ApiParts& parts, ForeignFds& foreign,
             const LimitsConfig& limits, const PeerServerOptions& options = {})
      : loop_(loop),
        parts_(parts),
        foreign_(foreign),
        limits_(limits),
        options_(options) {}
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  // Takes a listening socket and begins to accept.
  Result<void> Listen(UniqueFd listening);

  // Drops all peers and accepts no more.
  void Close();

  void Send(const Event& event);
  std::size_t peer_count() const { return peers_.size(); }

 private:
  void Accept();
  void AcceptOne(ForeignFds::Accepted accepted);
  bool Admits(const Caller& caller, std::size_t pending);
  void Refuse(ForeignFds::Accepted accepted);
  // Whether a line about a peer of the user's that was not served may be
  // logged.
  bool MayLog(std::uint32_t uid);
  void DropLater(std::uint64_t serial);
  void LookAtPeers();
  std::uint64_t QueuedOf(uid_t uid) const;

  EventLoop& loop_;
  const ApiParts& parts_;
  ForeignFds& foreign_;
  const LimitsConfig& limits_;
  const PeerServerOptions options_;
  UniqueFd listening_;
  std::unique_ptr<EventLoop::Source> source_;
  std::uint64_t last_serial_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Peer>> peers_;
  LogBudget refusals_{{.burst = 20, .per_second = 1, .users = 20}};
};

}  // namespace mountd::dbus
