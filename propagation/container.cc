// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/container.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "mountd/base/paths.h"
#include "mountd/plan/plan_error.h"
#include "propagation/ground/cgroup.h"
#include "propagation/ground/shared.h"
#include "propagation/residence.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Reply;

Error Refused(std::string why) {
  return MakeError(Code::kFailedPrecondition, "open container", "pidfd",
                   std::move(why));
}

// FailedPrecondition if `theirs` is the mount namespace of this executor or of
// init. Those two are the same except in unusual set-ups. A sandbox around the
// executor may hide init's (EACCES); the executor's own is then compared alone.
Result<void> CheckNotHosts(const Context& context, std::uint64_t theirs) {
  for (const char* ours : {"/proc/self/ns/mnt", "/proc/1/ns/mnt"}) {
    const Result<std::uint64_t> host =
        NamespaceAt(context, exec::kFromRoot, ours);
    if (!host && host.error().sys_errno == EACCES) {
      continue;
    }
    if (!host) {
      return host.error();
    }
    if (*host == theirs) {
      return Refused(
          "the process has the host's mount namespace, so it is in no "
          "container");
    }
  }
  return IsApart(context) && context.residence->host() == theirs
             ? Result<void>(Refused("the process has the host's mount "
                                    "namespace, so it is in no container"))
             : Ok();
}

// Opens the mount namespace of the process. FailedPrecondition if that is the
// host's.
Result<Container> Open(const Context& context, Process process) {
  Container container;
  container.process = std::move(process);
  const std::string link = "ns/mnt";
  // Open what the magic link leads to, because setns(2) needs a descriptor of
  // the namespace itself.
  MOUNTD_ASSIGN(
      container.mounts,
      Named(context.kernel.Open(container.process.dir.get(), link, O_RDONLY, 0),
            "openat2", link));
  MOUNTD_ASSIGN(
      const FileFacts facts,
      Named(context.kernel.Stat(container.mounts.get(), ""), "statx", link));
  container.mount_namespace = facts.inode;
  MOUNTD_TRY(CheckNotHosts(context, container.mount_namespace));
  return container;
}

Result<void> CheckOwner(const Context& context, const Container& container) {
  MOUNTD_ASSIGN(
      const std::uint64_t owner,
      Named(context.kernel.OwnerOf(container.mounts.get()), "ioctl", "ns/mnt"));
  MOUNTD_ASSIGN(const std::uint64_t own,
                NamespaceAt(context, exec::kFromRoot, "/proc/self/ns/user"));
  return owner == own
             ? Ok()
             : Result<void>(Refused(
                   "the container has its own user namespace, where it could "
                   "remove nosuid and nodev; give its task an inbox"));
}

// PermissionDenied unless some rule grants containers in `cgroup`. The executor
// does not know the caller, so it cannot pick the caller's rule.
Result<void> CheckGranted(const Context& context, const std::string& cgroup,
                          bool tmpfs) {
  const std::vector<RuleConfig>& rules = context.config.rules;
  return std::any_of(rules.begin(), rules.end(),
                     [&](const RuleConfig& rule) {
                       return AllowsContainer(rule, cgroup, tmpfs);
                     })
             ? Ok()
             : Result<void>(
                   MakeError(Code::kPermissionDenied, "open container", cgroup,
                             tmpfs ? "no rule grants a tmpfs there; it needs "
                                     "container_tmpfs = true in mountd.toml"
                                   : "no rule grants containers there; it "
                                     "needs containers = true in mountd.toml"));
}

// Runs in the child. Opens the host's /proc/self first, because the container's
// mount namespace hides it.
Result<MountState> EnterAndRun(
    const Context& context, const Container& container,
    const std::string& object,
    const std::function<Result<MountState>(const Context&)>& body) {
  constexpr std::uint64_t kFollow = 0;  // "self" is a link
  MOUNTD_ASSIGN(const UniqueFd self,
                Named(context.kernel.Open(exec::kFromRoot, "/proc/self",
                                          O_PATH | O_DIRECTORY, kFollow),
                      "openat2", "/proc/self"));
  MOUNTD_ASSIGN(const std::unique_ptr<MountInspector> inspector,
                MakeMountInspector(context.kernel, self.get()));
  MOUNTD_TRY(Named(context.kernel.EnterMountNamespace(container.mounts.get()),
                   "setns", object));
  return body({context.kernel, *inspector, context.config, context.id_maps});
}

}  // namespace

Result<Container> OpenContainer(const Context& context, int pidfd,
                                const exec::ContainerPlan& plan, bool tmpfs) {
  MOUNTD_ASSIGN(Process process, OpenProcess(context, pidfd));
  MOUNTD_ASSIGN(const Cgroup allowed,
                CheckWithin(context, process, plan.cgroup));
  MOUNTD_TRY(CheckGranted(context, allowed.path, tmpfs));
  MOUNTD_ASSIGN(Container container, Open(context, std::move(process)));
  container.cgroup = allowed.path;
  MOUNTD_TRY(CheckOwner(context, container));
  MOUNTD_ASSIGN(container.roots,
                CheckIdentity(context, container.process,
                              container.mount_namespace, plan.caller));
  // If the process is still alive, its pid was not reused, so everything opened
  // by that pid belongs to the process.
  MOUNTD_TRY(CheckAlive(context, pidfd));
  return container;
}

Result<std::optional<Container>> FindContainer(const Context& context,
                                               std::uint64_t mount_namespace,
                                               std::uint64_t cgroup) {
  const Result<Cgroup> where = OpenCgroup(context, cgroup);
  if (!where && where.error().code == Code::kNotFound) {
    return std::optional<Container>();
  }
  if (!where) {
    return where.error();
  }
  MOUNTD_ASSIGN(const Members members, MembersOf(context, *where));
  for (const std::uint32_t pid : members.pids) {
    Result<Process> process = OpenProcess(context, pid);
    if (!process) {
      continue;  // the process has ended
    }
    const Result<std::uint64_t> its =
        NamespaceAt(context, process->dir.get(), "ns/mnt");
    if (!its || *its != mount_namespace) {
      continue;
    }
    Result<Container> container = Open(context, *std::move(process));
    // Compare again, because the process may have entered another namespace
    // between the two looks.
    if (container && container->mount_namespace == mount_namespace) {
      container->cgroup = where->path;
      return std::optional(*std::move(container));
    }
  }
  if (!members.all_seen) {
    return MakeError(Code::kResourceExhausted, "find container", where->path,
                     "it has too many processes to search");
  }
  return std::optional<Container>();
}

Result<void> CheckStill(const Context& context, const Container& container) {
  MOUNTD_ASSIGN(const std::uint64_t now,
                NamespaceAt(context, container.process.dir.get(), "ns/mnt"));
  if (now != container.mount_namespace) {
    return Refused("the process has moved to another mount namespace");
  }
  MOUNTD_ASSIGN(const std::string cgroup,
                CgroupPathOf(context, container.process));
  return paths::IsAtOrBelow(cgroup, container.cgroup)
             ? Ok()
             : Result<void>(Refused("the process has moved to another cgroup"));
}

Result<MountState> InContainer(
    const Context& context, const Container& container,
    std::span<const int> kept, const std::string& object,
    const std::function<Result<MountState>(const Context&)>& body) {
  const Shared<Reply> answer;
  if (!answer.valid()) {
    return ErrnoError(errno, "mmap", object);
  }
  // The page is zero, which means success. The child may end before it calls
  // `body`, for example if it cannot open /dev/null.
  exec::SetError(MakeError(Code::kUnavailable, "enter container", object,
                           "the process that enters it ended too early; call "
                           "again"),
                 &*answer);
  std::vector<int> fds = {container.mounts.get(), container.process.dir.get()};
  std::copy_if(kept.begin(), kept.end(), std::back_inserter(fds),
               [](int fd) { return fd >= 0; });
  // Half of the plan's time stays for undoing what the child did.
  const std::chrono::milliseconds limit = context.config.timeouts.plan / 2;
  const exec::Sys<std::uint8_t> status = context.kernel.RunChild(
      [&] {
        const Result<MountState> outcome =
            EnterAndRun(context, container, object, body);
        if (outcome) {
          *answer = {};
          (*answer).body.mount = *outcome;
        } else {
          exec::SetError(outcome.error(), &*answer);
        }
        return EXIT_SUCCESS;
      },
      fds, limit);
  // ETIMEDOUT: RunChild has killed the child at `limit`.
  if (exec::FailedWith(status, ETIMEDOUT)) {
    return MakeError(Code::kDeadlineExceeded, "enter container", object,
                     "took too long, so mountd killed it; call again");
  }
  MOUNTD_TRY(exec::NamedOfChild(status, "enter container", object));
  return (*answer).code == 0 ? Result<MountState>((*answer).body.mount)
                             : exec::ToError(*answer);
}

}  // namespace mountd::propagation
