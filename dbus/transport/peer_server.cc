// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/transport/peer_server.h"

#include <fcntl.h>
#include <sdbus-c++/Types.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "dbus/methods/audit.h"

namespace mountd::dbus {
namespace {

constexpr std::chrono::milliseconds kNoFdsPause{100};
// Bounds one user's fds that wait to be closed. Each of them is stuck, or waits
// behind fds that are stuck, because any other close(2) takes microseconds.
constexpr std::size_t kMostPending = 64;
constexpr std::uint32_t kNobody = UINT32_MAX;

}  // namespace

void PeerServer::Close() {
  // Destroys the source first, because the source watches the socket's
  // descriptor.
  source_.reset();
  listening_.reset();
  peers_.clear();
}

Result<void> PeerServer::Listen(UniqueFd listening) {
  // sdbus-c++ keeps one connection for its variants. This variant makes
  // sdbus-c++ open that connection now, so that each connection opened later is
  // a peer's.
  const sdbus::Variant unused;
  // systemd may pass a blocking socket, and accept(2) would then hang where
  // this loop expects EAGAIN.
  const int flags = fcntl(listening.get(), F_GETFL);
  if (flags < 0 || fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return ErrnoError(errno, "fcntl", "peer socket");
  }
  listening_ = std::move(listening);
  source_ = loop_.WatchFd(listening_.get(), EPOLLIN,
                          [this](std::uint32_t) { Accept(); });
  if (source_ == nullptr) {
    return MakeError(Code::kInternal, "watch", "peer socket");
  }
  foreign_.Listen(listening_.get());
  loop_.After(options_.stall_check, [this] { LookAtPeers(); });
  return Ok();
}

// Accepts one connection in a turn of the loop, because a client that connects
// very fast would otherwise keep the loop from serving others.
void PeerServer::Accept() {
  Result<ForeignFds::Accepted, int> accepted = foreign_.Accept();
  if (accepted) {
    AcceptOne(*std::move(accepted));
    return;
  }
  // EMFILE, ENFILE and ENOMEM may last, and ENOTCONN lasts until there is a
  // mountd-closer.
  const int error = accepted.error();
  if (error == EMFILE || error == ENFILE || error == ENOMEM ||
      error == ENOTCONN) {
    // The source is level-triggered, so without a pause this would be a busy
    // loop.
    if (MayLog(kNobody)) {
      spdlog::warn("mountd cannot accept a connection on its socket: {}",
                   strerrorname_np(error));
    }
    source_->SetEvents(0);
    loop_.After(kNoFdsPause, [this] {
      if (source_ != nullptr) {
        source_->SetEvents(EPOLLIN);
      }
    });
  }
}

bool PeerServer::MayLog(std::uint32_t uid) {
  const LogBudget::Verdict verdict =
      refusals_.Take(uid, LogBudget::Clock::now());
  if (verdict == LogBudget::Verdict::kLeaveOut) {
    return false;
  }
  if (const std::uint64_t left_out = refusals_.TakeLeftOut(uid)) {
    spdlog::warn("uid {}: mountd left out {} lines of peers refused or dropped",
                 uid, left_out);
  }
  if (verdict == LogBudget::Verdict::kLogLast) {
    spdlog::warn(
        "uid {}: too many peers refused or dropped; mountd leaves out some of "
        "their lines from now on",
        uid);
  }
  return true;
}

bool PeerServer::Admits(const Caller& caller, std::size_t pending) {
  if (pending > kMostPending) {
    AuditRefused(parts_, caller,
                 "its user has " + std::to_string(pending) +
                     " file descriptors that mountd cannot close");
    return false;
  }
  if (peers_.size() >= options_.max_peers) {
    AuditRefused(parts_, caller,
                 "mountd has " + std::to_string(peers_.size()) +
                     " connections, which is its limit");
    return false;
  }
  const auto same_uid =
      std::count_if(peers_.begin(), peers_.end(), [&](const auto& entry) {
        return entry.second->caller().uid == caller.uid;
      });
  if (same_uid >= limits_.peers_per_uid) {
    AuditRefused(parts_, caller,
                 "its user has " + std::to_string(same_uid) +
                     " connections (limits.peers_per_uid)");
    return false;
  }
  return true;
}

// Gives the socket to mountd-closer, which closes it and the fds that came
// through it after mountd has closed them.
void PeerServer::Refuse(ForeignFds::Accepted accepted) {
  parts_.drops.Count(PeerDrop::kRefused);
  foreign_.Close(accepted.id, std::move(accepted.socket));
}

void PeerServer::AcceptOne(ForeignFds::Accepted accepted) {
  Result<Caller> caller = PeerCaller(accepted.socket.get());
  if (!caller) {
    if (MayLog(kNobody)) {
      spdlog::warn("peer refused: {}", caller.error().Message());
    }
    Refuse(std::move(accepted));
    return;
  }
  if (!Admits(*caller, accepted.pending)) {
    Refuse(std::move(accepted));
    return;
  }
  // The peer may send fds from here on, because mountd serves it.
  ForeignFds::Admit(accepted.socket.get());
  const std::uint64_t serial = ++last_serial_;
  const auto peer = std::make_shared<Peer>(
      loop_, parts_, foreign_, std::move(accepted), std::move(*caller),
      [this](uid_t uid) { return QueuedOf(uid); },
      [this, serial] { DropLater(serial); });
  peers_.emplace(serial, peer);
  loop_.After(options_.handshake, [this, serial] {
    const auto found = peers_.find(serial);
    if (found != peers_.end() && !found->second->ready()) {
      if (MayLog(found->second->caller().uid)) {
        spdlog::info(
            "peer of uid {} dropped: it did not finish its handshake in time",
            found->second->caller().uid);
      }
      parts_.drops.Count(PeerDrop::kHandshake);
      peers_.erase(found);
    }
  });
}

std::uint64_t PeerServer::QueuedOf(uid_t uid) const {
  std::uint64_t all = 0;
  for (const auto& [serial, held] : peers_) {
    all += held->caller().uid == uid ? held->queued() : 0;
  }
  return all;
}

// Posts the drop, because the peer may be in the middle of a callback of its
// own.
void PeerServer::DropLater(std::uint64_t serial) {
  loop_.Post([this, serial] {
    const auto dropped = peers_.extract(serial);
    if (!dropped.empty() && !dropped.mapped()->why_ended().empty() &&
        MayLog(dropped.mapped()->caller().uid)) {
      spdlog::warn(
          "peer of uid {}, pid {}, dropped: {}", dropped.mapped()->caller().uid,
          dropped.mapped()->caller().pid, dropped.mapped()->why_ended());
    }
  });
}

void PeerServer::LookAtPeers() {
  for (const auto& [serial, held] : peers_) {
    held->AuditUnserved();
    if (held->stalled()) {
      if (MayLog(held->caller().uid)) {
        spdlog::warn("peer of uid {} dropped: it does not read its answers",
                     held->caller().uid);
      }
      held->DropFor(PeerDrop::kUnread);
    } else if (held->LookAtUnfinished() >=
               options_.message / options_.stall_check) {
      if (MayLog(held->caller().uid)) {
        spdlog::warn("peer of uid {} dropped: it does not finish its message",
                     held->caller().uid);
      }
      held->DropFor(PeerDrop::kUnfinished);
    } else if (held->LookAtLost()) {
      if (MayLog(held->caller().uid)) {
        spdlog::warn("peer of uid {} dropped: it sent a malformed message",
                     held->caller().uid);
      }
      held->DropFor(PeerDrop::kMalformed);
    }
  }
  loop_.After(options_.stall_check, [this] { LookAtPeers(); });
}

void PeerServer::Send(const Event& event) {
  for (const auto& [serial, held] : peers_) {
    held->Send(event);
  }
}

bool PeerServer::HasSubscriber(std::uint32_t uid) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& one) {
    return one.second->IsSubscribed() && one.second->caller().uid == uid;
  });
}

bool PeerServer::HasReader(std::uint32_t uid) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& one) {
    return one.second->IsReading() && one.second->caller().uid == uid;
  });
}

}  // namespace mountd::dbus
