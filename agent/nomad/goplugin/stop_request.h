// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/unique_fd.h"

namespace mountd::goplugin {

// Somebody's wish that the plugin ends. Any thread, and a signal's handler.
class StopRequest {
 public:
  StopRequest();

  void Make() const;
  // Returns once there is a request; at once in all later calls.
  void Await() const;

 private:
  UniqueFd event_;
};

// Lets SIGTERM and SIGHUP make the request, SIGINT do nothing, because a
// terminal sends it to the whole group of the host, and SIGPIPE do nothing,
// because the plugin outlives the host's end of the log. These are handlers,
// which a program that this one starts does not inherit. `request` outlives the
// process.
void StopOnSignals(const StopRequest& request);

}  // namespace mountd::goplugin
