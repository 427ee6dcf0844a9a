// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/unix_endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "mountd/base/unique_fd.h"
#include "mountd/base/unix_socket.h"

namespace mountd {
namespace {

// Tries for a second. A server that was killed may just have started a tool,
// and the tool keeps the server's socket open until its exec.
constexpr int kProbeTries = 50;
constexpr std::chrono::milliseconds kProbePause(20);

bool IsRefusedAt(const std::string& path) {
  // SOCK_NONBLOCK, because connect(2) would wait while the listener's queue is
  // full.
  const UniqueFd probe(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ConnectUnix(probe.get(), path) == ECONNREFUSED;
}

bool IsListenedOn(const std::string& path) {
  for (int i = 0; i < kProbeTries; ++i) {
    if (IsRefusedAt(path)) {
      return false;
    }
    std::this_thread::sleep_for(kProbePause);
  }
  return true;
}

}  // namespace

Result<std::string> EndpointPath(std::string_view endpoint) {
  for (const std::string_view scheme : {"unix://", "unix:"}) {
    if (endpoint.substr(0, scheme.size()) == scheme) {
      endpoint.remove_prefix(scheme.size());
      break;
    }
  }
  if (endpoint.empty() || endpoint[0] != '/') {
    return MakeError(Code::kInvalidArgument, "endpoint", std::string(endpoint),
                     "must be the absolute path of a unix socket");
  }
  if (endpoint.size() >= sizeof(sockaddr_un::sun_path)) {
    return MakeError(Code::kInvalidArgument, "endpoint", std::string(endpoint),
                     "is longer than a socket address can be");
  }
  return std::string(endpoint);
}

Result<void> RemoveStaleSocket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? Ok()
                           : Result<void>(ErrnoError(errno, "lstat", path));
  }
  if (!S_ISSOCK(status.st_mode)) {
    return MakeError(Code::kAlreadyExists, "endpoint", path,
                     "exists and is not a socket; remove it");
  }
  if (IsListenedOn(path)) {
    return MakeError(Code::kAlreadyExists, "endpoint", path,
                     "another process already listens there; stop it or choose "
                     "another path");
  }
  if (::unlink(path.c_str()) != 0) {
    return ErrnoError(errno, "unlink", path);
  }
  return Ok();
}

}  // namespace mountd
