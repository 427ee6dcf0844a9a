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

// Makes SIGTERM and SIGHUP set the request. SIGINT does nothing, because a
// terminal sends it to the host's whole process group. SIGPIPE does nothing,
// because the plugin outlives the host's end of the log. All four have
// handlers, because a started program does not inherit handlers. `request`
// outlives the process.
void StopOnSignals(const StopRequest& request);

}  // namespace mountd::goplugin
