// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "dbus/peer.h"

namespace mountd::dbus {

// The peer-to-peer D-Bus socket: accepts, counts peers per uid, and drops those
// that do not finish the handshake in 5 s, or do not read their answers. None
// of them can hold up another: nothing here waits for a peer.
//
// Lives on the loop's thread.
class PeerServer {
 public:
  PeerServer(EventLoop& loop, const ApiParts& parts, const LimitsConfig& limits)
      : loop_(loop), parts_(parts), limits_(limits) {}
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
  void AcceptOne(UniqueFd socket);
  void DropLater(std::uint64_t serial);
  void DropStalled();

  EventLoop& loop_;
  const ApiParts& parts_;
  const LimitsConfig& limits_;
  UniqueFd listening_;
  std::unique_ptr<EventLoop::Source> source_;
  std::uint64_t last_serial_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Peer>> peers_;
};

}  // namespace mountd::dbus
