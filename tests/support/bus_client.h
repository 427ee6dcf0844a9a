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

// A client of org.mountd1 that knows nothing of mountd's own client library:
// raw sd-bus, and answers taken apart without knowing what they should be.
namespace mountd::test {

// Longer than anything takes; what a test waits for ends far earlier.
inline constexpr std::chrono::seconds kPatience{30};

struct Answer {
  std::string error;  // the error's full name; "": success
  std::string message;
  std::string signature;
  // The body, printed: "s", b"ay", 1, true, [..], (..), {key: ..}.
  std::string text;
  // Every value of each a{sv} in it, by its keys: "network.address",
  // "volumes.0.alias", "0.plugin".
  std::map<std::string, std::string> types;
  std::map<std::string, std::string> values;

  bool ok() const { return error.empty(); }
};

struct Signal {
  std::string member;
  std::string text;
  std::string destination;  // "": none
};

// Where to connect, and as whom. Another uid than the test's own needs root:
// what counts is what the kernel says of the connecting thread.
struct BusTarget {
  std::string address;       // "unix:path=…"
  bool message_bus = false;  // a dbus-daemon: say Hello, name the service
  uid_t uid = static_cast<uid_t>(-1);  // -1: the test's own
};

// One connection, used by one thread. Nothing here blocks for longer than
// kPatience; a connection that was dropped answers everything with the error
// "disconnected".
class BusClient {
 public:
  // Null if the connection is not ready in time.
  static std::unique_ptr<BusClient> Connect(const BusTarget& target);
  ~BusClient();
  BusClient(const BusClient&) = delete;
  BusClient& operator=(const BusClient&) = delete;

  // A method of org.mountd1.Manager; `types` and what follows as in
  // sd_bus_message_append(3).
  Answer Call(const char* member, const char* types, ...);
  // The same of any interface of any object.
  Answer CallOn(const char* path, const char* interface, const char* member,
                const char* types, ...);
  // A call whose answer is not waited for yet; a handle for Await.
  std::uint64_t Send(const char* member, const char* types, ...);
  Answer Await(std::uint64_t call);
  bool answered(std::uint64_t call) const { return answers_.contains(call); }

  // The next signal of that name; one with an empty member if none comes.
  Signal AwaitSignal(const std::string& member);
  // Signals that came so far and were not awaited.
  const std::vector<Signal>& signals() const { return signals_; }
  // Makes a call of its own: whatever was sent before its answer is then here.
  void Fence();

  // Whether the other end hangs up.
  bool AwaitDisconnect();
  // Handles what there is until `done`; false if it never is.
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
