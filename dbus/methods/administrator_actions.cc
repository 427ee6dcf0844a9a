// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/administrator_actions.h"

#include <algorithm>
#include <array>

namespace mountd::dbus {
namespace {

constexpr std::string_view kInspect = "org.mountd1.inspect";
constexpr std::string_view kRelease = "org.mountd1.release";
constexpr std::string_view kUnmount = "org.mountd1.unmount";
constexpr std::string_view kUnregister = "org.mountd1.unregister-plugin";
constexpr std::string_view kRetryOwed = "org.mountd1.retry-owed";
constexpr std::string_view kReload = "org.mountd1.reload";

constexpr std::string_view kToInspect =
    "Authentication is required to look at $(object), which is not yours.";
constexpr std::string_view kToInspectAll =
    "Authentication is required to look at the objects of all users.";
constexpr std::string_view kToInspectGrants =
    "Authentication is required to look at what other users may use.";
constexpr std::string_view kToRelease =
    "Authentication is required to remove what $(object) has, which is not "
    "yours.";
constexpr std::string_view kToUnmount =
    "Authentication is required to unmount $(object), whose file system others "
    "use.";

constexpr auto kActions = std::to_array<AdministratorAction>({
    {"GetAllocation", kInspect, kToInspect},
    {"GetNetwork", kInspect, kToInspect},
    {"GetReceipt", kInspect, kToInspect},
    {"GetPlugin", kInspect, kToInspect},
    {"GetVolumeStats", kInspect, kToInspect},
    {"ListHolders", kInspect, kToInspect},
    {"ListHandedOut", kInspect, kToInspect},
    {"GetFence", kInspect, kToInspect},
    {"ListLeases", kInspect, kToInspectAll},
    {"ListAllocations", kInspect, kToInspectAll},
    {"ListVolumes", kInspect, kToInspectAll},
    {"ListOwed", kInspect, kToInspectAll},
    {"ListHostVolumes", kInspect, kToInspectGrants},
    {"ListFilesystems", kInspect, kToInspectGrants},
    {"ListNetworks", kInspect, kToInspectGrants},
    {"ReleaseAllocation", kRelease, kToRelease},
    {"ReleaseLease", kRelease, kToRelease},
    {"TeardownNetwork", kRelease, kToRelease},
    {"UnpublishVolume", kRelease, kToRelease},
    {"RemoveInbox", kRelease, kToRelease},
    {"Unmount", kUnmount, kToUnmount},
    {"UnregisterPlugin", kUnregister,
     "Authentication is required to unregister $(object), which is not yours."},
    {"RetryOwed", kRetryOwed,
     "Authentication is required to retry the pending tear-downs of all "
     "users."},
    {"Reload", kReload,
     "Authentication is required to put mountd's configuration in force."},
});

}  // namespace

std::span<const AdministratorAction> AdministratorActions() { return kActions; }

const AdministratorAction* FindAdministratorAction(std::string_view method) {
  const auto found = std::find_if(
      kActions.begin(), kActions.end(),
      [&](const AdministratorAction& one) { return one.method == method; });
  return found == kActions.end() ? nullptr : &*found;
}

}  // namespace mountd::dbus
