// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string_view>

namespace mountd::exec {

// Names the part of the executor that carries a plan out. The part also checks
// the plan's fields.
enum class PlanSubject : std::uint8_t {
  kNone,  // of a number that is no plan
  kAlone,
  kMount,
  kPlugin,
  kNetwork,
  kTask,
  kTree,
  kHealth,
};

// Lists every kind of plan as X(name, number, subject). PlanKind and the two
// functions below are made of this list, so no kind lacks a name or a subject.
// A number never changes its meaning, because golden files keep the messages.
#define MOUNTD_PLAN_KINDS(X)         \
  X(Hello, 1, Alone)                 \
  X(PrepareBase, 10, Mount)          \
  X(PrepareAllocation, 11, Mount)    \
  X(RemoveAllocation, 12, Mount)     \
  X(Attach, 13, Mount)               \
  X(Detach, 14, Mount)               \
  X(InspectTarget, 15, Mount)        \
  X(ReleaseAnchor, 16, Mount)        \
  X(PrepareInbox, 17, Mount)         \
  X(RemoveInbox, 18, Mount)          \
  X(OpenTree, 19, Mount)             \
  X(OpenInbox, 29, Mount)            \
  X(WriteNetworkFile, 36, Mount)     \
  X(RemoveNetworkFiles, 37, Mount)   \
  X(PreparePlugin, 20, Plugin)       \
  X(RemovePlugin, 21, Plugin)        \
  X(ConnectPlugin, 22, Plugin)       \
  X(PrepareVolumeDir, 23, Plugin)    \
  X(InspectVolumeDir, 24, Plugin)    \
  X(RemoveVolumeDir, 25, Plugin)     \
  X(InspectPluginSocket, 70, Plugin) \
  X(RemovePluginSocket, 71, Plugin)  \
  X(StartPlugin, 72, Plugin)         \
  X(StopPlugin, 73, Plugin)          \
  X(PrepareNetworks, 30, Network)    \
  X(CreateNetwork, 31, Network)      \
  X(DeleteNetwork, 32, Network)      \
  X(InspectNetwork, 33, Network)     \
  X(RepairNetwork, 34, Network)      \
  X(WatchNetworks, 35, Network)      \
  X(ListNetworks, 39, Network)       \
  X(CheckHostPorts, 80, Network)     \
  X(OpenNamespace, 81, Network)      \
  X(UpdatePorts, 82, Network)        \
  X(RunCni, 38, Alone)               \
  X(InspectCgroup, 40, Task)         \
  X(FindHolders, 41, Task)           \
  X(InspectTask, 42, Task)           \
  X(VerifyTask, 43, Task)            \
  X(FindProcesses, 44, Task)         \
  X(FindCopies, 45, Task)            \
  X(StopTasks, 46, Task)             \
  X(RemoveTree, 50, Tree)            \
  X(ChownTree, 51, Tree)             \
  X(WatchMounts, 60, Health)         \
  X(ListMounts, 61, Health)          \
  X(ProbeMount, 62, Health)          \
  X(CountMounts, 63, Health)         \
  X(ProbeVolume, 64, Health)         \
  X(ListTargets, 65, Health)

enum class PlanKind : std::uint32_t {
#define MOUNTD_PLAN_KIND(name, number, subject) k##name = (number),
  MOUNTD_PLAN_KINDS(MOUNTD_PLAN_KIND)
#undef MOUNTD_PLAN_KIND
};

// Returns the plan's name for a log or a trace: "Attach", "RunCni"; "unknown"
// for a number that is no plan.
constexpr std::string_view PlanName(PlanKind kind) {
  switch (kind) {
#define MOUNTD_PLAN_NAME(name, number, subject) \
  case PlanKind::k##name:                       \
    return #name;
    MOUNTD_PLAN_KINDS(MOUNTD_PLAN_NAME)
#undef MOUNTD_PLAN_NAME
  }
  return "unknown";
}

// Returns kNone for a number that is no plan.
constexpr PlanSubject SubjectOf(PlanKind kind) {
  switch (kind) {
#define MOUNTD_PLAN_SUBJECT(name, number, subject) \
  case PlanKind::k##name:                          \
    return PlanSubject::k##subject;
    MOUNTD_PLAN_KINDS(MOUNTD_PLAN_SUBJECT)
#undef MOUNTD_PLAN_SUBJECT
  }
  return PlanSubject::kNone;
}

}  // namespace mountd::exec
