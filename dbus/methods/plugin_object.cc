// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/plugin_object.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "dbus/methods/audit.h"

namespace mountd::dbus {
namespace {

using csi::PluginInstance;

constexpr char kInterface[] = "org.mountd1.Plugin";
constexpr char kTop[] = "/org/mountd1/plugin";

struct Free {
  void operator()(char* text) const { std::free(text); }  // NOLINT
};
using Text = std::unique_ptr<char, Free>;

int Put(sd_bus_message* message, const std::string& text) {
  return sd_bus_message_append_basic(message, 's', text.c_str());
}

int Put(sd_bus_message* message, std::uint64_t number) {
  return sd_bus_message_append_basic(message, 't', &number);
}

int Put(sd_bus_message* message, const std::vector<int>& numbers) {
  return sd_bus_message_append_array(message, 'i', numbers.data(),
                                     numbers.size() * sizeof(int));
}

int Put(sd_bus_message* message, const StringMap& map) {
  int status = sd_bus_message_open_container(message, 'a', "{ss}");
  for (auto entry = map.begin(); status >= 0 && entry != map.end(); ++entry) {
    status = sd_bus_message_append(message, "{ss}", entry->first.c_str(),
                                   entry->second.c_str());
  }
  return status < 0 ? status : sd_bus_message_close_container(message);
}

struct Property {
  const char* name;
  const char* type;
  int (*put)(sd_bus_message*, const PluginInstance&);
};

using M = sd_bus_message;
using I = PluginInstance;

// In the order of the XML.
constexpr std::array<Property, 19> kProperties = {{
    {"Id", "s", [](M* m, const I& i) { return Put(m, i.record.id); }},
    {"Type", "s", [](M* m, const I& i) { return Put(m, i.record.type); }},
    {"Allocation", "s",
     [](M* m, const I& i) { return Put(m, i.record.allocation); }},
    {"Uid", "u",
     [](M* m, const I& i) {
       return sd_bus_message_append_basic(m, 'u', &i.record.uid);
     }},
    {"MountDir", "s",
     [](M* m, const I& i) { return Put(m, i.record.mount_dir); }},
    {"StagePublishBaseDir", "s",
     [](M* m, const I& i) { return Put(m, i.record.stage_publish_base_dir); }},
    {"BareDirectories", "b",
     [](M* m, const I& i) {
       // sd-bus takes a boolean as an int (sd_bus_message_append_basic(3)).
       const int value = i.record.bare_directories ? 1 : 0;
       return sd_bus_message_append_basic(m, 'b', &value);
     }},
    {"State", "s",
     [](M* m, const I& i) {
       return Put(m, std::string(csi::PluginStateName(i.state)));
     }},
    {"Reason", "s", [](M* m, const I& i) { return Put(m, i.reason); }},
    {"UpdateTime", "t", [](M* m, const I& i) { return Put(m, i.updated_us); }},
    {"Generation", "t", [](M* m, const I& i) { return Put(m, i.generation); }},
    {"Provider", "s", [](M* m, const I& i) { return Put(m, i.info.name); }},
    {"VendorVersion", "s",
     [](M* m, const I& i) { return Put(m, i.info.vendor_version); }},
    {"NodeId", "s", [](M* m, const I& i) { return Put(m, i.node.node_id); }},
    {"MaxVolumes", "x",
     [](M* m, const I& i) {
       return sd_bus_message_append_basic(m, 'x', &i.node.max_volumes);
     }},
    {"Topology", "a{ss}",
     [](M* m, const I& i) { return Put(m, i.node.topology); }},
    {"PluginCapabilities", "ai",
     [](M* m, const I& i) { return Put(m, i.capabilities.services); }},
    {"NodeCapabilities", "ai",
     [](M* m, const I& i) { return Put(m, i.capabilities.node_rpcs); }},
    {"ControllerCapabilities", "ai",
     [](M* m, const I& i) { return Put(m, i.capabilities.controller_rpcs); }},
}};

int GetProperty(sd_bus* /*bus*/, const char* /*path*/,
                const char* /*interface*/, const char* name, M* reply,
                void* found, sd_bus_error* /*error*/) {
  const auto property = std::find_if(
      kProperties.begin(), kProperties.end(),
      [&](const Property& one) { return std::string_view(one.name) == name; });
  return property == kProperties.end()
             ? -ENOENT
             : property->put(reply, *static_cast<const I*>(found));
}

// sd-bus's macros need these warnings off, because they use C's designated
// initialisers and compound casts.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wpedantic"
// The table has no destructor, because sd-bus reads it until the last slot has
// gone, which may be while static objects are destroyed.
const sd_bus_vtable* Vtable() {
  static const auto table = [] {
    std::array<sd_bus_vtable, kProperties.size() + 2> made = {
        {SD_BUS_VTABLE_START(0)}};
    std::transform(kProperties.begin(), kProperties.end(), made.begin() + 1,
                   [](const Property& one) -> sd_bus_vtable {
                     // EMITS_CHANGE, because AppendChanged sends the new values
                     // and invalidates none (D-Bus Specification,
                     // "Introspection Data Format").
                     return SD_BUS_PROPERTY(
                         one.name, one.type, &GetProperty, 0,
                         SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE);
                   });
    made.back() = SD_BUS_VTABLE_END;
    return made;
  }();
  return table.data();
}
#pragma GCC diagnostic pop

// Returns the member if the message asks sd-bus for the list of objects, or for
// their interfaces or properties. Null for other messages, because sd-bus looks
// the object up for each message.
const char* ReadOf(sd_bus_message* message) {
  for (const auto& [interface, member] :
       {std::pair("org.freedesktop.DBus.Properties", "Get"),
        std::pair("org.freedesktop.DBus.Properties", "GetAll"),
        std::pair("org.freedesktop.DBus.Introspectable", "Introspect")}) {
    if (message != nullptr &&
        sd_bus_message_is_method_call(message, interface, member) > 0) {
      return member;
    }
  }
  return nullptr;
}

std::string InstanceText(const InstanceKey& key) {
  return key.only() ? "0" : key.str();
}

}  // namespace

std::string PluginObjectPath(const PluginInstance& instance) {
  char* raw = nullptr;
  if (sd_bus_path_encode(kTop, instance.record.id.c_str(), &raw) < 0) {
    return kTop;
  }
  const Text encoded(raw);
  return std::string(encoded.get()) + "/" + InstanceText(instance.key());
}

int AppendChanged(sd_bus_message* message, const PluginInstance& instance) {
  int status = Put(message, std::string(kInterface));
  if (status >= 0) {
    status = sd_bus_message_open_container(message, 'a', "{sv}");
  }
  for (const Property& one : kProperties) {
    if (status >= 0) {
      status = sd_bus_message_open_container(message, 'e', "sv");
    }
    if (status >= 0) {
      status = Put(message, std::string(one.name));
    }
    if (status >= 0) {
      status = sd_bus_message_open_container(message, 'v', one.type);
    }
    if (status >= 0) {
      status = one.put(message, instance);
    }
    for (int open = 0; open < 2 && status >= 0; ++open) {
      status = sd_bus_message_close_container(message);
    }
  }
  if (status >= 0) {
    status = sd_bus_message_close_container(message);
  }
  // The last argument lists invalidated properties, of which there are none.
  return status < 0 ? status : sd_bus_message_append(message, "as", 0);
}

int PluginObjects::AddTo(sd_bus* bus) {
  // A fallback vtable, so that Find decides for each caller whether the object
  // exists.
  const int added = sd_bus_add_fallback_vtable(bus, &objects_, kTop, kInterface,
                                               Vtable(), &Find, this);
  return added < 0
             ? added
             : sd_bus_add_node_enumerator(bus, &nodes_, kTop, &Enumerate, this);
}

void PluginObjects::Remove() {
  objects_ = sd_bus_slot_unref(objects_);
  nodes_ = sd_bus_slot_unref(nodes_);
}

std::optional<CallContext> PluginObjects::Asking(sd_bus* bus) {
  sd_bus_message* const message = sd_bus_get_current_message(bus);
  Result<Caller> caller = callers_.CallerOfSender(
      message == nullptr ? nullptr : sd_bus_message_get_sender(message));
  if (!caller) {
    return std::nullopt;
  }
  CallContext context;
  context.caller = *std::move(caller);
  return context;
}

// Logs the message that is being handled if it reads what `asking` has recorded
// as other users'.
void PluginObjects::AuditIfOthers(sd_bus* bus, const CallContext& asking,
                                  const std::string& object) const {
  const std::string others = asking.decisions->Others();
  const char* const member = ReadOf(sd_bus_get_current_message(bus));
  if (member != nullptr && !others.empty()) {
    AuditRead(parts_, asking, member, object.c_str(), others);
  }
}

int PluginObjects::Find(sd_bus* bus, const char* path,
                        const char* /*interface*/, void* userdata, void** found,
                        sd_bus_error* /*error*/) {
  auto* const self = static_cast<PluginObjects*>(userdata);
  const std::string_view whole(path);
  const std::size_t slash = whole.rfind('/');
  char* raw = nullptr;
  if (sd_bus_path_decode(std::string(whole.substr(0, slash)).c_str(), kTop,
                         &raw) <= 0) {
    return 0;
  }
  const Text id(raw);
  const Result<Name> plugin = Name::Parse("plugin", id.get());
  const std::optional<CallContext> asking = self->Asking(bus);
  if (!plugin || !asking) {
    return 0;
  }
  // An object that the caller may not see does not exist for that caller.
  const auto status = self->parts_.services.plugins.GetPlugin(*asking, *plugin);
  if (!status) {
    return 0;
  }
  for (const PluginInstance& one : status->instances) {
    if (InstanceText(one.key()) == whole.substr(slash + 1)) {
      // sd-bus reads the properties after this returns.
      self->found_ = one;
      *found = &self->found_;
      self->AuditIfOthers(bus, *asking, "plugin " + plugin->str());
      return 1;
    }
  }
  return 0;
}

// sd-bus introspects `prefix`, and shows only the objects below.
int PluginObjects::Enumerate(sd_bus* bus, const char* prefix, void* userdata,
                             char*** nodes, sd_bus_error* /*error*/) {
  auto* const self = static_cast<PluginObjects*>(userdata);
  std::vector<std::string> paths;
  if (const std::optional<CallContext> asking = self->Asking(bus)) {
    const auto all = self->parts_.services.plugins.ListPlugins(*asking);
    CallContext shown;
    shown.caller = asking->caller;
    for (const csi::PluginStatus& plugin :
         all ? *all : std::vector<csi::PluginStatus>()) {
      for (const PluginInstance& one : plugin.instances) {
        std::string path = PluginObjectPath(one);
        if (path.starts_with(std::string(prefix) + "/") &&
            self->parts_.services.access.SeesPlugin(shown, one.record)) {
          paths.push_back(std::move(path));
        }
      }
    }
    self->AuditIfOthers(bus, shown, "plugins");
  }
  // sd-bus frees the list and each text in it.
  auto** list = static_cast<char**>(
      std::calloc(paths.size() + 1, sizeof(char*)));  // NOLINT
  if (list == nullptr) {
    return -ENOMEM;
  }
  std::transform(paths.begin(), paths.end(), list,
                 [](const std::string& one) { return strdup(one.c_str()); });
  *nodes = list;
  return 0;
}

}  // namespace mountd::dbus
