// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/task_mounts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <string_view>
#include <utility>

#include "agent/client.h"
#include "agent/driver/bundle/checks.h"
#include "agent/driver/bundle/links.h"
#include "agent/driver/oci/destination.h"
#include "agent/driver/oci/files.h"

namespace mountd::driver {
namespace {

constexpr char kHosts[] = "/etc/hosts";
constexpr char kHostname[] = "/etc/hostname";
constexpr char kResolvConf[] = "/etc/resolv.conf";
// hosts(5) of Debian: the address of a machine's own name.
const std::string kOwnAddress = "127.0.1.1";

TaskPropagation PropagationOf(MountPropagation propagation) {
  switch (propagation) {
    case MountPropagation::kPrivate:
      return TaskPropagation::kPrivate;
    case MountPropagation::kHostToTask:
      return TaskPropagation::kHostToTask;
    case MountPropagation::kBidirectional:
      break;
  }
  return TaskPropagation::kBidirectional;
}

bool IsMountedAt(const TaskConfig& config, std::string_view path) {
  return std::any_of(
      config.mounts.begin(), config.mounts.end(),
      [&](const Mount& mount) { return mount.task_path == path; });
}

// Shows the directory of an orchestrator's logs read-only in the task. The
// orchestrator writes there with the rights of its user, and may follow a link
// that a task has placed (CVE-2026-6959). A mount point cannot be renamed.
Result<void> AddLogs(const std::string& alloc, std::vector<TaskMount>* mounts) {
  const std::string logs = alloc + "/logs";
  struct stat found = {};
  if (::lstat(logs.c_str(), &found) != 0) {
    return errno == ENOENT ? Ok()
                           : Result<void>(ErrnoError(errno, "lstat", logs));
  }
  if (!S_ISDIR(found.st_mode)) {
    return MakeError(Code::kInvalidArgument, "mount", logs,
                     "is no directory; a task may have replaced it");
  }
  mounts->push_back(
      {logs, "/alloc/logs", true, false, TaskPropagation::kPrivate});
  return Ok();
}

Result<void> AddDirectories(const TaskDirectories& directories,
                            std::vector<TaskMount>* mounts) {
  for (const auto& [host_path, task_path] :
       {std::pair(directories.alloc, "/alloc"),
        std::pair(directories.local, "/local"),
        std::pair(directories.secrets, "/secrets")}) {
    if (!host_path.empty()) {
      mounts->push_back(
          {host_path, task_path, false, false, TaskPropagation::kPrivate});
    }
  }
  return directories.alloc.empty() ? Ok() : AddLogs(directories.alloc, mounts);
}

// A mount covers a link beneath it, so the task would not see the link.
bool IsBeneathMount(const std::vector<TaskMount>& mounts,
                    const std::string& task_path) {
  return std::any_of(mounts.begin(), mounts.end(), [&](const TaskMount& mount) {
    return task_path != mount.destination &&
           IsAtOrBeneath(task_path, mount.destination);
  });
}

// ---- The inbox --------------------------------------------------------------

// Returns the path of the task's inbox; "" if mountd has no such allocation.
Result<std::string> InboxOf(Host& host, const TaskConfig& config) {
  if (!host.has_mountd() || config.mounts.empty()) {
    return std::string();
  }
  auto inbox = host.Ask([&](agent::Client& client) {
    return client.PrepareInbox(config.allocation, config.name);
  });
  if (!inbox && inbox.error().code == Code::kNotFound) {
    return std::string();
  }
  if (!inbox) {
    return inbox.error();
  }
  return inbox->host_path;
}

// Returns the mount's name in the inbox; "" for a mount elsewhere.
std::string NameInInbox(const Mount& mount, const std::string& inbox) {
  const std::string beneath = inbox + "/";
  if (inbox.empty() || !mount.host_path.starts_with(beneath)) {
    return "";
  }
  const std::string name = mount.host_path.substr(beneath.size());
  return name.find('/') == std::string::npos ? name : "";
}

// A link leads to mountd's own mount. So that mount needs the flags that the
// task asks for, and its propagation is what mountd gave it.
bool HasFlagsOf(const Mount& mount) {
  struct statvfs found = {};
  if (mount.propagation == MountPropagation::kBidirectional ||
      ::statvfs(mount.host_path.c_str(), &found) != 0) {
    return false;
  }
  return (!mount.read_only || (found.f_flag & ST_RDONLY) != 0) &&
         (!mount.noexec || (found.f_flag & ST_NOEXEC) != 0);
}

UniqueFd OpenInImage(int rootfs, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_openat2, rootfs, path.c_str(), &how, sizeof(how))));
}

std::string PathOfFd(int fd) {
  std::string path(PATH_MAX, '\0');
  const ssize_t got =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(),
                 path.size());
  path.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return path;
}

// Follows the image's own links on the way to the destination, so that the
// upper directory hides none of them. Parts that the image does not have stay
// as they are.
std::string InImage(int rootfs, const std::string& destination) {
  const std::string top = PathOfFd(rootfs);
  std::size_t end = destination.rfind('/');
  for (; end != 0 && end != std::string::npos;
       end = destination.rfind('/', end - 1)) {
    const UniqueFd parent = OpenInImage(rootfs, destination.substr(0, end));
    if (!parent.valid()) {
      continue;
    }
    const std::string path = PathOfFd(parent.get());
    return path.starts_with(top)
               ? path.substr(top.size()) + destination.substr(end)
               : destination;
  }
  return destination;
}

// Makes the directories above the link with the image's mode and owner, because
// overlayfs shows the mode and the owner of the upper directory.
Result<void> CopyParents(int rootfs, int upper, const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    const std::string parent = path.substr(1, end - 1);
    struct stat found = {};
    const UniqueFd in_image = OpenInImage(rootfs, parent);
    if (!in_image.valid()) {
      return Ok();
    }
    if (::fstat(in_image.get(), &found) != 0 ||
        (::mkdirat(upper, parent.c_str(), 0700) != 0 && errno != EEXIST) ||
        ::fchmodat(upper, parent.c_str(), found.st_mode & 07777, 0) != 0) {
      return ErrnoError(errno, "mkdir", "/" + parent);
    }
  }
  return Ok();
}

Result<void> PlaceLinks(int rootfs, const TaskPlace& place,
                        const Inbox& inbox) {
  MOUNTD_ASSIGN(const UniqueFd upper,
                OpenDirectory(place.directory.get(), "upper"));
  for (const InboxLink& link : inbox.links) {
    const std::string path = InImage(rootfs, link.destination);
    MOUNTD_TRY(CopyParents(rootfs, upper.get(), path));
    MOUNTD_TRY(PlaceLink(upper.get(), path, TargetOfLink(inbox, link)));
  }
  return Ok();
}

bool IsInImage(int rootfs, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, rootfs, path.c_str(),
                                             &how, sizeof(how))))
      .valid();
}

// Prepares the places of mounts that an image does not have. The runtime makes
// these places, but in somebody else's image, such as root's, the container's
// root may not write. So this function copies the directories above each place
// to the upper directory, where the container's root may write.
Result<void> PreparePlaces(int rootfs, const TaskPlace& place,
                           const std::vector<TaskMount>& mounts) {
  struct stat root = {};
  if (::fstat(rootfs, &root) != 0) {
    return ErrnoError(errno, "fstat", "image");
  }
  if (root.st_uid == ::geteuid()) {
    return Ok();
  }
  MOUNTD_ASSIGN(const UniqueFd upper,
                OpenDirectory(place.directory.get(), "upper"));
  for (const TaskMount& mount : mounts) {
    if (!IsInImage(rootfs, mount.destination)) {
      MOUNTD_TRY(
          CopyParents(rootfs, upper.get(), InImage(rootfs, mount.destination)));
    }
  }
  return Ok();
}

// Decides which mounts are links into the inbox, and which ones bind mounts of
// the task's own.
void PlaceMounts(const std::vector<Mount>& mounts, ContainerConfig* container) {
  const auto bind = [container](const Mount& mount) {
    container->mounts.push_back({mount.host_path, mount.task_path,
                                 mount.read_only, mount.noexec,
                                 PropagationOf(mount.propagation)});
  };
  std::vector<const Mount*> may_be_links;
  for (const Mount& mount : mounts) {
    if (!NameInInbox(mount, container->inbox.source).empty() &&
        HasFlagsOf(mount)) {
      may_be_links.push_back(&mount);
    } else {
      bind(mount);
    }
  }
  const std::vector<TaskMount> covering = container->mounts;
  for (const Mount* mount : may_be_links) {
    if (IsBeneathMount(covering, mount->task_path)) {
      bind(*mount);
    } else {
      container->inbox.links.push_back(
          {mount->task_path, NameInInbox(*mount, container->inbox.source)});
    }
  }
}

// ---- Files of the network ---------------------------------------------------

using NetworkFiles = std::map<std::string, std::string>;  // task path -> host

std::string ResolvConfOf(const DnsConfig& dns) {
  const auto line = [](const char* key, const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
      text += " " + word;
    }
    return words.empty() ? "" : key + text + "\n";
  };
  std::string text;
  for (const std::string& server : dns.servers) {
    text += "nameserver " + server + "\n";
  }
  return text + line("search", dns.searches) + line("options", dns.options);
}

// Files that mountd gives the allocation's tasks now, because the network that
// brings the names may be younger than the namespace.
struct FromMountd {
  NetworkFiles files{};
  std::string address{};  // without a prefix; "" if there is none
};

Result<FromMountd> AskMountd(Host& host, const TaskConfig& config) {
  FromMountd from;
  if (config.network.mode != NetworkMode::kGroup || !host.has_mountd()) {
    return from;
  }
  const auto allocation = host.Ask([&](agent::Client& client) {
    return client.GetAllocation(config.allocation);
  });
  if (!allocation && allocation.error().code == Code::kNotFound) {
    return from;
  }
  if (!allocation) {
    return allocation.error();
  }
  for (const agent::NetworkStatus& network : allocation->networks) {
    for (const agent::NetworkStatus::File& file : network.files) {
      from.files.insert_or_assign(file.task_path, file.host_path);
    }
    if (from.address.empty()) {
      from.address = network.address.substr(0, network.address.find('/'));
    }
  }
  return from;
}

// Adds the driver's own files where neither the task nor mountd gives a file.
Result<void> AddOwnFiles(const TaskConfig& config, const TaskPlace& place,
                         const std::string& hostname, FromMountd* given) {
  NetworkFiles* const files = &given->files;
  const std::string& address =
      given->address.empty() ? kOwnAddress : given->address;
  const auto add = [&](const char* task_path, const char* name,
                       const std::string& text) -> Result<void> {
    MOUNTD_TRY(WriteFile(place.directory.get(), name, text, Sync::kNone));
    if (::fchmodat(place.directory.get(), name, 0644, 0) != 0) {
      return ErrnoError(errno, "chmod", name);
    }
    files->insert_or_assign(task_path, place.path + "/" + name);
    return Ok();
  };
  if (config.dns) {
    MOUNTD_TRY(add(kResolvConf, "resolv.conf", ResolvConfOf(*config.dns)));
  } else if (config.network.mode == NetworkMode::kHost &&
             ::access(kResolvConf, R_OK) == 0) {
    files->try_emplace(kResolvConf, kResolvConf);
  }
  if (config.network.mode == NetworkMode::kHost) {
    files->try_emplace(kHosts, kHosts);
  } else if (files->count(kHosts) == 0) {
    MOUNTD_TRY(add(kHosts, "hosts",
                   "127.0.0.1 localhost\n::1 localhost ip6-localhost "
                   "ip6-loopback\n" +
                       address + " " + hostname + "\n"));
  }
  if (files->count(kHostname) == 0) {
    MOUNTD_TRY(add(kHostname, "hostname", hostname + "\n"));
  }
  return Ok();
}

}  // namespace

Result<void> AddTaskMounts(Host& host, const TaskConfig& config, int rootfs,
                           const TaskPlace& place, ContainerConfig* container) {
  MOUNTD_TRY(AddDirectories(config.directories, &container->mounts));
  MOUNTD_ASSIGN(container->inbox.source, InboxOf(host, config));
  PlaceMounts(config.mounts, container);
  MOUNTD_ASSIGN(FromMountd given, AskMountd(host, config));
  MOUNTD_TRY(AddOwnFiles(config, place, container->hostname, &given));
  for (const auto& [task_path, host_path] : given.files) {
    if (!IsMountedAt(config, task_path)) {
      container->mounts.push_back(
          {host_path, task_path, true, false, TaskPropagation::kPrivate});
    }
  }
  MOUNTD_TRY(CheckTaskMounts(container->mounts, container->inbox));
  for (const TaskMount& mount : container->mounts) {
    MOUNTD_TRY(CheckDestinationInImage(rootfs, mount.destination));
  }
  MOUNTD_TRY(CheckDestinationsInMounts(rootfs, container->mounts));
  MOUNTD_TRY(PreparePlaces(rootfs, place, container->mounts));
  return PlaceLinks(rootfs, place, container->inbox);
}

}  // namespace mountd::driver
