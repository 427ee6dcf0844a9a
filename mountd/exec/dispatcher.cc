// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/dispatcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "mountd/exec/dispatcher_answers.h"
#include "mountd/exec/invariants.h"
#include "mountd/exec/privileges.h"
#include "mountd/plan/plan_error.h"
#include "netns/plans/cni_program.h"
#include "propagation/allocation.h"
#include "propagation/anchor.h"
#include "propagation/attach.h"
#include "propagation/detach.h"
#include "propagation/files/network_files.h"
#include "propagation/filesystem.h"
#include "propagation/ground/base.h"
#include "propagation/inbox.h"
#include "propagation/open_tree.h"
#include "propagation/plugin_directory.h"
#include "propagation/plugin_service.h"
#include "propagation/plugin_socket.h"
#include "propagation/target.h"

namespace mountd::exec {
namespace {

// Refuses content that is not a file of memory. The executor does not read the
// content, but the program that reads it would wait for it: a pipe has no end,
// and a file's server may never answer.
Result<void> CheckContent(Kernel& kernel, const Request& request,
                          const Dispatcher::Fds& fds) {
  if (request.kind != PlanKind::kWriteNetworkFile &&
      request.kind != PlanKind::kRunCni) {
    return Ok();
  }
  MOUNTD_ASSIGN(const bool memory, Named(kernel.IsMemory(fds.front().get()),
                                         "F_GET_SEALS", "content"));
  return memory ? Ok()
                : Result<void>(MakeError(Code::kInvalidArgument, "check plan",
                                         "fds", "is not a memory file"));
}

// Returns the side on which the plan begins. Plans on callers' trees of files,
// systemd's units and CNI's plugins act in the host's mount namespace, and all
// others in the namespace that holds the base. Network plans begin there too,
// because their markers are in the base.
propagation::Side SideOf(PlanKind kind) {
  switch (kind) {
    case PlanKind::kRunCni:
    case PlanKind::kStartPlugin:
    case PlanKind::kStopPlugin:
    case PlanKind::kRemoveTree:
    case PlanKind::kChownTree:
      return propagation::Side::kHost;
    default:
      return propagation::Side::kTree;
  }
}

}  // namespace

Dispatcher::Dispatcher(Kernel& kernel, const Config& config)
    : kernel_(kernel), config_(config) {}

propagation::Context Dispatcher::ContextOf() {
  return {kernel_, *inspector_, config_, id_maps_, &residence_, &checked_};
}

Result<void> Dispatcher::Handle(std::span<const std::byte> message,
                                const Fds& fds, const Sender& send) {
  Answer answer;
  bool sent = false;
  const SendNow send_now = [&] {
    sent = true;
    return send(answer);
  };
  const auto handle = [&]() -> Result<void> {
    // Carry comes last, because every check must pass before the request is
    // used.
    Request request;
    MOUNTD_TRY(DecodeRequest(message, &request));
    MOUNTD_TRY(CheckRequest(request, config_));
    MOUNTD_TRY(CheckFds(request, fds.size()));
    MOUNTD_TRY(CheckContent(kernel_, request, fds));
    if (!inspector_) {
      MOUNTD_ASSIGN(inspector_, propagation::MakeMountInspector(kernel_));
    }
    // Enter before each plan, because the plan before may have ended on the
    // other side (SideOf).
    MOUNTD_TRY(residence_.Enter(ContextOf(), SideOf(request.kind)));
    return Carry(request, fds, &answer, send_now);
  };
  Result<void> outcome = handle();
  // The plan has sent its own answer, and `outcome` says whether sending
  // worked.
  if (sent) {
    return outcome;
  }
  if (!outcome) {
    SetError(outcome.error(), &answer.reply);
    // A failed plan must not hand a descriptor to mountd.
    answer.fd.reset();
  }
  return send(answer);
}

Result<void> Dispatcher::Carry(const Request& request, const Fds& fds,
                               Answer* answer, const SendNow& send) {
  switch (SubjectOf(request.kind)) {
    case PlanSubject::kNone:
      break;
    case PlanSubject::kAlone:
      return CarryAlone(request, fds, answer);
    case PlanSubject::kMount:
      return CarryMount(request, fds, answer, send);
    case PlanSubject::kPlugin:
      return CarryPlugin(request, answer, send);
    case PlanSubject::kNetwork:
      return CarryNetwork(request, fds, answer, send);
    case PlanSubject::kTask:
      return CarryTask(request, fds, answer);
    case PlanSubject::kTree:
      return CarryTree(request, fds, answer);
    case PlanSubject::kHealth:
      return CarryHealth(request, answer);
  }
  return MakeError(Code::kInvalidArgument, "check plan", "kind", "is unknown");
}

// Carries out a plan that needs neither the base nor the networks' markers.
Result<void> Dispatcher::CarryAlone(const Request& request, const Fds& fds,
                                    Answer* answer) {
  if (request.kind == PlanKind::kRunCni) {
    MOUNTD_ASSIGN(answer->fd,
                  netns::RunCniProgram(kernel_, config_, request.body.cni,
                                       fds.front().get()));
  } else {
    MOUNTD_ASSIGN(answer->reply.body.hello, Hello());
  }
  return Ok();
}

Result<void> Dispatcher::CarryMount(const Request& request, const Fds& fds,
                                    Answer* answer, const SendNow& send) {
  const propagation::Context context = ContextOf();
  const PlanBody& body = request.body;
  MountState* state = &answer->reply.body.mount;
  *state = MountState{};
  const Tell<MountState> tell = TellBy(send, state);
  switch (request.kind) {
    case PlanKind::kPrepareBase: {
      MOUNTD_ASSIGN(*state, propagation::PrepareBase(context));
      return Ok();
    }
    case PlanKind::kPrepareAllocation:
      return propagation::PrepareAllocation(context, body.allocation, tell);
    case PlanKind::kRemoveAllocation:
      return propagation::RemoveAllocation(context, body.allocation);
    case PlanKind::kWriteNetworkFile:
      return propagation::WriteNetworkFile(context, body.network_file,
                                           fds.front().get(), tell);
    case PlanKind::kRemoveNetworkFiles:
      return propagation::RemoveNetworkFiles(context, body.network_file);
    case PlanKind::kAttach:
      return propagation::Attach(context, body.attach,
                                 fds.empty() ? -1 : fds.front().get(), tell);
    case PlanKind::kOpenTree:
    case PlanKind::kOpenInbox: {
      exec::HandedOutMount* mount = &answer->reply.body.handed_out;
      *mount = HandedOutMount{};
      MOUNTD_ASSIGN(answer->fd,
                    request.kind == PlanKind::kOpenTree
                        ? propagation::OpenTree(context, body.open_tree, mount)
                        : propagation::OpenInbox(context, body.task, mount));
      return Ok();
    }
    case PlanKind::kDetach:
      return propagation::Detach(context, body.detach);
    case PlanKind::kPrepareInbox:
      return propagation::PrepareInbox(context, body.task, tell);
    case PlanKind::kRemoveInbox:
      return propagation::RemoveInbox(context, body.task);
    case PlanKind::kInspectTarget: {
      MOUNTD_ASSIGN(*state, propagation::InspectTarget(context, body.target));
      return Ok();
    }
    default:
      return body.anchor.kind == SourceKind::kFilesystem
                 ? propagation::ReleaseFilesystem(context, body.anchor)
                 : propagation::ReleaseHostVolume(context, body.anchor);
  }
}

Result<void> Dispatcher::CarryPlugin(const Request& request, Answer* answer,
                                     const SendNow& send) {
  const propagation::Context context = ContextOf();
  const PlanBody& body = request.body;
  MountState* state = &answer->reply.body.mount;
  *state = MountState{};
  const Tell<MountState> tell = TellBy(send, state);
  switch (request.kind) {
    case PlanKind::kPreparePlugin:
      return propagation::PreparePlugin(context, body.plugin, tell);
    case PlanKind::kRemovePlugin:
      return propagation::RemovePlugin(context, body.plugin);
    case PlanKind::kConnectPlugin: {
      PluginReply* peer = &answer->reply.body.plugin;
      *peer = PluginReply{};
      MOUNTD_ASSIGN(answer->fd, propagation::ConnectPlugin(
                                    context, body.plugin_socket, peer));
      return Ok();
    }
    case PlanKind::kInspectPluginSocket: {
      PluginReply* peer = &answer->reply.body.plugin;
      *peer = PluginReply{};
      return propagation::InspectPluginSocket(context, body.plugin_socket,
                                              peer);
    }
    case PlanKind::kStartPlugin:
      return propagation::StartPlugin(context, body.plugin);
    case PlanKind::kStopPlugin:
      return propagation::StopPlugin(context, body.plugin);
    case PlanKind::kRemovePluginSocket:
      return propagation::RemovePluginSocket(context, body.plugin_socket);
    case PlanKind::kPrepareVolumeDir:
      return propagation::PrepareVolumeDir(context, body.volume_dir, tell);
    case PlanKind::kInspectVolumeDir: {
      MOUNTD_ASSIGN(*state,
                    propagation::InspectVolumeDir(context, body.volume_dir));
      return Ok();
    }
    default:
      return propagation::RemoveVolumeDir(context, body.volume_dir);
  }
}

Result<HelloReply> Dispatcher::Hello() {
  HelloReply hello;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  hello.effective_capabilities = EffectiveCapabilities();
  // No RESOLVE flags, because the file is a magic link (namespaces(7)).
  MOUNTD_ASSIGN(const UniqueFd mounts,
                Named(kernel_.Open(kFromRoot, "/proc/self/ns/mnt", O_RDONLY, 0),
                      "openat2", "/proc/self/ns/mnt"));
  MOUNTD_ASSIGN(const FileFacts facts, Named(kernel_.Stat(mounts.get(), ""),
                                             "statx", "/proc/self/ns/mnt"));
  hello.mount_namespace = facts.inode;
  MOUNTD_ASSIGN(const FileFacts root,
                Named(kernel_.Stat(kFromRoot, "/"), "statx", "/"));
  hello.has_unique_mount_ids = root.mount_id_is_unique ? 1 : 0;
  hello.has_mount_beneath = kernel_.CanMountBeneath() ? 1 : 0;
  return hello;
}

bool Dispatcher::MakeAhead() {
  // No markers (-1), because a namespace that is made in advance belongs to no
  // allocation yet.
  return netns::MakeAhead({kernel_, config_, networks_, -1});
}

void Dispatcher::RestForAWhile() { networks_.pool.Shrink(); }

}  // namespace mountd::exec
