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

#include "csi-node/node/plugin_events.h"
#include "mountd/base/caller.h"
#include "mountd/operations/operations.h"
#include "mountd/service/caller_access.h"
#include "mountd/watch/owed_watch.h"

namespace mountd::dbus {

struct ObjectPathText {
  std::string path;
};

// An a{sv} of plain values.
using EventRow = std::vector<
    std::pair<std::string,
              std::variant<bool, std::string, std::uint32_t, std::uint64_t>>>;

// An a{sv} that may also have lists, maps and rows.
using EventValue =
    std::variant<bool, std::string, std::uint32_t, std::uint64_t, std::int64_t,
                 std::vector<std::string>, StringMap, std::vector<EventRow>>;
using EventDict = std::vector<std::pair<std::string, EventValue>>;

using EventArgument = std::variant<std::string, std::uint32_t, std::uint64_t,
                                   ObjectPathText, EventDict>;

// One signal, for the subscribers that may see it: a signal of
// org.mountd1.Manager, or, if `properties_of` is set, PropertiesChanged of that
// plugin instance with all its properties.
struct Event {
  std::string member;
  std::vector<EventArgument> arguments;
  std::function<bool(const Caller&)> may_see;
  std::shared_ptr<const csi::PluginInstance> properties_of{};
};

// One function for each signal; each sets which callers may see the event.
// `access` outlives the event.
Event OperationDone(const OperationSummary& summary);
// Returns the signals about an operation under way: OperationStep and, for
// methods that count files, OperationProgress.
std::vector<Event> OperationChanged(const CallerAccess& access,
                                    const OperationStatus& status);
EventDict ToEventDict(const OperationStatus& status);
// `uid` owns the allocation.
Event MountLost(const CallerAccess& access, std::uint32_t uid,
                const MountRecord& record, const std::string& reason);
Event MountHealthChanged(const CallerAccess& access, std::uint32_t uid,
                         const MountRecord& record, exec::MountHealth health,
                         const std::string& reason);
Event PluginChanged(const CallerAccess& access,
                    const csi::PluginChange& change);
Event TaskEventOfPlugin(const CallerAccess& access,
                        const csi::PluginInstance& instance,
                        const csi::PluginEvent& event);
Event NodeInfoChanged(const CallerAccess& access,
                      const csi::PluginInstance& instance,
                      const csi::NodeInfoChange& change);
// Visible to the volume's owner.
Event VolumeHealthChanged(const CallerAccess& access,
                          const VolumeRecord& volume, exec::MountHealth health,
                          const std::string& reason);
Event VolumeConditionChanged(const CallerAccess& access,
                             const VolumeRecord& volume,
                             const csi::VolumeCondition& condition);
Event SecretsNeeded(const CallerAccess& access, const VolumeRecord& volume,
                    const PublicationRecord& publication);
// Each returns the signal and LeaseChanged. Visible to the lease's user.
std::vector<Event> LeaseLapsed(const CallerAccess& access,
                               const LeaseRecord& lease);
std::vector<Event> FenceDone(const CallerAccess& access,
                             const FenceRecord& fence);
// Does the same for the lease's user alone, even if others may see the fence.
std::vector<Event> FenceDoneForUser(const FenceRecord& fence);
// OwedChanged and OwedOverdue count the pending tear-downs of all users. They
// carry only how many there are and since when.
Event OwedChanged(std::uint32_t count);
Event OwedOverdue(const OwedSummary& owed);
Event StuckChanged(std::uint32_t count);
// Visible to callers that may use the network.
Event AddressesScarce(const CallerAccess& access, const std::string& network,
                      const Networks::Usage& usage);
// `uid` owns the allocation.
Event NetworkRepaired(const CallerAccess& access, std::uint32_t uid,
                      const NetworkRecord& record, const std::string& what);
Event NetworkLost(const CallerAccess& access, std::uint32_t uid,
                  const NetworkRecord& record, const std::string& reason);
Event RulesetRestored();

// Sends `event` on one connection. A null `destination` is the connection's
// only peer. Sends nothing to a peer that has gone. Runs on the loop's thread.
void Emit(sd_bus* bus, const char* destination, const Event& event);
// False once sd-bus knows that the other end has hung up. A send may notice
// that before the loop does.
bool IsOpen(sd_bus* bus);
// Returns whether the kernel has taken all that was sent on an open connection.
// False for a connection that has ended, because sd-bus then empties its queue.
bool HasTakenAll(sd_bus* bus);

}  // namespace mountd::dbus
