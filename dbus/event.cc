// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/event.h"

#include <memory>

#include "dbus/error_map.h"

namespace mountd::dbus {
namespace {

struct UnrefMessage {
  void operator()(sd_bus_message* message) const {
    sd_bus_message_unref(message);
  }
};

int Append(sd_bus_message* message, const EventArgument& argument) {
  if (const auto* text = std::get_if<std::string>(&argument)) {
    return sd_bus_message_append_basic(message, 's', text->c_str());
  }
  if (const auto* number = std::get_if<std::uint64_t>(&argument)) {
    return sd_bus_message_append_basic(message, 't', number);
  }
  return sd_bus_message_append_basic(message, 'u',
                                     std::get_if<std::uint32_t>(&argument));
}

}  // namespace

Event OperationDone(const OperationSummary& summary) {
  const Error* const error = summary.error;
  return {
      "OperationDone",
      {summary.id, error == nullptr ? std::string() : ErrorName(*error),
       error == nullptr ? std::string() : error->Message()},
      [uid = summary.uid](const Caller& caller) { return caller.uid == uid; }};
}

Event OperationProgressed(const OperationProgress& progress) {
  return {
      "OperationProgress",
      {progress.id, progress.method, progress.done},
      [uid = progress.uid](const Caller& caller) { return caller.uid == uid; }};
}

Event MountLost(const Service& service, std::uint32_t uid,
                const MountRecord& record, const std::string& reason) {
  return {"MountLost",
          {record.allocation, record.task, record.name, reason},
          [&service, uid](const Caller& caller) {
            return service.Sees(caller, uid);
          }};
}

Event MountHealthChanged(const Service& service, std::uint32_t uid,
                         const MountRecord& record, exec::MountHealth health,
                         const std::string& reason) {
  return {"MountHealth",
          {record.allocation, record.task, record.name,
           std::string(MountHealthName(health)), reason},
          [&service, uid](const Caller& caller) {
            return service.Sees(caller, uid);
          }};
}

Event PluginChanged(const Service& service, const csi::PluginInstance& status) {
  return {"PluginChanged",
          {status.record.id, std::string(csi::PluginStateName(status.state)),
           status.reason},
          [&service, record = status.record](const Caller& caller) {
            return service.SeesPlugin(caller, record);
          }};
}

Event OwedChanged(std::uint32_t count) {
  return {"OwedChanged", {count}, [](const Caller&) { return true; }};
}

void Emit(sd_bus* bus, const char* destination, const Event& event) {
  sd_bus_message* raw = nullptr;
  if (sd_bus_message_new_signal(bus, &raw, "/org/mountd1",
                                "org.mountd1.Manager",
                                event.member.c_str()) < 0) {
    return;
  }
  const std::unique_ptr<sd_bus_message, UnrefMessage> message(raw);
  if (destination != nullptr &&
      sd_bus_message_set_destination(raw, destination) < 0) {
    return;
  }
  for (const auto& argument : event.arguments) {
    if (Append(raw, argument) < 0) {
      return;
    }
  }
  sd_bus_send(bus, raw, nullptr);
}

}  // namespace mountd::dbus
