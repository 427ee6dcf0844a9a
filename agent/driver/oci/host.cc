// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/host.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "agent/driver/bundle/checks.h"
#include "agent/driver/oci/files.h"
#include "agent/driver/oci/program_output.h"
#include "mountd/base/fd_limit.h"

namespace mountd::driver {
namespace {

// The agent's user alone may enter, because images have set-user-ID files.
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

Result<void> CheckState(const std::string& state) {
  MOUNTD_TRY(CheckPath("state", state));
  // Overlayfs's options and mountinfo(5) escape these characters.
  if (state.find_first_of(",:\\\" \t\n") != std::string::npos) {
    return MakeError(Code::kInvalidArgument, "state", state,
                     "an overlay's path has no comma, colon, quote, backslash "
                     "or space; choose another directory");
  }
  return Ok();
}

// Refuses a directory in which another user could replace the entry that leads
// to the state. A sticky directory, such as /tmp, is safe, because only an
// entry's owner may replace it.
Result<void> CheckAncestor(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) {
    return ErrnoError(errno, "stat", path);
  }
  const bool is_own = found.st_uid == 0 || found.st_uid == ::geteuid();
  const bool is_safe = (found.st_mode & (S_IWGRP | S_IWOTH)) == 0 ||
                       (found.st_mode & S_ISVTX) != 0;
  return is_own && is_safe
             ? Ok()
             : Result<void>(MakeError(
                   Code::kPermissionDenied, "open", path,
                   "others may replace the directory of tasks beneath it; "
                   "choose a state beneath directories of your own"));
}

Result<void> CheckAncestors(const std::string& state) {
  const std::filesystem::path parent =
      std::filesystem::path(state).parent_path();
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(parent, failed);
  if (failed) {
    return ErrnoError(failed.value(), "resolve", parent.string());
  }
  for (std::filesystem::path path : {parent, real}) {
    for (; path != path.root_path(); path = path.parent_path()) {
      MOUNTD_TRY(CheckAncestor(path.string()));
    }
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<Host>> Host::Open(OciDriverOptions options) {
  MOUNTD_TRY(CheckState(options.state));
  if (options.shim.empty()) {
    options.shim = MOUNTD_INSTALLED_SHIM;
  }
  std::unique_ptr<Host> host(new Host(std::move(options)));
  host->shutdown_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!host->shutdown_.valid()) {
    return ErrnoError(errno, "eventfd", "the task driver");
  }
  // Each wait and each exec needs fds, and a task's fds in flight count against
  // this limit, too.
  RaiseFdLimit();
  MOUNTD_TRY(host->OpenState());
  host->maps_ = ChooseIdMaps();
  host->namespaces_ = std::make_unique<HostNamespaces>(
      host->maps_, host->options_.keeps_spare_namespaces);
  host->OpenCgroups();
  return host;
}

Result<void> Host::OpenState() {
  MOUNTD_TRY(CheckAncestors(state()));
  if (::mkdir(state().c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", state());
  }
  state_.reset(
      ::open(state().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat found = {};
  if (!state_.valid() || ::fstat(state_.get(), &found) != 0) {
    return ErrnoError(errno, "open", state());
  }
  if (found.st_uid != ::geteuid() || (found.st_mode & kOthers) != 0) {
    return MakeError(Code::kPermissionDenied, "open", state(),
                     "the directory of tasks belongs to another user, or is "
                     "open to others; it needs mode 0700");
  }
  MOUNTD_ASSIGN(tasks_, MakeDirectory(state_.get(), "tasks"));
  MOUNTD_ASSIGN(removed_, MakeDirectory(state_.get(), "removed"));
  MOUNTD_ASSIGN(const UniqueFd runtime, MakeDirectory(state_.get(), "runtime"));
  ImageStoreOptions images;
  images.directory = state() + "/images";
  MOUNTD_ASSIGN(images_, ImageStore::Open(images));
  return Ok();
}

void Host::Shutdown() const { ::eventfd_write(shutdown_.get(), 1); }

void Host::OpenCgroups() {
  if (options_.cgroup.empty()) {
    no_cgroups_ = "no cgroup is delegated to the driver";
    return;
  }
  auto opened = CgroupSubtree::Open(options_.cgroup);
  if (opened) {
    cgroups_ = *std::move(opened);
  } else {
    no_cgroups_ = opened.error().Message();
  }
}

Result<std::string> Host::RuntimeVersion(Look look) {
  const std::lock_guard lock(mutex_);
  if (!version_ || look == Look::kAgain) {
    MOUNTD_ASSIGN(std::string text, OutputOf({options_.runtime, "--version"}));
    version_ = text.substr(0, text.find('\n'));
  }
  return *version_;
}

Result<bool> Host::IsCrun() {
  const std::string_view runtime = options_.runtime;
  const std::string_view name = runtime.substr(runtime.rfind('/') + 1);
  if (name == "crun" || name == "runc") {
    return name == "crun";
  }
  MOUNTD_ASSIGN(const std::string version, RuntimeVersion());
  return version.starts_with("crun ");
}

std::string Host::CgroupPath(const std::string& name) const {
  if (!cgroups_) {
    return "";
  }
  std::error_code failed;
  const auto path = std::filesystem::canonical(options_.cgroup, failed);
  return (failed ? options_.cgroup : path.string()) + "/" + name;
}

std::string Host::CgroupsPath(const std::string& name) const {
  const std::string path = CgroupPath(name);
  constexpr std::string_view kMount = "/sys/fs/cgroup";
  // If cgroups are mounted elsewhere, the path stays as it is. The runtime then
  // makes the container in another cgroup, and the shim refuses this container.
  return path.starts_with(kMount) ? path.substr(kMount.size()) : path;
}

Result<std::vector<std::string>> Host::Runtime() {
  MOUNTD_ASSIGN(const bool is_crun, IsCrun());
  std::vector<std::string> words = {options_.runtime};
  if (is_crun) {
    // The shim joins the task's cgroup before it starts the runtime.
    words.emplace_back("--cgroup-manager=disabled");
  }
  return words;
}

}  // namespace mountd::driver
