// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/span_export.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>
#include <string_view>
#include <utility>

#include "agent/mountctl/output/otlp.h"
#include "agent/mountctl/output/output.h"
#include "mountd/base/trace_parent.h"
#include "mountd/base/unix_socket.h"
#include "mountd/base/write_all.h"

namespace mountd::agent {
namespace {

using Clock = SpanExporter::Clock;

Error LateCollector(const std::string& path) {
  return MakeError(Code::kDeadlineExceeded, "export spans", path,
                   "the collector does not answer in time");
}

// Waits until the socket is ready for `events`.
Result<void> AwaitSocket(int socket, short events, Clock::time_point deadline,
                         const std::string& path) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry = {socket, events, 0};
    const int ready = ::poll(
        &entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) {
      return Ok();
    }
    if (ready == 0) {
      return LateCollector(path);
    }
    if (errno != EINTR) {
      return ErrnoError(errno, "poll", path);
    }
  }
}

Result<UniqueFd> ConnectTo(const std::string& path) {
  // Non-blocking, so that a full backlog is EAGAIN.
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    return ErrnoError(errno, "socket", path);
  }
  if (const int err = ConnectUnix(socket.get(), path); err != 0) {
    return ErrnoError(err, "connect", path);
  }
  return socket;
}

Result<void> SendAll(int socket, std::string_view text,
                     Clock::time_point deadline, const std::string& path) {
  while (!text.empty()) {
    MOUNTD_TRY(AwaitSocket(socket, POLLOUT, deadline, path));
    const ssize_t sent =
        ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      return ErrnoError(errno, "send", path);
    }
    text.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
  }
  return Ok();
}

// Reads the answer's first line, and no more than `kMostBytes`.
Result<std::string> ReadStatusLine(int socket, Clock::time_point deadline,
                                   const std::string& path) {
  constexpr std::size_t kMostBytes = 1024;
  std::string text;
  while (text.find('\n') == std::string::npos && text.size() < kMostBytes) {
    MOUNTD_TRY(AwaitSocket(socket, POLLIN, deadline, path));
    std::array<char, kMostBytes> buffer{};
    const ssize_t got =
        ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0) {
      break;
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return ErrnoError(errno, "recv", path);
    }
    text.append(buffer.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  return text.substr(0, text.find_first_of("\r\n"));
}

bool IsSuccess(std::string_view status_line) {
  return status_line.starts_with("HTTP/1.1 2") ||
         status_line.starts_with("HTTP/1.0 2");
}

// Makes one HTTP/1.1 request on a connection of its own (RFC 9112).
Result<void> PostOnce(const std::string& path, const std::string& body) {
  const auto deadline = Clock::now() + SpanExporter::kPatience;
  MOUNTD_ASSIGN(const UniqueFd socket, ConnectTo(path));
  const std::string head =
      "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";
  MOUNTD_TRY(SendAll(socket.get(), head + body, deadline, path));
  MOUNTD_ASSIGN(const std::string line,
                ReadStatusLine(socket.get(), deadline, path));
  return IsSuccess(line) ? Ok()
                         : Result<void>(MakeError(
                               Code::kUnavailable, "export spans", path,
                               "the collector answered \"" + line + "\""));
}

}  // namespace

Result<SpanExporter> SpanExporter::To(const std::string& path, bool unsampled) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    return SpanExporter(path, UniqueFd(), unsampled);
  }
  constexpr mode_t kMode = 0644;
  UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode));
  if (!file.valid()) {
    return ErrnoError(errno, "open", path);
  }
  return SpanExporter(path, std::move(file), unsampled);
}

Result<void> SpanExporter::Export(const OperationStatus& operation) {
  const auto trace = ParseTraceParent(operation.traceparent);
  if (!trace || (!trace->sampled() && !unsampled_)) {
    return Ok();
  }
  const Json request = ToOtlp(operation);
  if (request.is_null()) {
    return Ok();
  }
  const std::string text = Dump(request, -1);
  if (file_.valid()) {
    return WriteAll(file_.get(), text + "\n", path_);
  }
  Post(text, operation.spans.size());
  return Ok();
}

void SpanExporter::Post(const std::string& body, std::size_t spans) {
  if (Clock::now() < paused_until_) {
    lost_ += spans;
    return;
  }
  const Result<void> posted = PostOnce(path_, body);
  if (posted) {
    return;
  }
  lost_ += spans;
  paused_until_ = Clock::now() + kPause;
  std::cerr << "mountctl: "
            << Printable(posted.error().Message() + "; " +
                         std::to_string(lost_) + " spans are lost so far")
            << std::endl;
}

}  // namespace mountd::agent
