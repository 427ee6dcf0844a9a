// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mountd/base/trace_parent.h"
#include "mountd/plan/health_plans.h"
#include "mountd/plan/holder_plans.h"
#include "mountd/plan/mount_plans.h"
#include "mountd/plan/network_plans.h"
#include "mountd/plan/plan_kinds.h"
#include "mountd/plan/plugin_plans.h"
#include "mountd/plan/task_plans.h"
#include "mountd/plan/tree_plans.h"
#include "mountd/plan/values.h"

// The messages between mountd and an executor. One plan is one SOCK_SEQPACKET
// message (Request), with exactly the fds that its kind takes (FdsOf). Its
// answer is another message (Reply) with at most one fd. Both are plain structs
// of ids, numbers and flags. Nothing in them is text to parse or an option
// string. A name is one path component of a known alphabet. The only path is a
// path in a container's own root (ContainerPlan). Both ends are of one build,
// and the executor refuses another `version`.
//
// The executor checks every field again (exec/invariants.h). Those checks and
// the root-owned config decide what it may do; the sender does not.
namespace mountd::exec {

inline constexpr std::uint32_t kProtocolVersion = 2;

// The most fds that a plan can have beside it.
inline constexpr std::size_t kMaxPlanFds = 2;

// Lists every member of PlanBody but `ports`, as X(type, name). PlanBody and
// request_size.h are made of this list, so they cannot differ.
#define MOUNTD_USUAL_PLAN_BODIES(X)        \
  X(AllocationPlan, allocation)            \
  X(TargetPlan, target)                    \
  X(TaskPlan, task)                        \
  X(AttachPlan, attach)                    \
  X(OpenTreePlan, open_tree)               \
  X(DetachPlan, detach)                    \
  X(AnchorPlan, anchor)                    \
  X(PluginPlan, plugin)                    \
  X(PluginSocketPlan, plugin_socket)       \
  X(VolumeDirPlan, volume_dir)             \
  X(NetworkPlan, network)                  \
  X(PrepareNetworksPlan, prepare_networks) \
  X(NetworkFilePlan, network_file)         \
  X(NetworkWatchPlan, network_watch)       \
  X(CniPlan, cni)                          \
  X(CgroupPlan, cgroup)                    \
  X(HoldersPlan, holders)                  \
  X(ProcessesPlan, processes)              \
  X(CopiesPlan, copies)                    \
  X(VerifyTaskPlan, verify_task)           \
  X(StopTasksPlan, stop_tasks)             \
  X(TreePlan, tree)                        \
  X(ProbePlan, probe)                      \
  X(VolumeProbePlan, volume_probe)

union PlanBody {
#define MOUNTD_PLAN_BODY(type, name) type name;
  MOUNTD_USUAL_PLAN_BODIES(MOUNTD_PLAN_BODY)
#undef MOUNTD_PLAN_BODY
  PortsPlan ports;
  PlanBody() : allocation{} {}
};

// The caller's trace that a plan is part of, and the plan's own span in it, for
// the executor's log. All zeros: none.
struct PlanTrace {
  TraceId trace_id{};
  SpanId span_id{};

  friend bool operator==(const PlanTrace&, const PlanTrace&) = default;
};

struct Request {
  std::uint32_t version = kProtocolVersion;
  PlanKind kind = PlanKind::kHello;
  PlanTrace trace;
  PlanBody body;
};

// Returns how many fds the request takes beside it.
inline std::size_t FdsOf(const Request& request) {
  switch (request.kind) {
    case PlanKind::kAttach:  // the directory, or the container's pidfd
      return request.body.attach.target_kind != TargetKind::kInbox ||
                     request.body.attach.source.kind == SourceKind::kDirectory
                 ? 1
                 : 0;
    case PlanKind::kCreateNetwork:  // the namespace, and a pidfd
      return (request.body.network.origin == NamespaceOrigin::kGiven ? 1U
                                                                     : 0U) +
             (request.body.network.has_keeper != 0 ? 1U : 0U);
    case PlanKind::kCheckHostPorts:  // a pidfd
      return request.body.network.has_keeper != 0 ? 1 : 0;
    case PlanKind::kInspectTask:  // a pidfd
    case PlanKind::kVerifyTask:
    case PlanKind::kRemoveTree:  // the directory
    case PlanKind::kChownTree:
    case PlanKind::kWriteNetworkFile:  // its content
    case PlanKind::kRunCni:            // the request
      return 1;
    default:
      return 0;
  }
}

struct HelloReply {
  std::uint32_t pid = 0;
  std::uint64_t effective_capabilities = 0;  // capabilities(7) bits
  std::uint64_t mount_namespace = 0;         // inode of /proc/self/ns/mnt
  std::uint32_t has_unique_mount_ids = 0;    // Linux 6.8, statmount(2) allowed
  std::uint32_t has_mount_beneath = 0;       // Linux 6.5
};

union ReplyBody {
  HelloReply hello;
  MountState mount;
  HandedOutMount handed_out;
  PluginReply plugin;
  NetworkState network;
  CgroupState cgroup;
  HoldersState holders;
  CopiesState copies;
  TaskState task;
  StopTasksState stop_tasks;
  TreeReply tree;
  WatchReply watch;
  MountListReply mount_list;
  ProbeReply probe;
  ReplyBody() : hello{} {}
};

// `code` 0 is success. Otherwise it is a mountd::Code, with the failed
// operation, its object and the errno. Texts end with a NUL.
struct Reply {
  std::uint32_t version = kProtocolVersion;
  std::uint32_t code = 0;
  std::int32_t sys_errno = 0;
  std::array<char, 32> op{};
  std::array<char, 192> object{};
  std::array<char, 192> detail{};
  ReplyBody body;
};

static_assert(std::is_trivially_copyable_v<Request>);
static_assert(sizeof(PlanTrace) == 24);
static_assert(std::is_trivially_copyable_v<Reply>);
static_assert(std::is_trivially_copyable_v<FoundTarget>);
static_assert(std::is_trivially_copyable_v<FoundNetwork>);

}  // namespace mountd::exec
