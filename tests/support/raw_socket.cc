// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/raw_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "mountd/base/unix_socket.h"
#include "tests/support/bus_client.h"

namespace mountd::test {
namespace {

constexpr char kMethodCall = 1;

// Encodes D-Bus values, as far as a method call needs them.
class Writer {
 public:
  Writer& Byte(int value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  Writer& Number(std::uint32_t value) {
    Align(4);
    std::array<char, 4> raw{};
    std::memcpy(raw.data(), &value, raw.size());
    bytes_.append(raw.data(), raw.size());
    return *this;
  }
  Writer& Text(const std::string& text) {
    Number(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
    return Byte(0);
  }
  Writer& Signature(const std::string& text) {
    Byte(static_cast<int>(text.size()));
    bytes_ += text;
    return Byte(0);
  }
  Writer& Align(std::size_t size) {
    bytes_.resize((bytes_.size() + size - 1) / size * size, '\0');
    return *this;
  }
  Writer& Field(int code, const std::string& type, const std::string& value) {
    Align(8).Byte(code).Signature(type);
    return type == "g" ? Signature(value) : Text(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::uint32_t NumberAt(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// Encodes a call without its body. "" is no interface.
std::string Marshal(std::uint32_t serial, const std::string& interface,
                    const std::string& member, const std::string& signature,
                    std::uint32_t body_size, std::uint32_t fds = 0,
                    const std::optional<std::string>& destination = {}) {
  Writer fields;
  fields.Field(1, "o", "/org/mountd1");
  if (!interface.empty()) {
    fields.Field(2, "s", interface);
  }
  fields.Field(3, "s", member);
  if (destination) {
    fields.Field(6, "s", *destination);
  }
  if (!signature.empty()) {
    fields.Field(8, "g", signature);
  }
  if (fds != 0) {
    fields.Align(8).Byte(9).Signature("u").Number(fds);
  }
  Writer header;
  header.Byte('l').Byte(kMethodCall).Byte(0).Byte(1);
  header.Number(body_size).Number(serial);
  header.Number(static_cast<std::uint32_t>(fields.bytes().size()));
  // The fields begin at a multiple of 8, so their own padding is correct.
  std::string message = header.bytes() + fields.bytes();
  message.resize((message.size() + 7) / 8 * 8, '\0');
  return message;
}

}  // namespace

std::string MarshalText(const std::string& text) {
  return Writer().Text(text).bytes();
}

std::string MarshalCall(std::uint32_t serial, const std::string& member,
                        const std::string& signature, const std::string& body,
                        std::uint32_t body_size) {
  return Marshal(serial, "org.mountd1.Manager", member, signature, body_size) +
         body;
}

std::string MarshalCallTo(std::uint32_t serial, const std::string& member,
                          const std::string& destination) {
  return Marshal(serial, "org.mountd1.Manager", member, "", 0, 0, destination);
}

std::string MarshalCallWithoutInterface(std::uint32_t serial,
                                        const std::string& member) {
  return Marshal(serial, "", member, "", 0);
}

std::string MarshalIntrospect(std::uint32_t serial) {
  return Marshal(serial, "org.freedesktop.DBus.Introspectable", "Introspect",
                 "", 0);
}

std::string MarshalIntrospectWithFd(std::uint32_t serial) {
  return Marshal(serial, "org.freedesktop.DBus.Introspectable", "Introspect",
                 "", 0, 1);
}

std::string MarshalCallWithFds(std::uint32_t serial, const std::string& member,
                               std::uint32_t fds) {
  return Marshal(serial, "org.mountd1.Manager", member, "", 0, fds);
}

RawSocket::RawSocket(const std::string& path)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (ConnectUnix(fd_.get(), path) != 0) {
    fd_.reset();
  }
}

bool RawSocket::AwaitReady(short events) const {
  pollfd entry{fd_.get(), events, 0};
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
  return fd_.valid() &&
         ::poll(&entry, 1, static_cast<int>(patience.count())) > 0;
}

std::optional<std::size_t> RawSocket::WriteSome(const std::string& bytes) {
  const ssize_t done =
      ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (done < 0 && errno != EAGAIN) {
    return std::nullopt;
  }
  return done < 0 ? 0 : static_cast<std::size_t>(done);
}

bool RawSocket::Write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const auto some =
        AwaitReady(POLLOUT) ? WriteSome(bytes.substr(done)) : std::nullopt;
    if (!some) {
      return false;
    }
    done += *some;
  }
  return true;
}

bool SendWithFds(int socket, const std::string& bytes,
                 const std::vector<int>& fds, int flags) {
  const std::size_t size = fds.size() * sizeof(int);
  std::vector<std::max_align_t> control(
      CMSG_SPACE(size) / sizeof(std::max_align_t) + 1);
  std::string data = bytes;
  iovec part{data.data(), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(size);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(header), fds.data(), size);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | flags) ==
         static_cast<ssize_t>(bytes.size());
}

bool RawSocket::WriteWithFds(const std::string& bytes,
                             const std::vector<int>& fds, int flags) {
  return SendWithFds(fd_.get(), bytes, fds, flags);
}

bool RawSocket::ReadExactly(std::size_t size, std::string& bytes) {
  while (size > 0) {
    std::array<char, 4096> buffer{};
    if (!AwaitReady(POLLIN)) {
      return false;
    }
    const ssize_t got =
        ::recv(fd_.get(), buffer.data(), std::min(size, buffer.size()), 0);
    if (got <= 0) {
      return false;
    }
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<std::string> RawSocket::ReadLine() {
  std::string line;
  while (!line.ends_with("\r\n")) {
    if (!ReadExactly(1, line)) {
      return std::nullopt;
    }
  }
  return line.substr(0, line.size() - 2);
}

std::optional<std::string> RawSocket::ReadMessage() {
  std::string bytes;
  if (!ReadExactly(16, bytes)) {
    return std::nullopt;
  }
  const std::size_t fields = (NumberAt(bytes, 12) + 7U) / 8 * 8;
  if (!ReadExactly(fields + NumberAt(bytes, 4), bytes)) {
    return std::nullopt;
  }
  return bytes;
}

bool RawSocket::AwaitClosed() {
  std::array<char, 65536> buffer{};
  while (AwaitReady(POLLIN)) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
      return true;
    }
  }
  return !fd_.valid();
}

}  // namespace mountd::test
