// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/runner.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "netns/cni/answer.h"
#include "netns/cni/attachments.h"
#include "netns/cni/documents/request.h"
#include "netns/cni/network_verbs.h"
#include "netns/cni/request_bounds.h"

namespace mountd::cni {
namespace {

// Reads at most one byte more than a request may have.
Result<std::string> ReadInput(int in, const Deadline& deadline, int stop) {
  std::string text;
  std::array<char, 16384> buffer{};
  while (text.size() <= kRequestBounds.max_bytes) {
    std::array<pollfd, 2> fds = {{{in, POLLIN, 0}, {stop, POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(),
                             static_cast<int>(deadline.Left().count()));
    if (ready == 0 || fds[1].revents != 0) {
      return MakeError(Code::kDeadlineExceeded, "read", "request",
                       "the request did not end in time");
    }
    const ssize_t got =
        ready < 0 ? -1 : ::read(in, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR) {
      return ErrnoError(errno, "read", "request");
    }
    if (got == 0) {
      break;
    }
    text.append(buffer.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  return text;
}

bool WriteOutput(int out, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(out, text.data(), text.size());
    if (put < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(put < 0 ? 0 : static_cast<std::size_t>(put));
  }
  return true;
}

Result<Request> ReadRequest(int in, const Context& context) {
  MOUNTD_ASSIGN(const std::string text,
                ReadInput(in, context.deadline, context.stop));
  MOUNTD_ASSIGN(Request request, ParseRequest(text));
  return Bounded(context.options.bounds, context.options.verb,
                 std::move(request));
}

Json AnswerOperation(const Context& context, PluginPrograms& plugins, int in) {
  const std::string& verb = context.options.verb;
  if (verb == "list") {
    return List(context);
  }
  const Result<Request> request = ReadRequest(in, context);
  if (!request) {
    return Failure(request.error());
  }
  plugins.JoinTrace(request->traceparent);
  if (verb == "add") {
    return Add(context, *request);
  }
  if (verb == "check") {
    return Check(context, *request);
  }
  if (verb == "del") {
    return Del(context, *request);
  }
  return verb == "gc" ? CollectGarbage(context, *request)
                      : Status(context, *request);
}

}  // namespace

int RunOperation(const Options& options, const PluginCgroup& cgroup, int in,
                 int out, int stop) {
  const Deadline deadline = Deadline::After(options.deadline);
  PluginPrograms plugins(options.plugin_dirs, cgroup, stop);
  const Context context{options, plugins, deadline, stop};
  const std::string answer =
      ToText(AnswerOperation(context, plugins, in)) + "\n";
  return WriteOutput(out, answer) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace mountd::cni
