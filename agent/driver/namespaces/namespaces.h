// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>

#include "agent/driver/namespaces/id_maps.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The user and network namespace of a rootless allocation. No process keeps
// these namespaces: mountd pins the network namespace (SetupNetwork with
// `netns`), and a network namespace keeps the user namespace that owns it.
namespace mountd::driver {

// Open files of /proc/PID/ns. The caller passes them on or closes them.
struct NewNamespaces {
  UniqueFd user;
  UniqueFd network;  // not valid if none was asked for
};

enum class WithNetwork { kNo, kYes };

// Makes a user namespace with these maps, owned by the process's user. Makes a
// network namespace that the user namespace owns, with lo up, each port open to
// each user in the namespace (net.ipv4.ip_unprivileged_port_start 0), and ping
// without CAP_NET_RAW (net.ipv4.ping_group_range). The child that made them has
// ended when this function returns.
//
// PermissionDenied if the machine lets no ordinary user make a user namespace.
// ResourceExhausted at a limit of namespaces or processes. Unavailable if
// somebody killed the child. DeadlineExceeded after `patience`. The message
// names the step. After any error nothing is left. Any thread.
Result<NewNamespaces> MakeNamespaces(
    const IdMaps& maps, WithNetwork network, const IdSources& sources = {},
    std::chrono::milliseconds patience = std::chrono::seconds(10));

// Returns the user namespace that owns this network namespace, NS_GET_USERNS of
// ioctl_ns(2). InvalidArgument if the fd is no network namespace, or one of the
// process's own user namespace, which no task can join.
// PermissionDenied if the user namespace is not beneath the process's own.
Result<UniqueFd> UserNamespaceOf(int network);

}  // namespace mountd::driver
