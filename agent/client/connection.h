// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/sdbus-c++.h>

#include <chrono>
#include <memory>
#include <string>

#include "agent/client.h"
#include "agent/subscriber.h"
#include "dbus/generated/manager_proxy.h"
#include "mountd/base/result.h"

// Internal to agent/. Only this file opens a bus and knows sdbus-c++'s errors.
struct sd_bus;

namespace mountd::agent {

// The generated proxy of /org/mountd1. With handlers it also receives the
// signals; the handlers must outlive it.
class ManagerProxy final
    : public sdbus::ProxyInterfaces<org::mountd1::Manager_proxy> {
 public:
  ManagerProxy(sdbus::IConnection& bus, const std::string& service,
               const SignalHandlers* handlers);
  virtual ~ManagerProxy();

  ManagerProxy(const ManagerProxy&) = delete;
  ManagerProxy& operator=(const ManagerProxy&) = delete;

 private:
  void onOperationDone(const std::string& operation, const std::string& error,
                       const std::string& message) override;
  void onOperationProgress(const std::string& operation,
                           const std::string& method,
                           const std::uint64_t& done) override;
  void onOperationStep(const std::string& operation,
                       const dbus::Dict& status) override;
  void onMountLost(const std::string& allocation, const std::string& task,
                   const std::string& name, const std::string& reason) override;
  void onMountHealth(const std::string& allocation, const std::string& task,
                     const std::string& name, const std::string& state,
                     const std::string& reason) override;
  void onVolumeHealth(const std::string& plugin, const std::string& volume,
                      const std::string& state,
                      const std::string& reason) override;
  void onSecretsNeeded(const std::string& allocation, const std::string& alias,
                       const std::string& plugin,
                       const std::string& volume) override;
  void onPluginChanged(const std::string& plugin, const std::string& state,
                       const std::string& reason) override;
  void onPluginAdded(const std::string& plugin, const std::string& type,
                     const std::string& allocation,
                     const sdbus::ObjectPath& object) override;
  void onPluginRemoved(const std::string& plugin, const std::string& type,
                       const std::string& allocation,
                       const sdbus::ObjectPath& object) override;
  void onPluginEvent(const std::string& plugin, const std::string& type,
                     const std::string& allocation, const std::string& event,
                     const std::string& message) override;
  void onNodeInfoChanged(const std::string& plugin, const std::string& type,
                         const std::string& allocation, const dbus::Dict& node,
                         const std::string& text) override;
  void onAddressesScarce(const std::string& network,
                         const std::uint32_t& capacity,
                         const std::uint32_t& free) override;
  void onNetworkRepaired(const std::string& allocation,
                         const std::string& interface,
                         const std::string& what) override;
  void onNetworkLost(const std::string& allocation,
                     const std::string& interface,
                     const std::string& reason) override;
  void onRulesetRestored() override;
  void onLeaseLapsed(const std::string& lease, const std::uint32_t& uid,
                     const std::string& reason) override;
  void onFenceDone(const std::string& allocation,
                   const std::string& lease) override;
  void onLeaseChanged(const std::string& lease, const std::uint32_t& uid,
                      const dbus::Dict& change) override;
  void onOwedChanged(const std::uint32_t& count) override;
  void onOwedOverdue(const std::uint32_t& count,
                     const std::uint64_t& since) override;
  void onStuckChanged(const std::uint32_t& count) override;

  const SignalHandlers* const handlers_;
};

// Owns a ready connection and its proxy. Used by one thread, except
// bus().leaveEventLoop(). Its destructor never blocks, even if the daemon does
// not read.
class Connection {
 public:
  // Unavailable if the connection is not ready within options.connect_timeout.
  // `handlers` may be null.
  static Result<std::unique_ptr<Connection>> Open(
      const ClientOptions& options, const SignalHandlers* handlers);
  ~Connection();

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  sdbus::IConnection& bus() { return *bus_; }
  ManagerProxy& proxy() { return *proxy_; }
  // Returns the destination of a hand-made call: "" on a peer-to-peer
  // connection.
  const std::string& service() const { return service_; }

 private:
  Connection() = default;

  ::sd_bus* raw_ = nullptr;  // owned by bus_; null on the system bus
  std::string service_;
  std::unique_ptr<sdbus::IConnection> bus_;
  std::unique_ptr<ManagerProxy> proxy_;
};

// The error of a failed call, and whether the call has lost the connection.
struct CallFailure {
  Error error;
  bool connection_lost = false;
  // The key of the option that mountd does not know; only of FailureOfOwnCall.
  std::string unknown_option{};
};

// Turns org.mountd1.Error.X into Code X. Turns D-Bus's own errors:
// - AccessDenied (the bus's policy) into PermissionDenied;
// - InvalidArgs and InvalidSignature into InvalidArgument;
// - Unknown{Method,Interface,Object,Property}, of an older daemon, into
//   NotSupported;
// - LimitsExceeded into ResourceExhausted;
// - all others into Unavailable.
// Sets Error::away.
CallFailure FailureOf(const sdbus::Error& error, const std::string& op,
                      const std::string& object);

// Does the same as FailureOf, for calls that this library makes. The library
// sends only methods and options of its own contract, so a mountd that does not
// know a method or option is older than the library. The error is then
// NotSupported and says so.
CallFailure FailureOfOwnCall(const sdbus::Error& error, const std::string& op,
                             const std::string& object);

// Makes an error from a full name and a message, as OperationDone has them.
Error ErrorFromName(const std::string& name, const std::string& message,
                    const std::string& op, const std::string& object);

}  // namespace mountd::agent
