// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/service/allocation_recovery.h"
#include "mountd/service/allocation_verbs.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/capability_verbs.h"
#include "mountd/service/controller_verbs.h"
#include "mountd/service/executor_features.h"
#include "mountd/service/fences.h"
#include "mountd/service/grant_verbs.h"
#include "mountd/service/inbox_verbs.h"
#include "mountd/service/lease_verbs.h"
#include "mountd/service/leases.h"
#include "mountd/service/mount_admission.h"
#include "mountd/service/mount_verbs.h"
#include "mountd/service/network_verbs.h"
#include "mountd/service/node_verbs.h"
#include "mountd/service/plugin_verbs.h"
#include "mountd/service/reconciler.h"
#include "mountd/service/reconciliation.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/task_verbs.h"
#include "mountd/service/teardowns.h"
#include "mountd/service/tree_verbs.h"
#include "mountd/service/volume_verbs.h"

namespace mountd {

// Owns the API's verbs without D-Bus, one small class for each subject, and the
// objects that these classes share. Each verb asks the policy and then calls
// the domains. Each verb is idempotent, and is either done or undone. An undo
// that fails becomes pending.
//
// Verbs block and run on workers. A verb that names an allocation runs on the
// allocation's strand, one that names a plugin on the plugin's. Never logs an
// error that a verb returns.
struct Services {
  explicit Services(const ServiceParts& with) : parts(with) {}
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  const ServiceParts parts;

  // The classes below keep references to these.
  Leases leases{parts.state, parts.boot, parts.lease_clocks};
  const CallerAccess access{parts, leases};
  Teardowns teardowns{parts, leases};
  Fences fences{parts, leases, teardowns};
  PreparedMeanwhile prepared;
  ExecutorFeatures features{parts};
  const MountAdmission admission{parts, access};

  AllocationRecovery recovery{parts, teardowns};
  AllocationVerbs allocations{parts, access, teardowns, prepared, leases};
  LeaseVerbs lease_verbs{parts, access, leases, fences};
  Reconciler reconciler{parts, access, teardowns, prepared};
  NetworkVerbs networks{parts, access, teardowns};
  VolumeVerbs volumes{parts, access, teardowns, admission};
  MountVerbs mounts{parts, access, teardowns, admission};
  InboxVerbs inboxes{parts, access};
  TreeVerbs trees{parts, access};
  TaskVerbs tasks{parts, access, features};
  PluginVerbs plugins{parts, access};
  ControllerVerbs controllers{parts, access};
  CapabilityVerbs capabilities{parts, access, features};
  NodeVerbs node{parts, access, teardowns};
  GrantVerbs grants{parts, access};
};

}  // namespace mountd
