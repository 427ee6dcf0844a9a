// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::test {

// The handshake of a well-behaved client in one write; mountd answers it with
// three lines.
inline const std::string kHandshake =
    std::string(1, '\0') +
    "AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";

// Encodes a call of org.mountd1.Manager at /org/mountd1, little-endian; `body`
// has the types of `signature`. The header claims `body_size` bytes.
std::string MarshalCall(std::uint32_t serial, const std::string& member,
                        const std::string& signature, const std::string& body,
                        std::uint32_t body_size);
inline std::string MarshalCall(std::uint32_t serial, const std::string& member,
                               const std::string& signature = "",
                               const std::string& body = "") {
  return MarshalCall(serial, member, signature, body,
                     static_cast<std::uint32_t>(body.size()));
}
// Encodes a call to a bus name, which may be malformed.
std::string MarshalCallTo(std::uint32_t serial, const std::string& member,
                          const std::string& destination);
// Encodes a call that names no interface.
std::string MarshalCallWithoutInterface(std::uint32_t serial,
                                        const std::string& member);
// Encodes a call whose header claims `fds` fds.
std::string MarshalCallWithFds(std::uint32_t serial, const std::string& member,
                               std::uint32_t fds);
// Encodes a call of Introspect, the shortest call with a large answer.
std::string MarshalIntrospect(std::uint32_t serial);
// Encodes a call of Introspect whose header claims one fd.
std::string MarshalIntrospectWithFd(std::uint32_t serial);
// Encodes an `s` at the start of a body.
std::string MarshalText(const std::string& text);

// Sends the bytes in one message with the fds, at most SCM_MAX_FD (253). False
// if not all bytes went.
bool SendWithFds(int socket, const std::string& bytes,
                 const std::vector<int>& fds, int flags = 0);

// Owns a connection that sends any bytes. Never waits longer than kPatience.
class RawSocket {
 public:
  explicit RawSocket(const std::string& path);

  // False if not all bytes could be written, because the other end is gone.
  bool Write(const std::string& bytes);
  // Writes as many bytes as fit now. Returns their number, or nothing if the
  // other end is gone.
  std::optional<std::size_t> WriteSome(const std::string& bytes);
  bool WriteWithFd(const std::string& bytes, int fd) {
    return WriteWithFds(bytes, {fd});
  }
  // Sends at most SCM_MAX_FD (253) fds.
  bool WriteWithFds(const std::string& bytes, const std::vector<int>& fds,
                    int flags = 0);

  // Returns the next line without its end, or nothing.
  std::optional<std::string> ReadLine();
  // Returns the bytes of the next message.
  std::optional<std::string> ReadMessage();
  // Reads and discards until the other end hangs up. False if it does not.
  bool AwaitClosed();

  void Close() { fd_.reset(); }

 private:
  bool AwaitReady(short events) const;
  bool ReadExactly(std::size_t size, std::string& bytes);

  UniqueFd fd_;
};

}  // namespace mountd::test
