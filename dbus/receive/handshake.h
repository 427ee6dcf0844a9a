// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include "dbus/receive/event_loop.h"

namespace mountd::dbus {

enum class Handshake { kUnderWay, kReady, kFailed };

// Advances the handshake of a started connection, at either end of it, as far
// as it goes without waiting, and has `source` watch for the event that the
// handshake needs next. Stops as soon as the connection is ready, because the
// next step would dispatch a pipelined message that nothing handles yet.
// `error`, if given, receives the reason of a failure, a negative errno.
Handshake StepHandshake(sd_bus* bus, EventLoop::Source& source,
                        int* error = nullptr);

}  // namespace mountd::dbus
