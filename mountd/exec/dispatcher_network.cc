// SPDX-License-Identifier: LGPL-2.1-or-later
#include <span>
#include <vector>

#include "mountd/exec/dispatcher.h"
#include "mountd/exec/dispatcher_answers.h"
#include "netns/plans/found.h"
#include "netns/plans/open_namespace.h"
#include "netns/plans/update_ports.h"
#include "propagation/ground/base.h"
#include "propagation/look/process_sockets.h"

namespace mountd::exec {

// Returns the sockets of the process whose pidfd came with the plan. Runs on
// the host's side.
Result<netns::KeptSockets> Dispatcher::KeptSocketsOf(const Request& request,
                                                     const Fds& fds) {
  netns::KeptSockets kept;
  const bool takes_keeper = request.kind == PlanKind::kCreateNetwork ||
                            request.kind == PlanKind::kCheckHostPorts;
  if (!takes_keeper || request.body.network.has_keeper == 0) {
    return kept;
  }
  kept.uid = request.body.network.owner_uid;
  MOUNTD_ASSIGN(kept.inodes, propagation::SocketsOf(
                                 ContextOf(), fds.back().get(), kept.uid));
  return kept;
}

Result<void> Dispatcher::CarryNetwork(const Request& request, const Fds& fds,
                                      Answer* answer, const SendNow& send) {
  const propagation::Context mounts = ContextOf();
  MOUNTD_ASSIGN(const UniqueFd markers,
                propagation::OpenNetworkMarkers(mounts));
  // Enter the host's side only now, because the markers are in the base's
  // namespace.
  MOUNTD_TRY(residence_.Enter(mounts, propagation::Side::kHost));
  const netns::Context context{kernel_, config_, networks_, markers.get()};
  const NetworkPlan& plan = request.body.network;
  MOUNTD_ASSIGN(const netns::KeptSockets kept, KeptSocketsOf(request, fds));
  NetworkState* state = &answer->reply.body.network;
  *state = NetworkState{};
  const Tell<NetworkState> tell = TellBy(send, state);
  switch (request.kind) {
    case PlanKind::kPrepareNetworks:
      return netns::PrepareNetworks(context,
                                    request.body.prepare_networks.anew != 0);
    case PlanKind::kCreateNetwork:
      return netns::CreateNetwork(
          context, plan,
          {plan.origin == NamespaceOrigin::kGiven ? fds.front().get() : -1,
           kept},
          tell);
    case PlanKind::kCheckHostPorts:
      return netns::CheckHostPorts(context, plan, kept);
    case PlanKind::kOpenNamespace: {
      HandedOutMount* mount = &answer->reply.body.handed_out;
      *mount = HandedOutMount{};
      MOUNTD_ASSIGN(answer->fd, netns::OpenNamespace(context, plan, mount));
      return Ok();
    }
    case PlanKind::kUpdatePorts:
      return netns::UpdatePorts(context, request.body.ports, tell);
    case PlanKind::kDeleteNetwork:
      return netns::DeleteNetwork(context, plan);
    case PlanKind::kRepairNetwork: {
      MOUNTD_ASSIGN(*state, netns::RepairNetwork(context, plan));
      return Ok();
    }
    case PlanKind::kWatchNetworks: {
      MOUNTD_ASSIGN(answer->fd, netns::WatchNetworks(
                                    context, request.body.network_watch.kind));
      return Ok();
    }
    case PlanKind::kListNetworks: {
      MOUNTD_ASSIGN(const std::vector<FoundNetwork> found,
                    netns::ListNetworks(context));
      return AnswerWithRows(kernel_, std::span(found), answer);
    }
    default: {
      MOUNTD_ASSIGN(*state, netns::InspectNetwork(context, plan));
      return Ok();
    }
  }
}

}  // namespace mountd::exec
