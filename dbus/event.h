// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "mountd/caller.h"
#include "mountd/operations.h"
#include "mountd/owed_watch.h"
#include "mountd/service.h"

namespace mountd::dbus {

struct ObjectPathText {
  std::string path;
};

// An a{sv}.
using EventDict = std::vector<
    std::pair<std::string,
              std::variant<bool, std::string, std::uint32_t, std::uint64_t>>>;

using EventArgument = std::variant<std::string, std::uint32_t, std::uint64_t,
                                   ObjectPathText, EventDict>;

// One signal on its way to whoever subscribed and may see it: of
// org.mountd1.Manager, or that all properties of an instance of a plugin may
// have changed.
struct Event {
  std::string member;
  std::vector<EventArgument> arguments;
  std::function<bool(const Caller&)> may_see;
  std::shared_ptr<const csi::PluginInstance> properties_of{};
};

// The signals there are, and who may see each. `service` outlives the event.
Event OperationDone(const OperationSummary& summary);
// What is to be told of an operation that goes on: OperationStep and, of files,
// OperationProgress.
std::vector<Event> OperationChanged(const Service& service,
                                    const OperationStatus& status);
EventDict ToEventDict(const OperationStatus& status);
// Of the allocation's owner `uid`.
Event MountLost(const Service& service, std::uint32_t uid,
                const MountRecord& record, const std::string& reason);
Event MountHealthChanged(const Service& service, std::uint32_t uid,
                         const MountRecord& record, exec::MountHealth health,
                         const std::string& reason);
Event PluginChanged(const Service& service, const csi::PluginChange& change);
// Of whoever's the volume is.
Event VolumeHealthChanged(const Service& service, const VolumeRecord& volume,
                          exec::MountHealth health, const std::string& reason);
Event SecretsNeeded(const Service& service, const VolumeRecord& volume,
                    const PublicationRecord& publication);
// Both tell of every user's, and no more than how many and since when.
Event OwedChanged(std::uint32_t count);
Event OwedOverdue(const OwedSummary& owed);
Event StuckChanged(std::uint32_t count);
// Of whoever may be in the network.
Event AddressesScarce(const Service& service, const std::string& network,
                      const Networks::Usage& usage);
// Of the allocation's owner `uid`.
Event NetworkRepaired(const Service& service, std::uint32_t uid,
                      const NetworkRecord& record, const std::string& what);
Event NetworkLost(const Service& service, std::uint32_t uid,
                  const NetworkRecord& record, const std::string& reason);
Event RulesetRestored();

// Sends it on one connection; `destination` null: to the one peer there is. A
// peer that has gone gets nothing. On the loop's thread.
void Emit(sd_bus* bus, const char* destination, const Event& event);

}  // namespace mountd::dbus
