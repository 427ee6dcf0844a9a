// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/socket_place.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "mountd/base/accounts.h"

namespace mountd::goplugin {
namespace {

constexpr char kName[] = "/mountd-plugin-XXXXXX";

// "" unless the variable is an absolute path of a directory that this user may
// write to.
std::string DirectoryOf(const char* variable) {
  const char* path = ::secure_getenv(variable);
  struct stat found = {};
  return path != nullptr && path[0] == '/' && ::stat(path, &found) == 0 &&
                 S_ISDIR(found.st_mode) && ::access(path, W_OK | X_OK) == 0
             ? path
             : "";
}

std::string ParentOf(const HostOffer& offer) {
  if (!offer.socket_directory.empty()) {
    return offer.socket_directory;
  }
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    std::string path = DirectoryOf(variable);
    if (!path.empty()) {
      return path;
    }
  }
  return "/tmp";
}

Result<void> GiveToGroup(const std::string& path, gid_t group, mode_t mode) {
  if (::chown(path.c_str(), static_cast<uid_t>(-1), group) != 0) {
    return ErrnoError(errno, "chown", path, "to the plugin host's group");
  }
  if (::chmod(path.c_str(), mode) != 0) {
    return ErrnoError(errno, "chmod", path);
  }
  return Ok();
}

}  // namespace

Result<SocketPlace> SocketPlace::Make(const HostOffer& offer) {
  std::string path = ParentOf(offer) + kName;
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() + 2 > kMost) {
    return MakeError(Code::kInvalidArgument, "listen", path,
                     "the path of a socket has at most 107 bytes; set TMPDIR "
                     "to a shorter path");
  }
  if (::mkdtemp(path.data()) == nullptr) {
    return ErrnoError(errno, "mkdtemp", path);
  }
  SocketPlace place;
  place.directory_ = path;
  place.socket_ = path + "/s";
  return place;
}

SocketPlace::SocketPlace(SocketPlace&& other) noexcept
    : directory_(std::exchange(other.directory_, "")),
      socket_(std::exchange(other.socket_, "")) {}

Result<void> SocketPlace::OpenToGroup(const HostOffer& offer) const {
  if (offer.socket_group.empty()) {
    return Ok();
  }
  MOUNTD_ASSIGN(const gid_t group, FindGroup(offer.socket_group));
  MOUNTD_TRY(GiveToGroup(socket_, group, 0660));
  return GiveToGroup(directory_, group, 0710);
}

void SocketPlace::Remove() {
  if (!directory_.empty()) {
    ::unlink(socket_.c_str());
    ::rmdir(directory_.c_str());
    directory_.clear();
  }
}

}  // namespace mountd::goplugin
