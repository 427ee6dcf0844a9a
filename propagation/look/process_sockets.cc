// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/process_sockets.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <string>
#include <string_view>

#include "mountd/base/number.h"
#include "propagation/ground/process.h"

namespace mountd::propagation {
namespace {

using exec::Named;

constexpr std::size_t kMaxFiles = 65'536;
constexpr std::size_t kStatusBytes = 16'384;

std::string TextOf(const Process& process) {
  return "process " + std::to_string(process.pid);
}

// Checks the real, effective, saved and file system uid: proc_pid_status(5).
Result<void> CheckUids(const Context& context, const Process& process,
                       std::uint32_t uid) {
  MOUNTD_ASSIGN(
      const std::string status,
      Named(context.kernel.ReadFile(process.dir.get(), "status", kStatusBytes),
            "read status", TextOf(process)));
  const std::string own = std::to_string(uid);
  const bool all_own =
      LineAfter(status, "Uid:\t") == own + "\t" + own + "\t" + own + "\t" + own;
  return all_own ? Ok()
                 : Result<void>(MakeError(Code::kPermissionDenied,
                                          "look at sockets", TextOf(process),
                                          "must belong to the caller's user"));
}

// Returns the inode in a text such as "socket:[12345]", as sockfs_dname of
// net/socket.c writes it; 0 if the text is another.
std::uint64_t InodeOf(std::string_view text) {
  constexpr std::string_view kBefore = "socket:[";
  if (!text.starts_with(kBefore) || !text.ends_with(']')) {
    return 0;
  }
  text.remove_prefix(kBefore.size());
  text.remove_suffix(1);
  return ParseNumber<std::uint64_t>(text).value_or(0);
}

}  // namespace

Result<std::set<std::uint64_t>> SocketsOf(const Context& context, int pidfd,
                                          std::uint32_t uid) {
  MOUNTD_ASSIGN(const Process process, OpenProcess(context, pidfd));
  MOUNTD_TRY(CheckUids(context, process, uid));
  MOUNTD_ASSIGN(
      const UniqueFd files,
      Named(context.kernel.Open(process.dir.get(), "fd",
                                O_PATH | O_DIRECTORY | O_CLOEXEC,
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
            "openat2", TextOf(process)));
  MOUNTD_ASSIGN(const std::vector<std::string> names,
                Named(context.kernel.List(files.get(), kMaxFiles), "getdents64",
                      TextOf(process)));
  if (names.size() == kMaxFiles) {
    return MakeError(Code::kResourceExhausted, "look at sockets",
                     TextOf(process), "has too many open files to inspect");
  }
  std::set<std::uint64_t> inodes;
  for (const std::string& name : names) {
    // An fd that was closed meanwhile counts as none.
    const exec::Sys<std::string> text =
        context.kernel.ReadLink(files.get(), name);
    if (const std::uint64_t inode = text ? InodeOf(*text) : 0; inode != 0) {
      inodes.insert(inode);
    }
  }
  // If the process is still alive, its pid was not reused, so these sockets are
  // the process's.
  MOUNTD_TRY(CheckAlive(context, pidfd));
  return inodes;
}

}  // namespace mountd::propagation
