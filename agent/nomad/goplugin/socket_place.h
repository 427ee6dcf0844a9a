// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/nomad/goplugin/host_offer.h"
#include "mountd/base/result.h"

namespace mountd::goplugin {

// Owns the place of the plugin's socket: a directory of its own with mode 0700,
// in the host's directory, $XDG_RUNTIME_DIR, $TMPDIR or /tmp. Removes socket
// and directory in its destructor.
class SocketPlace {
 public:
  // InvalidArgument if the path is too long for a socket.
  static Result<SocketPlace> Make(const HostOffer& offer);
  ~SocketPlace() { Remove(); }

  SocketPlace(const SocketPlace&) = delete;
  SocketPlace& operator=(const SocketPlace&) = delete;
  SocketPlace(SocketPlace&& other) noexcept;
  SocketPlace& operator=(SocketPlace&&) = delete;

  const std::string& socket() const { return socket_; }

  // Lets the group that the host names connect to the socket. The socket exists
  // already. Ok if the host names no group.
  Result<void> OpenToGroup(const HostOffer& offer) const;

  // Idempotent.
  void Remove();

 private:
  SocketPlace() = default;

  std::string directory_;
  std::string socket_;
};

}  // namespace mountd::goplugin
