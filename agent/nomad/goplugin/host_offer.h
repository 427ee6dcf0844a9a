// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"

// The start of a plugin: the data that host and plugin exchange before the
// first RPC.
// Source: go-plugin 1.8.0, client.go and server.go.
namespace mountd::goplugin {

// The variable by which a plugin knows that a host has started it. The value is
// no secret.
struct Cookie {
  const char* key;
  const char* value;
};

// The host's part, as the environment has it. A member is "" if the host did
// not set it.
struct HostOffer {
  std::vector<int> versions{};       // of the application's protocol
  std::string socket_directory{};    // the socket has to be in it
  std::string socket_group{};        // a name or a gid that may connect, too
  std::string client_certificate{};  // PEM; the host wants TLS (AutoMTLS)
  // The host wants to run other connections within the first one, and reads a
  // seventh field of the handshake line.
  bool asks_for_multiplexing = false;
};

// Reads the offer, and removes go-plugin's variables from the environment, so
// that no later program has them. For the first thread of a process, before
// others begin. FailedPrecondition without the cookie: somebody has started the
// program by hand.
Result<HostOffer> TakeHostOffer(const Cookie& cookie);

// The plugin's part.
struct HandshakeAnswer {
  int version = 0;            // of the application's protocol
  std::string socket;         // a path
  std::string certificate{};  // DER; "": no TLS
};

// Returns the line that the host reads from stdout, with its newline.
std::string HandshakeLine(const HostOffer& offer,
                          const HandshakeAnswer& answer);

}  // namespace mountd::goplugin
