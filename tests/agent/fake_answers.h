// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/sdbus-c++.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dbus/dict/value.h"

// The made-up answers of the fake Manager, and the text in which it records
// calls.
namespace mountd::agent::test {

using MapReply = sdbus::Result<dbus::Dict>;
using Ports =
    std::vector<sdbus::Struct<std::string, std::string, std::uint16_t,
                              std::uint16_t, std::uint16_t, std::string>>;
using Entries = std::vector<
    sdbus::Struct<std::string, std::uint32_t, std::string, std::string>>;
using OwedList =
    std::vector<sdbus::Struct<std::uint64_t, std::string, std::string,
                              std::string, std::uint32_t, std::uint64_t>>;
using Statistics =
    std::vector<sdbus::Struct<std::string, std::uint64_t, std::uint64_t,
                              std::uint64_t, std::uint64_t>>;

template <typename T>
dbus::Value V(const T& value) {
  return dbus::Value(value);
}
dbus::Value Text(const char* text);
// Returns an `ay`.
dbus::Value Path(const std::string& text);

// Return "{key=value;…}"; a value of no simple type is shown as its signature.
std::string Show(const dbus::Dict& map);
std::string Show(const std::map<std::string, std::string>& map);
// Returns "http,,8080,80,1,tcp " for each port.
std::string Show(const Ports& ports);

dbus::Dict Network();
dbus::Dict Inbox();
dbus::Dict MountConfig(const std::string& propagation);
// A lease that has lapsed, of the allocation "web".
dbus::Dict LeaseOf(const std::string& name);
// A fence that is done, with a reason that would clear a terminal.
dbus::Dict FenceOf(const std::string& allocation);
dbus::Dict Receipt(const std::string& allocation);
// Answers that "web" is bare, "old" has gone, and "busy" is live.
std::vector<dbus::Dict> Reconciled();
// The allocation "bare" has no network.
dbus::Dict Allocation(const std::string& id);
// The plugin "sick" is unhealthy, with a reason that would clear a terminal.
dbus::Dict Plugin(const std::string& id);
dbus::Dict Holders();
dbus::Dict HandedOut();
// The task "fine" is in order.
dbus::Dict TaskReport(const std::string& task);
// No rule names the caller, unless `named`.
dbus::Dict Capabilities(bool named = true);
std::vector<dbus::Dict> HostVolumes();
std::vector<dbus::Dict> Filesystems();
// A network of mode bridge, and a CNI network that cannot be made.
std::vector<dbus::Dict> Networks();
// Returns an operation of the caller.
dbus::Dict Operation();
// Returns the end of a traced operation, with two spans.
dbus::Dict TracedOperation();
// Returns a volume as a plugin's controller answers it.
dbus::Dict CreatedVolume(const std::string& volume);
// Returns protoc's bytes of a response of this call; nothing for other calls.
std::vector<std::uint8_t> SnapshotResponse(const std::string& rpc);

}  // namespace mountd::agent::test
