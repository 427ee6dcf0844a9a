// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>

#include "dbus/dict/options.h"
#include "mountd/base/trace_parent.h"

namespace mountd::dbus {

// Reads the options "traceparent" and "request_id", which every method has.
// Returns null if neither is given; such a call costs two look-ups of keys.
// Refuses the call by `reader` if an option is not valid.
std::shared_ptr<const CallTrace> ReadCallTrace(OptionReader& reader);

}  // namespace mountd::dbus
