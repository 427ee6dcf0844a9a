// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>
#include <systemd/sd-bus.h>

#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

// Clients of org.mountd1 that share no code with mountd's client library. They
// use raw sd-bus, and decode answers without knowing their types beforehand.
namespace mountd::test {

// Longer than any call takes. A test that passes waits far less.
inline constexpr std::chrono::seconds kPatience{30};

struct Answer {
  std::string error;  // the error's full name; "": success
  std::string message;
  std::string signature;
  // The body as text: "s", b"ay", 1, true, [..], (..), {key: ..}.
  std::string text;
  // The type and the value of each entry of each a{sv} in the body, by the path
  // of its keys: "network.address", "volumes.0.alias", "0.plugin".
  std::map<std::string, std::string> types;
  std::map<std::string, std::string> values;

  bool ok() const { return error.empty(); }
};

struct Signal {
  std::string member;
  std::string text;
  std::string destination;  // "": none
};

// The address and the user of a connection. Another uid than the test's own
// needs root, because the kernel reports the uid of the connecting thread.
struct BusTarget {
  std::string address;       // "unix:path=…"
  bool message_bus = false;  // a dbus-daemon: say Hello, name the service
  uid_t uid = static_cast<uid_t>(-1);  // -1: the test's own
};

// Owns one connection, and belongs to one thread. Never blocks for longer than
// kPatience. Answers every call with the error "disconnected" once the other
// end has dropped the connection.
class BusClient {
 public:
  // Returns null if the connection is not ready in time.
  static std::unique_ptr<BusClient> Connect(const BusTarget& target);
  ~BusClient();
  BusClient(const BusClient&) = delete;
  BusClient& operator=(const BusClient&) = delete;

  // Calls a method of org.mountd1.Manager; `types` and the arguments after it
  // are those of sd_bus_message_append(3).
  Answer Call(const char* member, const char* types, ...);
  // Calls a method of any interface of any object.
  Answer CallOn(const char* path, const char* interface, const char* member,
                const char* types, ...);
  // Sends a call without waiting for its answer. Returns a handle for Await.
  std::uint64_t Send(const char* member, const char* types, ...);
  Answer Await(std::uint64_t call);
  bool answered(std::uint64_t call) const { return answers_.contains(call); }

  // Waits for the next signal of that name. Its member is empty if none comes.
  Signal AwaitSignal(const std::string& member);
  // Signals that have arrived and that no AwaitSignal has taken.
  const std::vector<Signal>& signals() const { return signals_; }
  // Makes a call of its own and waits for its answer. Every message that mountd
  // sent before that answer has then arrived.
  void Fence();

  // True if the other end hangs up in time.
  bool AwaitDisconnect();
  // Handles incoming messages until `done`. False if `done` never holds.
  bool RunUntil(const std::function<bool()>& done);

  sd_bus* raw() { return bus_; }
  const char* service() const { return service_; }

 private:
  BusClient() = default;

  bool Open(const BusTarget& target);
  std::uint64_t SendOn(const char* path, const char* interface,
                       const char* member, const char* types, va_list values);
  int Keep(sd_bus_message* message);

  sd_bus* bus_ = nullptr;
  const char* service_ = nullptr;  // the destination of calls
  std::map<std::uint64_t, Answer> answers_;
  std::vector<Signal> signals_;
};

}  // namespace mountd::test
