// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/handshake.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>

namespace mountd::dbus {

Handshake StepHandshake(sd_bus* bus, EventLoop::Source& source, int* error) {
  for (;;) {
    const int processed = sd_bus_process(bus, nullptr);
    const int is_ready = sd_bus_is_ready(bus);
    if (processed < 0 || is_ready < 0 || sd_bus_is_open(bus) <= 0) {
      if (error != nullptr) {
        *error = processed < 0 ? processed : -ECONNRESET;
      }
      return Handshake::kFailed;
    }
    if (is_ready > 0) {
      return Handshake::kReady;
    }
    if (processed == 0) {
      break;
    }
  }
  // sd-bus gives poll(2)'s flags, and epoll's flags have the same values.
  const int events = sd_bus_get_events(bus);
  source.SetEvents(events < 0 ? EPOLLIN : static_cast<std::uint32_t>(events));
  return Handshake::kUnderWay;
}

}  // namespace mountd::dbus
