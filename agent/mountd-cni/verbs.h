// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "netns/cni/documents/json.h"

// The specification's verbs (CNI 1.1, section 2), as the personalities mountd
// and bridge have them. Each makes a connection of its own, and may be repeated
// after any failure. DEL, CHECK and GC wait for mountd while it is away, within
// config.timeout.
namespace mountd::cni_plugin {

// An ADD's result, and lines for a person about what the ADD has left out; ""
// for none.
struct Added {
  cni::Json result;
  std::string warning;
};

// Returns the result. If mountd refuses the attachment, first removes
// attachments that block this one and whose DEL never came (MakeRoom). Undoes a
// failed ADD, unless mountd is out of reach; the runtime's DEL undoes it then.
Outcome<Added> Add(const Environment& environment, const Config& config);

// Removes the interface, and with its last interface an allocation that has
// neither volumes nor mounts.
Outcome<void> Del(const Environment& environment, const Config& config);

// kUnknownContainer if mountd does not know the attachment.
Outcome<void> Check(const Environment& environment, const Config& config);

Outcome<void> Gc(const Config& config);

// kPluginNotAvailable if mountd is out of reach, or its configuration has no
// such network for this user.
Outcome<void> Status(const Config& config);

}  // namespace mountd::cni_plugin
