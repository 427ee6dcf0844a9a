// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <span>
#include <string_view>

namespace mountd::dbus {

// One thing that an administrator may do with another user's objects, as polkit
// knows it. systemd/org.mountd1.policy lists the same actions.
struct AdministratorAction {
  std::string_view method;
  std::string_view id;
  // polkit shows this text to the person who authenticates. $(object) is the
  // object that mountd refused the call for.
  std::string_view message;
};

std::span<const AdministratorAction> AdministratorActions();

// Null if polkit is never asked about the method. That holds for each method
// that sets something up, because nobody sets up anything in another user's
// name.
const AdministratorAction* FindAdministratorAction(std::string_view method);

}  // namespace mountd::dbus
