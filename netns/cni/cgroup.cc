// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/number.h"
#include "netns/cni/deadline.h"

namespace mountd::cni {
namespace {

// The only place where systemd mounts cgroup2 when it delegates.
constexpr char kHierarchy[] = "/sys/fs/cgroup";
constexpr char kOwnCgroups[] = "/proc/self/cgroup";
constexpr std::string_view kPrefix = "cni-";
constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

constexpr std::chrono::milliseconds kEndGrace(500);
// For all cgroups that others left: a run must not wait long for a stuck one.
constexpr std::chrono::milliseconds kSweepGrace(200);

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.push_back(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

// Returns the path of this process's cgroup of version 2, relative to the
// hierarchy's root (cgroups(7)).
std::optional<std::string> OwnPath() {
  constexpr std::string_view kVersion2 = "0::/";
  const UniqueFd file(::open(kOwnCgroups, O_RDONLY | O_CLOEXEC));
  const std::string text = ReadAll(file.get());
  for (const std::string_view line : LinesOf(text)) {
    if (line.starts_with(kVersion2)) {
      return std::string(line.substr(kVersion2.size()));
    }
  }
  return std::nullopt;
}

bool HasMark(int directory, const char* name) {
  std::array<char, 2> value{};
  return ::fgetxattr(directory, name, value.data(), value.size()) == 1 &&
         value[0] == '1';
}

// Returns whether systemd delegated the cgroup. systemd sets both marks; kernel
// and capabilities decide which of them this process may read.
bool IsDelegated(int directory) {
  return HasMark(directory, "user.delegate") ||
         HasMark(directory, "trusted.delegate");
}

// Opens this process's own cgroup if it is delegated.
UniqueFd OpenDelegated() {
  const UniqueFd root(::open(kHierarchy, kDirectory));
  struct statfs filesystem {};
  const auto path = OwnPath();
  if (!root.valid() || !path || ::fstatfs(root.get(), &filesystem) != 0 ||
      filesystem.f_type != CGROUP2_SUPER_MAGIC) {
    return UniqueFd();
  }
  open_how how{};
  how.flags = kDirectory;
  // BENEATH and NO_XDEV, so that the path leads nowhere but to a cgroup.
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  UniqueFd own(static_cast<int>(::syscall(SYS_openat2, root.get(),
                                          path->empty() ? "." : path->c_str(),
                                          &how, sizeof(how))));
  return own.valid() && IsDelegated(own.get()) ? std::move(own) : UniqueFd();
}

bool Write(int directory, const char* file, const char* text) {
  const UniqueFd fd(::openat(directory, file, O_WRONLY | O_CLOEXEC));
  return fd.valid() && ::write(fd.get(), text, 1) == 1;
}

// Kills each listed process, for kernels before 5.14.
void KillListed(int directory) {
  const UniqueFd list(
      ::openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC));
  const std::string text = ReadAll(list.get());
  for (const std::string_view line : LinesOf(text)) {
    // 0 stands for a process without a number in this pid namespace.
    const auto pid = ParseNumber<pid_t>(line);
    if (pid && *pid > 0) {
      ::kill(*pid, SIGKILL);
    }
  }
}

void KillAll(int directory) {
  // cgroup.kill (Linux 5.14) also kills what is forked meanwhile (the kernel's
  // documentation of cgroup v2, "Core Interface Files").
  if (!Write(directory, "cgroup.kill", "1")) {
    KillListed(directory);
  }
}

// Returns whether the name still belongs to the open directory.
bool IsAt(int parent, const std::string& name, int directory) {
  struct stat named {};
  struct stat opened {};
  return ::fstatat(parent, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(directory, &opened) == 0 && named.st_ino == opened.st_ino;
}

// Kills and removes the cgroup. The caller holds its lock, so the name stays
// this directory's until the directory is gone.
void KillAndRemove(int parent, const std::string& name, int directory,
                   const Deadline& deadline) {
  while (IsAt(parent, name, directory)) {
    KillAll(directory);
    // EBUSY until the last process is gone; one may fork while it is killed.
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 ||
        deadline.Passed()) {
      return;
    }
    ::poll(nullptr, 0, 1);
  }
}

// Opens the cgroup and locks it. Invalid if another process holds the lock, or
// held it and removed the directory.
UniqueFd OpenLocked(int parent, const std::string& name) {
  UniqueFd directory(::openat(parent, name.c_str(), kDirectory));
  const bool locked = directory.valid() &&
                      ::flock(directory.get(), LOCK_EX | LOCK_NB) == 0 &&
                      IsAt(parent, name, directory.get());
  return locked ? std::move(directory) : UniqueFd();
}

// Returns the names of the runs' cgroups beneath `parent`.
std::vector<std::string> RunsIn(int parent) {
  std::vector<std::string> names;
  // Open the directory again, because the read position of an inherited
  // descriptor is shared with other processes.
  const int fd = ::openat(parent, ".", kDirectory);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      fd < 0 ? nullptr : ::fdopendir(fd), &::closedir);
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    const std::string_view name(&entry->d_name[0]);
    if (name.starts_with(kPrefix) &&
        ParseNumber<pid_t>(name.substr(kPrefix.size()))) {
      names.emplace_back(name);
    }
  }
  return names;
}

// Removes cgroups whose runner was killed together with its worker.
void Sweep(int parent) {
  const Deadline deadline = Deadline::After(kSweepGrace);
  for (const std::string& name : RunsIn(parent)) {
    const UniqueFd left = OpenLocked(parent, name);
    if (left.valid()) {
      KillAndRemove(parent, name, left.get(), deadline);
    }
  }
}

}  // namespace

PluginCgroup::PluginCgroup(UniqueFd parent, UniqueFd directory,
                           std::string name)
    : parent_(std::move(parent)),
      directory_(std::move(directory)),
      name_(std::move(name)) {}

PluginCgroup PluginCgroup::Make() {
  UniqueFd parent = OpenDelegated();
  if (!parent.valid()) {
    return {};
  }
  Sweep(parent.get());
  std::string name = std::string(kPrefix) + std::to_string(::getpid());
  if (::mkdirat(parent.get(), name.c_str(), S_IRWXU) != 0) {
    return {};
  }
  // Until this process has the lock, another runner may take the cgroup for a
  // leftover and remove it.
  UniqueFd directory = OpenLocked(parent.get(), name);
  if (!directory.valid()) {
    return {};
  }
  return {std::move(parent), std::move(directory), std::move(name)};
}

void PluginCgroup::Enter() const {
  if (exists()) {
    // cgroups(7): 0 stands for the process that writes.
    static_cast<void>(Write(directory_.get(), "cgroup.procs", "0"));
  }
}

void PluginCgroup::Kill() const {
  if (exists()) {
    KillAll(directory_.get());
  }
}

void PluginCgroup::End() const {
  if (exists()) {
    KillAndRemove(parent_.get(), name_, directory_.get(),
                  Deadline::After(kEndGrace));
  }
}

}  // namespace mountd::cni
