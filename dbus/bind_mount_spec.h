// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "dbus/manager_serve.h"

// What the methods that make bind mounts take, as BindMount's documentation
// says it.
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

// `reader` has the options, still to be finished.
Result<BindMountSpec> SpecFrom(const MountArguments& arguments,
                               OptionReader& reader);

// One element of BindMounts' @mounts.
Result<BindMountSpec> SpecFrom(const std::string& allocation, const Dict& mount,
                               std::size_t number);

// All that makes two specs different, for Operations::Call::arguments.
std::string IdentityOf(const BindMountSpec& spec);

}  // namespace mountd::dbus
