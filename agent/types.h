// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The values that an agent sends to mountd and gets from it, as plain structs.
// dbus/org.mountd1.Manager.xml defines each field. Where the caller chooses
// from a closed set, the field is an enum. Where the daemon answers, the field
// is the daemon's own text, so that an older client can show an answer of a
// newer daemon.
//
// This header includes the values of every subject, so that an agent needs no
// other header of values, except types_controller.h for plugins' controllers.
#include "agent/types_allocations.h"
#include "agent/types_grants.h"
#include "agent/types_leases.h"
#include "agent/types_mounts.h"
#include "agent/types_networks.h"
#include "agent/types_node.h"
#include "agent/types_plugins.h"
#include "agent/types_tasks.h"
#include "agent/types_timestamp.h"
#include "agent/types_volumes.h"
