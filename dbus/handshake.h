// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include "dbus/event_loop.h"

namespace mountd::dbus {

enum class Handshake { kUnderWay, kReady, kFailed };

// Takes the handshake of a started connection, at either end of it, as far as
// it goes without waiting, and has `source` watch for what it needs next. Stops
// as soon as it is ready: the next step would dispatch a pipelined message to
// nobody. `error`, if given, gets the reason of a failure, a negative errno.
Handshake StepHandshake(sd_bus* bus, EventLoop::Source& source,
                        int* error = nullptr);

}  // namespace mountd::dbus
