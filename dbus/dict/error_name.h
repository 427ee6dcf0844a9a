// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Error.h>

#include <string>

#include "mountd/base/error.h"

namespace mountd::dbus {

inline constexpr char kErrorPrefix[] = "org.mountd1.Error.";

// "org.mountd1.Error.NotFound" and so on.
inline std::string ErrorName(const Error& error) {
  return kErrorPrefix + std::string(CodeName(error.code));
}

inline sdbus::Error ToDbus(const Error& error) {
  return {sdbus::Error::Name(ErrorName(error)), error.Message()};
}

}  // namespace mountd::dbus
