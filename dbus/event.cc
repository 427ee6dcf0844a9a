// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/event.h"

#include <memory>

namespace mountd::dbus {
namespace {

struct UnrefMessage {
  void operator()(sd_bus_message* message) const {
    sd_bus_message_unref(message);
  }
};

int Append(sd_bus_message* message,
           const std::variant<std::string, std::uint32_t>& argument) {
  if (const auto* text = std::get_if<std::string>(&argument)) {
    return sd_bus_message_append_basic(message, 's', text->c_str());
  }
  return sd_bus_message_append_basic(message, 'u',
                                     std::get_if<std::uint32_t>(&argument));
}

}  // namespace

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
