// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/AdaptorInterfaces.h>

#include <memory>

namespace mountd::dbus {

// Serves org.freedesktop.LogControl1 (its man page, section 5) on the system
// bus. Shows the log level, and lets root alone set it at run time.
class LogControl {
 public:
  explicit LogControl(sdbus::IConnection& connection);

 private:
  void SetLevel(const std::string& level);

  std::unique_ptr<sdbus::IObject> object_;
};

}  // namespace mountd::dbus
