// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/AdaptorInterfaces.h>

#include <memory>

namespace mountd::dbus {

// org.freedesktop.LogControl1 (its man page, section 5) on the system bus: the
// log level, read and set at run time. Setting is for root alone.
class LogControl {
 public:
  explicit LogControl(sdbus::IConnection& connection);

 private:
  void SetLevel(const std::string& level);

  std::unique_ptr<sdbus::IObject> object_;
};

}  // namespace mountd::dbus
