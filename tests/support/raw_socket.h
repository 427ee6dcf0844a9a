// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::test {

// What a well-behaved client says first, all at once; answered by three lines.
inline const std::string kHandshake =
    std::string(1, '\0') +
    "AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";

// A call of org.mountd1.Manager at /org/mountd1 as bytes, little-endian; `body`
// as `signature` says. `body_size` is what the header tells of it.
std::string MarshalCall(std::uint32_t serial, const std::string& member,
                        const std::string& signature, const std::string& body,
                        std::uint32_t body_size);
inline std::string MarshalCall(std::uint32_t serial, const std::string& member,
                               const std::string& signature = "",
                               const std::string& body = "") {
  return MarshalCall(serial, member, signature, body,
                     static_cast<std::uint32_t>(body.size()));
}
// The same, whose header says it has `fds` fds.
std::string MarshalCallWithFds(std::uint32_t serial, const std::string& member,
                               std::uint32_t fds);
// A call of Introspect: the shortest with a large answer.
std::string MarshalIntrospect(std::uint32_t serial);
// The same, that says it has an fd beside it.
std::string MarshalIntrospectWithFd(std::uint32_t serial);
// An `s`, as the first thing of a body.
std::string MarshalText(const std::string& text);

// A client that says what it likes. Waits for nothing longer than kPatience.
class RawSocket {
 public:
  explicit RawSocket(const std::string& path);

  // False if not all of it could be written: the other end is gone.
  bool Write(const std::string& bytes);
  // Writes what fits now; the number of bytes, or nothing if the other end has
  // gone.
  std::optional<std::size_t> WriteSome(const std::string& bytes);
  bool WriteWithFd(const std::string& bytes, int fd) {
    return WriteWithFds(bytes, {fd});
  }
  // At most SCM_MAX_FD (253).
  bool WriteWithFds(const std::string& bytes, const std::vector<int>& fds,
                    int flags = 0);

  // The next line, without its end; nothing if there is none.
  std::optional<std::string> ReadLine();
  // The next message's bytes.
  std::optional<std::string> ReadMessage();
  // Reads and forgets, until the other end hangs up. False if it does not.
  bool AwaitClosed();

  void Close() { fd_.reset(); }

 private:
  bool AwaitReady(short events) const;
  bool ReadExactly(std::size_t size, std::string& bytes);

  UniqueFd fd_;
};

}  // namespace mountd::test
