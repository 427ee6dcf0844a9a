// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "dbus/dict/options.h"
#include "mountd/service/grant_verbs.h"

// Converts what a caller may use to D-Bus, as org.mountd1.Manager.xml describes
// it.
namespace mountd::dbus {

// With `of_all_users`, the dictionary also says for which users alone the
// source is declared.
Dict ToDict(const HostVolumeGrant& grant, bool of_all_users);
Dict ToDict(const FilesystemGrant& grant, bool of_all_users);
Dict ToDict(const NetworkGrant& grant, bool of_all_users);

}  // namespace mountd::dbus
