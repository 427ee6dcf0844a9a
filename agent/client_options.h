// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "agent/types_node.h"

// How a client of mountd connects and calls.
namespace mountd::agent {

struct ClientOptions {
  // Where mountd listens: "unix:path=/run/mountd/bus", or the path alone; "" is
  // that default. With `system_bus` the client ignores the address and calls
  // org.mountd1 on the system bus, which is slower and meant for operators.
  std::string address{};
  bool system_bus = false;
  // On the system bus only: lets polkit ask somebody to authenticate for a call
  // that only an administrator may make. Such a call may wait for minutes.
  bool interactive = false;

  // If true, lists and RetryOwed cover the objects of all users;
  // PermissionDenied unless the caller is an administrator. If false, an
  // administrator still gets all users' objects and other callers get their
  // own.
  bool all_users = false;

  // How long connecting may take. This includes the start of the daemon if its
  // socket starts it.
  std::chrono::milliseconds connect_timeout{15'000};

  // How long the daemon may work on one call before it answers InProgress. 0 is
  // the daemon's configured default (20 s, which is also the maximum).
  std::chrono::milliseconds patience{0};

  // If true, the client repeats a call that is answered InProgress until
  // `deadline` after the first try; the repeated call joins the work under way.
  // After `deadline`, or at once if false, the method returns InProgress with
  // the operation's id as its detail.
  bool join = true;
  std::chrono::milliseconds deadline{300'000};
  // If set, the client calls this function on its own thread after each
  // InProgress. If the function returns true, the client stops repeating the
  // call, and the method returns InProgress as after `deadline`. mountd
  // continues the work.
  std::function<bool()> give_up{};

  // The names of all calls, until Client::SetNames.
  CallNames names{};
  // If true, the client repeats a call without the traceparent if mountd
  // refuses traces, as 0.1.0 does. Meant for a trace from the environment,
  // because the caller did not ask for such a trace.
  bool optional_trace = false;

  // Each call runs this function on its own thread: with the method's name
  // before the call, and with "" after the call.
  std::function<void(std::string_view method)> on_call{};

  // If true, the client reconnects once when it finds the connection broken,
  // and repeats the call. The daemon may have carried out the first try. The
  // second try is still right, because every method is idempotent.
  bool reconnect = true;
};

}  // namespace mountd::agent
