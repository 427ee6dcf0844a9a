// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "dbus/methods/manager_serve.h"

// Parses the arguments of the methods that make bind mounts. BindMount's
// documentation in org.mountd1.Manager.xml defines them.
namespace mountd::dbus {

// BindMount's arguments.
struct MountArguments {
  std::string allocation;
  std::string task;
  std::string name;
  std::string source_type;
  std::string source;
  bool read_only = false;
  std::string propagation;
};

// Reads the options from `reader`. The caller still has to call Finish on
// `reader`.
Result<BindMountRequest> RequestFrom(const MountArguments& arguments,
                                     OptionReader& reader);

// Parses one element of BindMounts' @mounts; `number` is its index, for errors.
Result<BindMountRequest> RequestFrom(const std::string& allocation,
                                     const Dict& mount, std::size_t number);

// Returns a text that differs whenever two requests differ, for
// Operations::Call::arguments.
std::string IdentityOf(const BindMountRequest& request);

}  // namespace mountd::dbus
