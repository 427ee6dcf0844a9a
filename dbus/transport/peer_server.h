// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "dbus/receive/foreign_fds.h"
#include "dbus/transport/peer.h"
#include "mountd/base/log_budget.h"

namespace mountd::dbus {

struct PeerServerOptions {
  std::chrono::milliseconds handshake{5000};    // from accept to ready
  std::chrono::milliseconds stall_check{1000};  // between two looks
  std::chrono::milliseconds message{5000};  // from its first byte to its last
  std::size_t max_peers = 1024;             // of all users together
};

// Owns the peer-to-peer D-Bus socket and its peers. Accepts connections, and
// counts peers per uid and in all. Drops a peer that does not finish the
// handshake or a message in time, or does not read its answers. Refuses a user
// with too many fds that nobody can close. Never waits for a peer, so no peer
// can delay another.
//
// Runs on the loop's thread.
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

  // Takes a listening socket and starts to accept.
  Result<void> Listen(UniqueFd listening);

  // Drops all peers and accepts no more.
  void Close();

  void Send(const Event& event);
  // Returns whether a peer of this user is subscribed.
  bool HasSubscriber(std::uint32_t uid) const;
  // Returns whether a subscribed peer of this user has taken all that was sent
  // to it.
  bool HasReader(std::uint32_t uid) const;
  std::size_t peer_count() const { return peers_.size(); }

 private:
  void Accept();
  void AcceptOne(ForeignFds::Accepted accepted);
  bool Admits(const Caller& caller, std::size_t pending);
  void Refuse(ForeignFds::Accepted accepted);
  // True if the log budget has room for a line about a refused or dropped peer
  // of this user.
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
