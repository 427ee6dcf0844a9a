// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <span>
#include <string_view>

namespace mountd::dbus {

// What an administrator does with what is another user's, as polkit knows it:
// systemd/org.mountd1.policy has the same actions.
struct AdministratorAction {
  std::string_view method;
  std::string_view id;
  // For who authenticates. $(object) is what the call was refused for.
  std::string_view message;
};

std::span<const AdministratorAction> AdministratorActions();

// Null for a method that polkit is never asked about: nobody sets up anything
// in another user's name.
const AdministratorAction* FindAdministratorAction(std::string_view method);

}  // namespace mountd::dbus
