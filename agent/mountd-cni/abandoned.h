// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/links.h"
#include "mountd/base/result.h"

namespace mountd::cni_plugin {

// Whether MakeRoom may remove attachments of the container of this ADD.
enum class Own { kRemove, kKeep };

// Removes attachments of this user that block an ADD which mountd has refused.
// Their DEL never came, because the runtime called DEL while mountd was away
// and does not call it again. Such an attachment is
// - of the same container and interface, in this namespace, with another setup,
//   because a runtime adds no interface twice and so believes the first is
//   gone;
// - of the same container, in another namespace;
// - of another container in this namespace, or with a host port or an address
//   that this ADD asks for.
//
// Removes none of the same container with Own::kKeep.
//
// Removes an attachment of the last two kinds only if mountd finds no process
// of the host in its namespace, and if nothing but mountd keeps that namespace
// (IsHeld). Does not ask IsHeld about the namespace of this ADD, because the
// runtime that calls ADD keeps that namespace.
//
// Keeps an attachment in a namespace that a task driver has made, because the
// driver ends the namespace's networks itself.
//
// Keeps the volumes and mounts of such an attachment's allocation, and the
// allocation with them.
//
// Returns true if anything was removed, so that the same ADD may succeed now.
Result<bool> MakeRoom(agent::Client& client, const Environment& environment,
                      const Config& config, const Netns& netns, Own own);

}  // namespace mountd::cni_plugin
