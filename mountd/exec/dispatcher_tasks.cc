// SPDX-License-Identifier: LGPL-2.1-or-later
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "mountd/exec/dispatcher.h"
#include "mountd/exec/dispatcher_answers.h"
#include "propagation/files/tree_owner.h"
#include "propagation/files/tree_removal.h"
#include "propagation/found.h"
#include "propagation/ground/cgroup.h"
#include "propagation/look/copies.h"
#include "propagation/look/holders.h"
#include "propagation/look/processes.h"
#include "propagation/look/task.h"
#include "propagation/probe.h"
#include "propagation/stop_tasks.h"
#include "propagation/watch.h"

namespace mountd::exec {

Result<void> Dispatcher::CarryTask(const Request& request, const Fds& fds,
                                   Answer* answer) {
  const propagation::Context context = ContextOf();
  const PlanBody& body = request.body;
  ReplyBody* reply = &answer->reply.body;
  switch (request.kind) {
    case PlanKind::kInspectCgroup: {
      MOUNTD_ASSIGN(reply->cgroup,
                    propagation::InspectCgroup(context, body.cgroup));
      return Ok();
    }
    case PlanKind::kFindHolders: {
      MOUNTD_ASSIGN(reply->holders,
                    propagation::FindHolders(context, body.holders));
      return Ok();
    }
    case PlanKind::kFindProcesses: {
      MOUNTD_ASSIGN(reply->holders,
                    propagation::FindProcesses(context, body.processes));
      return Ok();
    }
    case PlanKind::kFindCopies: {
      MOUNTD_ASSIGN(reply->copies,
                    propagation::FindCopies(context, body.copies));
      return Ok();
    }
    case PlanKind::kInspectTask: {
      MOUNTD_ASSIGN(reply->cgroup,
                    propagation::InspectTask(context, fds[0].get()));
      return Ok();
    }
    case PlanKind::kStopTasks: {
      MOUNTD_ASSIGN(reply->stop_tasks,
                    propagation::StopTasks(context, body.stop_tasks));
      return Ok();
    }
    default: {
      MOUNTD_ASSIGN(reply->task, propagation::VerifyTask(
                                     context, body.verify_task, fds[0].get()));
      return Ok();
    }
  }
}

Result<void> Dispatcher::CarryTree(const Request& request, const Fds& fds,
                                   Answer* answer) {
  // This is about ten milliseconds of work, unless the file system is slow.
  constexpr propagation::TreeBound kBound{2048, std::chrono::milliseconds(250)};
  const propagation::Context context = ContextOf();
  const TreePlan& plan = request.body.tree;
  TreeReply* reply = &answer->reply.body.tree;
  *reply = TreeReply{};
  MOUNTD_ASSIGN(
      *reply,
      request.kind == PlanKind::kRemoveTree
          ? propagation::RemoveSome(context, fds[0].get(), plan, kBound)
          : propagation::ChownSome(context, fds[0].get(), plan, kBound));
  return Ok();
}

Result<void> Dispatcher::CarryHealth(const Request& request, Answer* answer) {
  const propagation::Context context = ContextOf();
  ReplyBody* reply = &answer->reply.body;
  switch (request.kind) {
    case PlanKind::kWatchMounts: {
      MOUNTD_ASSIGN(propagation::MountWatch watch,
                    propagation::WatchMounts(context));
      answer->fd = std::move(watch.fd);
      reply->watch = {watch.tells_ids ? 1U : 0U};
      return Ok();
    }
    case PlanKind::kListMounts: {
      MOUNTD_ASSIGN(propagation::MountList list,
                    propagation::ListMounts(context));
      answer->fd = std::move(list.ids);
      reply->mount_list = {list.count, list.most};
      return Ok();
    }
    case PlanKind::kListTargets: {
      MOUNTD_ASSIGN(const std::vector<FoundTarget> found,
                    propagation::ListTargets(context));
      return AnswerWithRows(kernel_, std::span(found), answer);
    }
    case PlanKind::kCountMounts: {
      MOUNTD_ASSIGN(reply->mount_list.count,
                    propagation::CountMounts(context, request.body.plugin));
      return Ok();
    }
    case PlanKind::kProbeVolume: {
      MOUNTD_ASSIGN(reply->probe, propagation::ProbeVolume(
                                      context, request.body.volume_probe));
      return Ok();
    }
    default: {
      MOUNTD_ASSIGN(reply->probe,
                    propagation::ProbeMount(context, request.body.probe));
      return Ok();
    }
  }
}

}  // namespace mountd::exec
