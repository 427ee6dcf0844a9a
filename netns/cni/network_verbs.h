// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "netns/cni/context.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/request.h"

// Operations on networks as such; each returns the document for stdout.
namespace mountd::cni {

// GC (CNI 1.1, section 2): runs DEL of each recorded attachment that the
// request does not list, then GC of the networks' plugins that know GC.
Json CollectGarbage(const Context& context, const Request& request);

// Runs STATUS of a network's plugins. For a network before CNI 1.1, only checks
// that the plugins are installed.
Json Status(const Context& context, const Request& request);

// Lists all networks and all unusable files with the reasons, and each plugin
// that the networks use with the versions it speaks.
Json List(const Context& context);

}  // namespace mountd::cni
