// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-bus.h>

#include <optional>
#include <string>

#include "csi-node/node/plugin_status.h"
#include "dbus/methods/api_parts.h"
#include "dbus/methods/caller_source.h"

namespace mountd::dbus {

// Returns /org/mountd1/plugin/<plugin>/<instance>, as org.mountd1.Plugin.xml
// defines it.
std::string PluginObjectPath(const csi::PluginInstance& instance);

// Appends the body of PropertiesChanged with all properties of `instance`.
// Returns a negative errno on failure.
int AppendChanged(sd_bus_message* message, const csi::PluginInstance& instance);

// Serves org.mountd1.Plugin on one connection. Keeps no objects; looks each one
// up in the registry for the caller that asks. Logs an administrator's reads of
// other users' objects. Runs on the loop's thread.
class PluginObjects {
 public:
  PluginObjects(const ApiParts& parts, CallerSource& callers)
      : parts_(parts), callers_(callers) {}
  ~PluginObjects() { Remove(); }
  PluginObjects(const PluginObjects&) = delete;
  PluginObjects& operator=(const PluginObjects&) = delete;

  int AddTo(sd_bus* bus);  // negative errno
  void Remove();

 private:
  static int Find(sd_bus* bus, const char* path, const char* interface,
                  void* userdata, void** found, sd_bus_error* error);
  static int Enumerate(sd_bus* bus, const char* prefix, void* userdata,
                       char*** nodes, sd_bus_error* error);
  std::optional<CallContext> Asking(sd_bus* bus);
  void AuditIfOthers(sd_bus* bus, const CallContext& asking,
                     const std::string& object) const;

  const ApiParts& parts_;
  CallerSource& callers_;
  csi::PluginInstance found_;  // the instance that sd-bus reads properties from
  sd_bus_slot* objects_ = nullptr;
  sd_bus_slot* nodes_ = nullptr;
};

}  // namespace mountd::dbus
