// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/accepted_config.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/write_all.h"
#include "mountd/config/config.h"
#include "mountd/config/config_file.h"

namespace mountd {
namespace {

Result<void> WriteFile(const std::string& path, std::string_view text,
                       gid_t readers) {
  unlink(path.c_str());  // left by a process that was killed
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                         S_IRUSR | S_IWUSR));
  if (!fd.valid()) {
    return ErrnoError(errno, "open", path);
  }
  MOUNTD_TRY(WriteAll(fd.get(), text, path));
  if (fchown(fd.get(), 0, readers) != 0) {
    return ErrnoError(errno, "fchown", path);
  }
  // Set the mode last, so that no other group can read the file before the
  // chown.
  if (fchmod(fd.get(), S_IRUSR | S_IWUSR | S_IRGRP) != 0) {
    return ErrnoError(errno, "fchmod", path);
  }
  return Ok();
}

// Returns whether the base has an entry of any allocation, plugin or network. A
// directory that cannot be read counts as used.
bool IsBaseUsed() {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const char* part :
       {paths::kAllocations, paths::kPlugins, paths::kAnchors,
        paths::kFilesystems, paths::kNetworks, paths::kNetworkFiles}) {
    const fs::directory_iterator entries(fs::path(paths::kBase) / part, error);
    if (error ? error != std::errc::no_such_file_or_directory
              : entries != fs::directory_iterator()) {
      return true;
    }
  }
  return false;
}

// Opens mountd's own mount namespace; invalid if there is none. systemd starts
// the commands of a sandboxed service, even those with "+", in a copy of the
// host's mounts. The kernel leaves mounted namespace files out of such a copy,
// so this function looks below init's root too.
UniqueFd OpenOwnNamespace() {
  for (const char* root : {"", "/proc/1/root"}) {
    const std::string path = std::string(root) + paths::kNamespace;
    UniqueFd pin(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (pin.valid() && ioctl(pin.get(), NS_GET_NSTYPE) == CLONE_NEWNS) {
      return pin;
    }
  }
  return {};
}

// Returns whether the base in mountd's own mount namespace is used. A namespace
// that cannot be entered counts as used.
bool IsBaseUsedApart() {
  const UniqueFd pin = OpenOwnNamespace();
  if (!pin.valid()) {
    return false;
  }
  // A child enters the namespace, so that this process need not return.
  const pid_t child = fork();
  if (child == 0) {
    const bool used = setns(pin.get(), CLONE_NEWNS) != 0 || IsBaseUsed();
    _exit(used ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  int status = 0;
  return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

// Refuses a change of the base's mount namespace while the base is used,
// because the executors would then refuse every plan.
Result<void> CheckNamespaceChange(const std::string& accepted,
                                  const Config& next) {
  const Result<Config> now = LoadConfig(accepted, true);
  if (!now || now->mounts == next.mounts) {
    return Ok();
  }
  const bool used =
      now->mounts.own_namespace ? IsBaseUsedApart() : IsBaseUsed();
  return used ? Result<void>(MakeError(Code::kFailedPrecondition, "accept",
                                       "mounts.namespace",
                                       "cannot change while allocations or "
                                       "plugins exist; release them first"))
              : Ok();
}

}  // namespace

Result<void> AcceptConfig(const std::string& from, const std::string& to,
                          gid_t readers) {
  MOUNTD_ASSIGN(const std::string text, ReadConfigFile(from, true));
  MOUNTD_ASSIGN(const Config config, ParseConfig(text, from));
  MOUNTD_TRY(CheckNamespaceChange(to, config));
  // Write another file and rename it, so that a reader finds the old text or
  // the new text, and never a mixture.
  const std::string next = to + ".new";
  Result<void> written = WriteFile(next, text, readers);
  if (written && rename(next.c_str(), to.c_str()) != 0) {
    written = ErrnoError(errno, "rename", to);
  }
  if (!written) {
    unlink(next.c_str());
  }
  return written;
}

}  // namespace mountd
