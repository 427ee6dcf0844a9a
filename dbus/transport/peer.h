// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include <functional>
#include <memory>

#include "dbus/methods/event.h"
#include "dbus/methods/manager_adaptor.h"
#include "dbus/methods/plugin_object.h"
#include "dbus/receive/event_loop.h"
#include "dbus/receive/foreign_fds.h"
#include "dbus/receive/inbound.h"
#include "mountd/base/caller.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {

// Returns the caller at the other end of a connected unix socket, from
// SO_PEERCRED and SO_PEERGROUPS. The kernel noted both when the peer connected.
Result<Caller> PeerCaller(int socket);

// One client on the peer-to-peer socket.
//
//   accepted --handshake (own io source, under a deadline)--> ready
//      |                                                        |
//      +--- too slow, hung up, broken ---> dropped <--- hung up-+
//
// Runs on the loop's thread. Asks through `on_drop` to be dropped. `on_drop`
// must not destroy the Peer at once, because sd-bus is still in a callback.
class Peer final : public CallerSource {
 public:
  using OnDrop = std::function<void()>;
  // Returns how many answers wait to be sent on all connections of one user.
  using QueuedOf = std::function<std::uint64_t(uid_t)>;

  // Starts the handshake. `on_drop` may be called before this returns.
  Peer(EventLoop& loop, const ApiParts& parts, ForeignFds& foreign,
       ForeignFds::Accepted accepted, Caller caller, QueuedOf queued_of,
       OnDrop on_drop);
  ~Peer() override;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const Caller& caller() const { return caller_; }
  bool ready() const { return connection_ != nullptr; }
  // True if the peer does not read its answers, so that they pile up here: its
  // own, or those of all connections of its user together.
  bool stalled() const;
  std::uint64_t queued() const;
  // Inbound::why_ended.
  const std::string& why_ended() const { return inbound_.why_ended(); }
  // Inbound::LookAtUnfinished.
  int LookAtUnfinished() { return inbound_.LookAtUnfinished(); }
  // Inbound::LookAtLost.
  bool LookAtLost() { return inbound_.LookAtLost(); }
  // Logs the last call if sd-bus has refused it, because mountd has no such
  // method, or the arguments are malformed or of other types.
  void AuditUnserved();
  // Counts the reason and asks to be dropped. Does nothing after the first
  // call.
  void DropFor(PeerDrop why);
  void Send(const Event& event);
  // Returns whether the peer gets the signals that it may see. False from the
  // end of its connection on, although the Peer lives until mountd drops it.
  bool IsSubscribed() const;
  // Returns whether the peer also has no signal or answer left to take.
  bool IsReading() const;

  Result<Caller> CallerOf(const sdbus::Message& message) override;
  Result<Caller> CallerOfSender(const char* sender) override;
  Result<void> Subscribe(const sdbus::Message& message) override;
  void Unsubscribe(const sdbus::Message& message) override;

 private:
  void Start();
  void Step();
  void Promote();
  void ServeBuffered(int most);
  int AddDriverShim();
  static int OnMessage(sd_bus_message* message, void* userdata,
                       sd_bus_error* error);
  void Drop();

  EventLoop& loop_;
  const ApiParts& parts_;
  const Caller caller_;
  const QueuedOf queued_of_;
  const OnDrop on_drop_;
  Inbound inbound_;        // dies after the socket is closed
  sd_bus* bus_ = nullptr;  // owned until promoted, then by connection_
  std::unique_ptr<EventLoop::Source> handshake_;
  sd_bus_slot* driver_ = nullptr;
  sd_bus_slot* filter_ = nullptr;
  sd_bus_slot* disconnected_ = nullptr;
  std::shared_ptr<sdbus::IConnection> connection_;
  std::unique_ptr<ManagerAdaptor> manager_;
  PluginObjects plugins_;
  bool subscribed_ = false;
  std::string unserved_;     // the Manager's method that was called last, until
                             // its code asks for the caller
  bool is_counted_ = false;  // among dropped peers
  // Posted closures check through a weak_ptr to this whether the Peer still
  // lives.
  const std::shared_ptr<const bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mountd::dbus
