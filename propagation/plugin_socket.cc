// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/plugin_socket.h"

#include <sys/stat.h>

#include "mountd/base/paths.h"
#include "propagation/ground/cgroup.h"
#include "propagation/plugin_directory.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;
using exec::PluginReply;
using exec::PluginSocketPlan;

std::string SocketOf(const PluginSocketPlan& plan) {
  return paths::PluginSocket({plan.instance.data(), plan.instance.size()});
}

// Opens the socket file and reads its facts. The error has ENOENT if there is
// none.
Result<UniqueFd> OpenSocket(const Context& context, const UniqueFd& directory,
                            const PluginSocketPlan& plan, FileFacts* facts) {
  const std::string name = Text(plan.plugin);
  MOUNTD_ASSIGN(UniqueFd file,
                OpenBeneath(context, directory.get(), SocketOf(plan), name));
  MOUNTD_ASSIGN(*facts,
                Named(context.kernel.Stat(file.get(), ""), "statx", name));
  return file;
}

// FailedPrecondition unless the file is a socket in the plugin's own mount.
// With another daemon's socket mounted there, that daemon would take the
// plugin's requests for root's.
Result<void> CheckSocket(const Context& context, const UniqueFd& directory,
                         const FileFacts& facts, const std::string& name) {
  MOUNTD_ASSIGN(const FileFacts own,
                Named(context.kernel.Stat(directory.get(), ""), "statx", name));
  if (!S_ISSOCK(facts.mode)) {
    return MakeError(Code::kFailedPrecondition, "connect", name,
                     "the file of its socket's name is not a socket");
  }
  if (facts.mount_id != own.mount_id) {
    return MakeError(Code::kFailedPrecondition, "connect", name,
                     "a mount covers its socket; unmount it");
  }
  return Ok();
}

Error Unavailable(int err, const char* op, const std::string& name) {
  Error error = ErrnoError(
      err, op, name, "no process listens on its socket; start the plugin");
  error.code = Code::kUnavailable;
  return error;
}

// Returns whether the process that called listen(2) still exists, so that its
// pid was not reused. Linux before 6.5 cannot tell, and the pid may be another
// process's by now; this function then returns true.
bool IsAlive(const Context& context, int socket) {
  const exec::Sys<UniqueFd> pidfd = context.kernel.PeerProcess(socket);
  if (!pidfd) {
    return exec::FailedWith(pidfd, ENOPROTOOPT);
  }
  const exec::Sys<bool> ended = context.kernel.HasEnded(pidfd->get());
  return ended && !*ended;
}

// PermissionDenied unless the process that called listen(2), as the kernel
// reports it, is in the cgroup.
Result<void> CheckPeer(const Context& context, int socket, const ucred& peer,
                       std::uint64_t cgroup, const std::string& name) {
  if (cgroup == 0) {
    return Ok();
  }
  const Result<Process> process =
      peer.pid == 0
          ? Result<Process>(MakeError(Code::kNotFound, "find", name))
          : OpenProcess(context, static_cast<std::uint32_t>(peer.pid));
  // Open the process's directory first, and then check that the process is
  // alive. Only in this order does the directory surely belong to that process.
  if (!process || !IsAlive(context, socket)) {
    return MakeError(
        Code::kPermissionDenied, "connect", name,
        "the process that made its socket has ended or is not visible");
  }
  if (const Result<Cgroup> within = CheckWithin(context, *process, cgroup);
      !within) {
    return MakeError(Code::kPermissionDenied, "connect", name,
                     "the process that listens on its socket is not in its "
                     "allocation's cgroup: " +
                         within.error().detail);
  }
  return Ok();
}

}  // namespace

Result<UniqueFd> ConnectPlugin(const Context& context,
                               const PluginSocketPlan& plan,
                               PluginReply* reply) {
  const std::string name = Text(plan.plugin);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd directory,
                OpenPlugin(context, base, plan.plugin));
  FileFacts facts;
  const Result<UniqueFd> file = OpenSocket(context, directory, plan, &facts);
  if (!file) {
    return file.error().sys_errno == ENOENT
               ? Unavailable(ENOENT, "openat2", name)
               : file.error();
  }
  MOUNTD_TRY(CheckSocket(context, directory, facts, name));
  // Connect by the descriptor that CheckSocket has seen, because the plugin can
  // replace the file at its name at any time.
  exec::Sys<UniqueFd> connected = context.kernel.ConnectUnix(file->get());
  if (!connected) {
    const int err = connected.error();
    // ECONNREFUSED: nobody listens. EAGAIN: the listener's queue is full
    // (connect(2)).
    return err == ECONNREFUSED || err == ENOENT || err == EAGAIN
               ? Unavailable(err, "connect", name)
               : ErrnoError(err, "connect", name);
  }
  MOUNTD_ASSIGN(const ucred peer, Named(context.kernel.PeerOf(connected->get()),
                                        "getsockopt", name));
  MOUNTD_TRY(CheckPeer(context, connected->get(), peer, plan.cgroup, name));
  reply->socket_inode = facts.inode;
  reply->peer_pid = static_cast<std::uint32_t>(peer.pid);
  reply->peer_uid = peer.uid;
  return std::move(connected).value();
}

Result<void> InspectPluginSocket(const Context& context,
                                 const PluginSocketPlan& plan,
                                 PluginReply* reply) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd directory,
                OpenPlugin(context, base, plan.plugin));
  FileFacts facts;
  const Result<UniqueFd> file = OpenSocket(context, directory, plan, &facts);
  if (!file && file.error().sys_errno != ENOENT) {
    return file.error();
  }
  reply->socket_inode = file ? facts.inode : 0;
  return Ok();
}

Result<void> RemovePluginSocket(const Context& context,
                                const PluginSocketPlan& plan) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  const Result<UniqueFd> directory = OpenPlugin(context, base, plan.plugin);
  if (!directory) {
    return directory.error().sys_errno == ENOENT
               ? Ok()
               : Result<void>(directory.error());
  }
  const exec::Sys<void> removed =
      context.kernel.RemoveFile(directory->get(), SocketOf(plan));
  return exec::FailedWith(removed, ENOENT)
             ? Ok()
             : Named(removed, "unlinkat", Text(plan.plugin));
}

}  // namespace mountd::propagation
