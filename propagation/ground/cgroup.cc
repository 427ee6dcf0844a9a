// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/cgroup.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "mountd/base/number.h"
#include "mountd/base/paths.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;
using exec::Sys;

// These limits bound one plan's work. If a cgroup exceeds a limit, the search
// is incomplete and sets Members::all_seen to false.
constexpr std::size_t kMaxCgroups = 1024;
constexpr std::size_t kMaxChildren = 4096;  // of one cgroup's directory
constexpr std::size_t kMaxProcsBytes = 1U << 20U;

struct Hierarchy {
  UniqueFd fd;  // O_RDONLY
  std::string point;
};

// Opens cgroup2 where systemd mounts it in its unified or hybrid setup.
Result<Hierarchy> OpenHierarchy(const Context& context) {
  for (const char* point : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    // O_RDONLY, because open_by_handle_at(2) takes no O_PATH descriptor.
    Sys<UniqueFd> fd =
        context.kernel.Open(exec::kFromRoot, point, O_RDONLY | O_DIRECTORY,
                            RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (exec::FailedWith(fd, ENOENT)) {
      continue;
    }
    if (!fd) {
      return ErrnoError(fd.error(), "openat2", point);
    }
    MOUNTD_ASSIGN(const FileFacts facts,
                  Named(context.kernel.Stat(fd->get(), ""), "statx", point));
    MOUNTD_ASSIGN(const MountFacts mount,
                  context.inspector.Facts(facts.mount_id));
    if (mount.type == "cgroup2" && mount.root == "/" && facts.mount_root) {
      return Hierarchy{std::move(fd).value(), point};
    }
  }
  return MakeError(Code::kNotSupported, "open cgroup", "/sys/fs/cgroup",
                   "no cgroup hierarchy (version 2) is mounted there");
}

std::string TextOf(std::uint64_t id) { return "cgroup " + std::to_string(id); }

Result<void> CheckGranted(const Context& context, const Cgroup& cgroup) {
  const bool granted = std::any_of(
      context.config.rules.begin(), context.config.rules.end(),
      [&](const RuleConfig& rule) { return AllowsCgroup(rule, cgroup.path); });
  return granted ? Ok()
                 : Result<void>(MakeError(Code::kPermissionDenied,
                                          "open cgroup", cgroup.path,
                                          "no rule grants it to this user; add "
                                          "it to cgroups in mountd.toml"));
}

Result<Cgroup> OpenById(const Context& context, const Hierarchy& hierarchy,
                        std::uint64_t id) {
  Sys<UniqueFd> dir = context.kernel.OpenKernfs(hierarchy.fd.get(), id);
  // The id names a directory of kernfs as a file handle; ESTALE means that the
  // kernel has removed it.
  if (exec::FailedWith(dir, ESTALE)) {
    return MakeError(Code::kNotFound, "open_by_handle_at", TextOf(id),
                     "no longer exists");
  }
  if (!dir) {
    return ErrnoError(dir.error(), "open_by_handle_at", TextOf(id));
  }
  MOUNTD_ASSIGN(
      const FileFacts facts,
      Named(context.kernel.Stat(dir->get(), ""), "statx", TextOf(id)));
  if (!S_ISDIR(facts.mode)) {
    return MakeError(Code::kInvalidArgument, "open_by_handle_at", TextOf(id),
                     "is not a cgroup");
  }
  MOUNTD_ASSIGN(
      const std::string path,
      Named(context.kernel.ReadLink(
                exec::kFromRoot, "/proc/self/fd/" + std::to_string(dir->get())),
            "readlink", TextOf(id)));
  if (!paths::IsAtOrBelow(path, hierarchy.point)) {
    return MakeError(Code::kFailedPrecondition, "readlink", TextOf(id),
                     "is in another mount");
  }
  const std::string below = path.substr(hierarchy.point.size());
  return Cgroup{std::move(dir).value(), facts.inode,
                below.empty() ? "/" : below};
}

// Adds the cgroup's own processes. Returns false for a threaded cgroup
// (cgroup.type "threaded"), whose processes only a cgroup above it lists.
Result<bool> AddProcesses(const Context& context, int dir, Members* members) {
  const Sys<std::string> text =
      context.kernel.ReadFile(dir, "cgroup.procs", kMaxProcsBytes);
  if (exec::FailedWith(text, EOPNOTSUPP)) {
    return false;
  }
  // ENOENT, ENODEV: the cgroup has been removed.
  if (exec::FailedWith(text, ENOENT) || exec::FailedWith(text, ENODEV)) {
    return true;
  }
  if (exec::FailedWith(text, EFBIG)) {
    members->all_seen = false;
    return true;
  }
  if (!text) {
    return ErrnoError(text.error(), "read", "cgroup.procs");
  }
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const auto pid = ParseNumber<std::uint32_t>(text->substr(at, end - at));
    if (pid && *pid != 0) {  // 0: the process is in no pid namespace seen from
                             // here
      members->pids.insert(*pid);
    }
    at = end + 1;
  }
  return true;
}

std::string ObjectOf(const Process& process) {
  return "process " + std::to_string(process.pid);
}

exec::CgroupState CgroupStateOf(const Cgroup& cgroup) {
  exec::CgroupState state;
  state.id = cgroup.id;
  std::copy(cgroup.path.begin(), cgroup.path.end(), state.path.begin());
  return state;
}

Result<exec::CgroupState> Told(const Cgroup& cgroup) {
  if (cgroup.path.size() >= exec::kMaxCgroupPath) {
    return MakeError(Code::kResourceExhausted, "open cgroup", TextOf(cgroup.id),
                     "its path is too long");
  }
  return CgroupStateOf(cgroup);
}

}  // namespace

Result<Cgroup> OpenAnyCgroup(const Context& context, std::uint64_t id) {
  MOUNTD_ASSIGN(const Hierarchy hierarchy, OpenHierarchy(context));
  return OpenById(context, hierarchy, id);
}

Result<Cgroup> OpenCgroup(const Context& context, std::uint64_t id) {
  MOUNTD_ASSIGN(Cgroup cgroup, OpenAnyCgroup(context, id));
  MOUNTD_TRY(CheckGranted(context, cgroup));
  return cgroup;
}

Result<std::optional<Cgroup>> OpenUnlessEmpty(const Context& context,
                                              std::uint64_t id) {
  MOUNTD_ASSIGN(Cgroup cgroup, OpenAnyCgroup(context, id));
  if (Result<void> granted = CheckGranted(context, cgroup); !granted) {
    MOUNTD_ASSIGN(const CgroupEvents events, ReadEvents(context, cgroup));
    if (events.populated) {
      return std::move(granted).error();
    }
    return std::optional<Cgroup>();
  }
  return std::optional<Cgroup>(std::move(cgroup));
}

Result<CgroupEvents> ReadEvents(const Context& context, const Cgroup& cgroup) {
  constexpr std::size_t kMaxBytes = 4096;
  // The kernel gives the root cgroup no such file.
  if (cgroup.path == "/") {
    return CgroupEvents{true, false};
  }
  const Sys<std::string> text =
      context.kernel.ReadFile(cgroup.dir.get(), "cgroup.events", kMaxBytes);
  // ENODEV: the cgroup was removed after its file was opened.
  if (exec::FailedWith(text, ENOENT) || exec::FailedWith(text, ENODEV)) {
    return CgroupEvents{false, true};
  }
  if (!text) {
    return ErrnoError(text.error(), "read cgroup.events", cgroup.path);
  }
  return CgroupEvents{LineAfter(*text, "populated ") != "0",
                      LineAfter(*text, "frozen ") == "1"};
}

Result<Cgroup> CgroupOf(const Context& context, const Process& process) {
  const std::string object = ObjectOf(process);
  MOUNTD_ASSIGN(const Hierarchy hierarchy, OpenHierarchy(context));
  MOUNTD_ASSIGN(const std::string path, CgroupPathOf(context, process));
  MOUNTD_ASSIGN(UniqueFd dir,
                OpenBeneath(context, hierarchy.fd.get(),
                            path == "/" ? "." : path.substr(1), object));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(dir.get(), ""), "statx", object));
  Cgroup cgroup{std::move(dir), facts.inode, path};
  MOUNTD_TRY(CheckGranted(context, cgroup));
  return cgroup;
}

Result<std::string> CgroupPathOf(const Context& context,
                                 const Process& process) {
  constexpr std::size_t kMaxBytes = 65536;
  MOUNTD_ASSIGN(
      const std::string text,
      Named(context.kernel.ReadFile(process.dir.get(), "cgroup", kMaxBytes),
            "read cgroup", ObjectOf(process)));
  // cgroups(7): the line "0::" is the hierarchy of version 2.
  return "/" + std::string(LineAfter(text, "0::/"));
}

Result<Cgroup> CheckWithin(const Context& context, const Process& process,
                           std::uint64_t id) {
  MOUNTD_ASSIGN(Cgroup allowed, OpenCgroup(context, id));
  MOUNTD_ASSIGN(const Cgroup own, CgroupOf(context, process));
  if (!paths::IsAtOrBelow(own.path, allowed.path)) {
    return MakeError(Code::kFailedPrecondition, "open process", "pidfd",
                     "the process is in another cgroup");
  }
  return allowed;
}

Result<Members> MembersOf(const Context& context, const Cgroup& cgroup) {
  exec::Kernel& kernel = context.kernel;
  Members members;
  std::vector<std::string> left = {"."};
  std::size_t seen = 0;
  while (!left.empty()) {
    const std::string path = std::move(left.back());
    left.pop_back();
    if (++seen > kMaxCgroups) {
      members.all_seen = false;
      break;
    }
    Result<UniqueFd> dir =
        OpenBeneath(context, cgroup.dir.get(), path, cgroup.path);
    if (!dir && dir.error().sys_errno == ENOENT) {
      continue;  // removed since
    }
    if (!dir) {
      return std::move(dir).error();
    }
    MOUNTD_ASSIGN(const bool are_listed,
                  AddProcesses(context, dir->get(), &members));
    // This walk visits no cgroup above its first one.
    if (!are_listed && path == ".") {
      MOUNTD_ASSIGN(const CgroupEvents events, ReadEvents(context, cgroup));
      members.all_seen = members.all_seen && !events.populated;
    }
    MOUNTD_ASSIGN(const std::vector<std::string> names,
                  Named(kernel.List(dir->get(), kMaxChildren), "getdents64",
                        cgroup.path));
    members.all_seen = members.all_seen && names.size() < kMaxChildren;
    for (const std::string& name : names) {
      const Sys<FileFacts> file = kernel.Stat(dir->get(), name);
      // A cgroup that cannot be told from a file may have processes.
      if (!file && file.error() != ENOENT) {
        return ErrnoError(file.error(), "statx", cgroup.path);
      }
      if (file && S_ISDIR(file->mode)) {
        left.push_back(std::string(path).append("/").append(name));
      }
    }
  }
  return members;
}

Result<exec::CgroupState> InspectCgroup(const Context& context,
                                        const exec::CgroupPlan& plan) {
  MOUNTD_ASSIGN(const Cgroup cgroup, OpenCgroup(context, plan.id));
  return Told(cgroup);
}

Result<exec::CgroupState> InspectTask(const Context& context, int pidfd) {
  MOUNTD_ASSIGN(const Process process, OpenProcess(context, pidfd));
  MOUNTD_ASSIGN(const Cgroup cgroup, CgroupOf(context, process));
  MOUNTD_ASSIGN(const FileFacts mounts,
                Named(context.kernel.StatLinked(process.dir.get(), "ns/mnt"),
                      "statx", ObjectOf(process)));
  // The pid may have been reused while this function read /proc; the pidfd
  // tells.
  MOUNTD_TRY(CheckAlive(context, pidfd));
  MOUNTD_ASSIGN(exec::CgroupState state, Told(cgroup));
  state.mount_namespace = mounts.inode;
  return state;
}

}  // namespace mountd::propagation
