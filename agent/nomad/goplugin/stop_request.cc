// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/stop_request.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>

namespace mountd::goplugin {
namespace {

const StopRequest* of_signals = nullptr;

void OnStop(int /*signal*/) {
  const int before = errno;
  of_signals->Make();
  errno = before;
}

void OnIgnored(int /*signal*/) {}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() : event_(::eventfd(0, EFD_CLOEXEC)) {}

void StopRequest::Make() const { ::eventfd_write(event_.get(), 1); }

void StopRequest::Await() const {
  pollfd waiting = {event_.get(), POLLIN, 0};
  while (::poll(&waiting, 1, -1) < 0 && errno == EINTR) {
  }
}

void StopOnSignals(const StopRequest& request) {
  of_signals = &request;
  for (const int signal : {SIGTERM, SIGHUP}) {
    Handle(signal, &OnStop);
  }
  for (const int signal : {SIGINT, SIGPIPE}) {
    Handle(signal, &OnIgnored);
  }
}

}  // namespace mountd::goplugin
