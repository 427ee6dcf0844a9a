// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "netns/cni/context.h"
#include "netns/cni/json.h"
#include "netns/cni/request.h"

// What is about networks as such; each answers the document for stdout.
namespace mountd::cni {

// GC (CNI 1.1, section 2): DEL of each recorded attachment that the request
// does not list, then GC of the networks' plugins that know it.
Json CollectGarbage(const Context& context, const Request& request);

// STATUS of a network's plugins, before CNI 1.1 only whether they are there.
Json Status(const Context& context, const Request& request);

// All networks and what is unusable, with the reasons; each plugin that they
// use, with the versions it speaks.
Json List(const Context& context);

}  // namespace mountd::cni
