// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "mountd/plan/message.h"

namespace mountd::exec {

// Returns the plan's name for a log or a trace: "Attach", "RunCni"; "unknown"
// for a number that is no plan.
constexpr std::string_view PlanName(PlanKind kind) {
  switch (kind) {
    case PlanKind::kHello:
      return "Hello";
    case PlanKind::kPrepareBase:
      return "PrepareBase";
    case PlanKind::kPrepareAllocation:
      return "PrepareAllocation";
    case PlanKind::kRemoveAllocation:
      return "RemoveAllocation";
    case PlanKind::kAttach:
      return "Attach";
    case PlanKind::kDetach:
      return "Detach";
    case PlanKind::kInspectTarget:
      return "InspectTarget";
    case PlanKind::kReleaseAnchor:
      return "ReleaseAnchor";
    case PlanKind::kPrepareInbox:
      return "PrepareInbox";
    case PlanKind::kRemoveInbox:
      return "RemoveInbox";
    case PlanKind::kOpenTree:
      return "OpenTree";
    case PlanKind::kOpenInbox:
      return "OpenInbox";
    case PlanKind::kPreparePlugin:
      return "PreparePlugin";
    case PlanKind::kRemovePlugin:
      return "RemovePlugin";
    case PlanKind::kConnectPlugin:
      return "ConnectPlugin";
    case PlanKind::kPrepareVolumeDir:
      return "PrepareVolumeDir";
    case PlanKind::kInspectVolumeDir:
      return "InspectVolumeDir";
    case PlanKind::kRemoveVolumeDir:
      return "RemoveVolumeDir";
    case PlanKind::kPrepareNetworks:
      return "PrepareNetworks";
    case PlanKind::kCreateNetwork:
      return "CreateNetwork";
    case PlanKind::kDeleteNetwork:
      return "DeleteNetwork";
    case PlanKind::kInspectNetwork:
      return "InspectNetwork";
    case PlanKind::kRepairNetwork:
      return "RepairNetwork";
    case PlanKind::kWatchNetworks:
      return "WatchNetworks";
    case PlanKind::kWriteNetworkFile:
      return "WriteNetworkFile";
    case PlanKind::kRemoveNetworkFiles:
      return "RemoveNetworkFiles";
    case PlanKind::kRunCni:
      return "RunCni";
    case PlanKind::kListNetworks:
      return "ListNetworks";
    case PlanKind::kCheckHostPorts:
      return "CheckHostPorts";
    case PlanKind::kInspectCgroup:
      return "InspectCgroup";
    case PlanKind::kFindHolders:
      return "FindHolders";
    case PlanKind::kInspectTask:
      return "InspectTask";
    case PlanKind::kVerifyTask:
      return "VerifyTask";
    case PlanKind::kFindProcesses:
      return "FindProcesses";
    case PlanKind::kFindCopies:
      return "FindCopies";
    case PlanKind::kStopTasks:
      return "StopTasks";
    case PlanKind::kUpdatePorts:
      return "UpdatePorts";
    case PlanKind::kOpenNamespace:
      return "OpenNamespace";
    case PlanKind::kRemoveTree:
      return "RemoveTree";
    case PlanKind::kChownTree:
      return "ChownTree";
    case PlanKind::kWatchMounts:
      return "WatchMounts";
    case PlanKind::kListMounts:
      return "ListMounts";
    case PlanKind::kProbeMount:
      return "ProbeMount";
    case PlanKind::kProbeVolume:
      return "ProbeVolume";
    case PlanKind::kListTargets:
      return "ListTargets";
    case PlanKind::kCountMounts:
      return "CountMounts";
    case PlanKind::kInspectPluginSocket:
      return "InspectPluginSocket";
    case PlanKind::kRemovePluginSocket:
      return "RemovePluginSocket";
    case PlanKind::kStartPlugin:
      return "StartPlugin";
    case PlanKind::kStopPlugin:
      return "StopPlugin";
  }
  return "unknown";
}

}  // namespace mountd::exec
