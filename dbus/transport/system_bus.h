// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "dbus/methods/event.h"
#include "dbus/methods/manager_adaptor.h"
#include "dbus/methods/plugin_object.h"
#include "dbus/receive/event_loop.h"
#include "dbus/receive/foreign_fds.h"
#include "dbus/receive/inbound.h"
#include "dbus/transport/log_control.h"
#include "dbus/transport/polkit.h"

namespace mountd::dbus {

// Serves the same Manager and LogControl1 on the system bus, under the name
// org.mountd1. The daemon works without a bus; it tries again until there is a
// bus, and never waits for one.
//
//   (none) --opened--> handshake --Hello answered--> served, name asked for
//     ^                    |                                    |
//     +--after a pause-----+ failed, or too slow   hung up -----+
//
// The bus daemon says which user owns the sending connection. Unique names are
// never used twice, so SystemBus keeps each answer while the sender lives.
//
// Runs on the loop's thread.
class SystemBus final : public CallerSource {
 public:
  // `reconnect` is the pause before SystemBus tries again to reach a bus.
  SystemBus(EventLoop& loop, const ApiParts& parts, ForeignFds& foreign,
            std::chrono::milliseconds reconnect = std::chrono::seconds(5));
  ~SystemBus() override;
  SystemBus(const SystemBus&) = delete;
  SystemBus& operator=(const SystemBus&) = delete;

  void Start();
  void Send(const Event& event);
  bool HasSubscribers() const;
  // Returns whether a connection of this user is subscribed.
  bool HasSubscriber(std::uint32_t uid) const;
  // Returns whether there is such a connection, and the bus has taken all that
  // mountd sent.
  bool HasReader(std::uint32_t uid) const;
  // Gives up the name before the process ends. Dispatches every message sent to
  // the name until then; later messages go to the name's next owner.
  void GiveUpName();

  Result<Caller> CallerOf(const sdbus::Message& message) override;
  Result<Caller> CallerOfSender(const char* sender) override;
  Result<void> Subscribe(const sdbus::Message& message) override;
  void Unsubscribe(const sdbus::Message& message) override;
  std::shared_ptr<Authority> authority() const override { return polkit_; }
  // True while polkit waits for somebody who may have to type a password.
  bool IsAsking() const { return polkit_ != nullptr && polkit_->IsAsking(); }

 private:
  void Step();
  Result<void> Serve();
  static int OnName(sd_bus_message* message, void* userdata,
                    sd_bus_error* error);
  void LoseLater(const char* why);
  void Lost(const Error& error);
  void LeaveOutFds();
  void Disconnect();
  Result<Caller> AskBus(const std::string& sender);

  EventLoop& loop_;
  const ApiParts& parts_;
  ForeignFds& foreign_;
  const std::chrono::milliseconds reconnect_;
  std::uint64_t attempt_ = 0;  // to connect
  bool given_up_ = false;      // set by GiveUpName
  bool is_over_quota_ = false;
  std::unique_ptr<EventLoop::Source> handshake_;
  std::unique_ptr<Inbound> inbound_;
  sd_bus* bus_ = nullptr;  // owned; by connection_, once there is one
  std::shared_ptr<sdbus::IConnection> connection_;
  std::shared_ptr<Polkit> polkit_;
  std::unique_ptr<ManagerAdaptor> manager_;
  std::unique_ptr<LogControl> log_control_;
  PluginObjects plugins_;
  sd_bus_slot* disconnected_ = nullptr;
  sd_bus_slot* named_ = nullptr;
  sd_bus_track* subscribers_ = nullptr;
  std::map<std::string, Caller> callers_;
  std::map<std::string, Caller> subscribed_;  // the senders in subscribers_
};

}  // namespace mountd::dbus
