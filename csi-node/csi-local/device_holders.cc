// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/device_holders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "csi-node/csi-local/files.h"
#include "csi-node/csi-local/mount_table.h"
#include "mountd/base/number.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {
namespace {

constexpr std::size_t kMostHolders = 8;
constexpr char kOthers[] =
    "a mount, mapping or device outside of the processes that csi-local sees";

UniqueFd OpenProc(const std::string& path, int flags) {
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
}

// AT_STATX_DONT_SYNC, because the descriptor may lead to a file system that
// hangs.
bool IsOpenOn(const std::string& link, dev_t device) {
  struct statx status {};
  return ::statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE,
                 &status) == 0 &&
         S_ISBLK(status.stx_mode) &&
         makedev(status.stx_rdev_major, status.stx_rdev_minor) == device;
}

bool HasOpen(const std::string& process, dev_t device) {
  const UniqueFd directory = OpenProc(process + "/fd", O_RDONLY | O_DIRECTORY);
  const auto names =
      directory.valid()
          ? ListNames(directory.get())
          : Result<std::vector<std::string>>(std::vector<std::string>());
  return names &&
         std::any_of(names->begin(), names->end(), [&](const auto& name) {
           return IsOpenOn(process + "/fd/" + name, device);
         });
}

bool HasMounted(const std::string& process, dev_t device) {
  const auto table = ReadMountTable(process + "/mountinfo");
  return table &&
         std::any_of(table->begin(), table->end(),
                     [&](const auto& entry) { return entry.device == device; });
}

// Processes in the same mount namespace have the same mounts, so one lookup is
// enough.
std::string NamespaceOf(const std::string& process) {
  std::array<char, 64> link{};
  const ssize_t size =
      ::readlink((process + "/ns/mnt").c_str(), link.data(), link.size());
  return size > 0 ? std::string(link.data(), static_cast<std::size_t>(size))
                  : std::string();
}

std::string Describe(const std::string& pid) {
  const UniqueFd file = OpenProc("/proc/" + pid + "/comm", O_RDONLY);
  const auto name = ReadAll(file.get(), 64, pid);
  return "process " + pid +
         (name ? " (" + name->substr(0, name->find('\n')) + ")" : "");
}

}  // namespace

std::string DescribeHolders(dev_t device) {
  const UniqueFd proc = OpenProc("/proc", O_RDONLY | O_DIRECTORY);
  const auto names = ListNames(proc.get());
  std::set<std::string> seen;
  std::string text;
  std::size_t found = 0;
  for (const std::string& pid : names ? *names : std::vector<std::string>()) {
    const std::string process = "/proc/" + pid;
    if (!ParseNumber<pid_t>(pid) || found == kMostHolders) {
      continue;
    }
    const bool fresh = seen.insert(NamespaceOf(process)).second;
    if (HasOpen(process, device) || (fresh && HasMounted(process, device))) {
      text += (found++ == 0 ? "" : ", ") + Describe(pid);
    }
  }
  return text.empty() ? kOthers : text;
}

}  // namespace mountd::csi_local
