// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/transport/log_control.h"

#include <sdbus-c++/sdbus-c++.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string>
#include <utility>

namespace mountd::dbus {
namespace {

// syslog(3)'s names, which the interface uses, with spdlog's nearest levels.
constexpr std::array<std::pair<const char*, spdlog::level::level_enum>, 5>
    kLevels = {{{"debug", spdlog::level::debug},
                {"info", spdlog::level::info},
                {"warning", spdlog::level::warn},
                {"err", spdlog::level::err},
                {"crit", spdlog::level::critical}}};

std::string LevelName() {
  for (const auto& [name, level] : kLevels) {
    if (level == spdlog::get_level()) {
      return name;
    }
  }
  return "info";
}

}  // namespace

LogControl::LogControl(sdbus::IConnection& connection)
    : object_(sdbus::createObject(
          connection, sdbus::ObjectPath("/org/freedesktop/LogControl1"))) {
  object_
      ->addVTable(sdbus::registerProperty("LogLevel")
                      .withGetter([] { return LevelName(); })
                      .withSetter([this](const std::string& level) {
                        SetLevel(level);
                      }),
                  sdbus::registerProperty("LogTarget").withGetter([] {
                    return std::string("console");
                  }),
                  sdbus::registerProperty("SyslogIdentifier").withGetter([] {
                    return std::string("mountd");
                  }))
      .forInterface("org.freedesktop.LogControl1");
}

void LogControl::SetLevel(const std::string& level) {
  const sdbus::Message message = object_->getCurrentlyProcessedMessage();
  // The bus's policy also lets agents send this call
  // (systemd/org.mountd1.conf).
  if (message.getCredsEuid() != 0) {
    throw sdbus::Error(
        sdbus::Error::Name("org.freedesktop.DBus.Error.AccessDenied"),
        "only root may set the log level");
  }
  for (const auto& [name, value] : kLevels) {
    if (level == name) {
      spdlog::set_level(value);
      return;
    }
  }
  throw sdbus::Error(
      sdbus::Error::Name("org.freedesktop.DBus.Error.InvalidArgs"),
      "must be a syslog level, such as info");
}

}  // namespace mountd::dbus
