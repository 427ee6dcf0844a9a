// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/system_bus.h"

#include <grp.h>
#include <pwd.h>
#include <sdbus-c++/IConnection.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace mountd::dbus {
namespace {

constexpr char kBusName[] = "org.mountd1";
constexpr std::size_t kMaxRememberedCallers = 1024;
constexpr std::size_t kMaxSubscriptionsOfUser = 64;

Error BusError(int negative_errno, const char* op) {
  return ErrnoError(-negative_errno, op, "system bus");
}

// The user's groups as the user database has them: the bus daemon tells no
// more than the uid on every version.
void AddGroups(Caller& caller) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  caller.gid = UINT32_MAX;  // of no rule, until known
  if (getpwuid_r(caller.uid, &entry, buffer.data(), buffer.size(), &found) !=
          0 ||
      found == nullptr) {
    return;
  }
  caller.gid = entry.pw_gid;
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count);
  }
  groups.resize(static_cast<std::size_t>(count));
  caller.groups.assign(groups.begin(), groups.end());
}

}  // namespace

SystemBus::SystemBus(EventLoop& loop, const ApiParts& parts,
                     std::chrono::milliseconds reconnect)
    : loop_(loop), parts_(parts), reconnect_(reconnect) {}

SystemBus::~SystemBus() { Disconnect(); }

void SystemBus::Start() {
  if (const Result<void> connected = Connect(); !connected) {
    spdlog::warn("no system bus yet: {}", connected.error().Message());
    Disconnect();
    ConnectLater();
    return;
  }
  spdlog::info("owns {} on the system bus", kBusName);
}

Result<void> SystemBus::Connect() {
  if (const int status = sd_bus_open_system(&bus_); status < 0) {
    bus_ = nullptr;
    return BusError(status, "open");
  }
  try {
    connection_ = sdbus::createBusConnection(bus_);
    manager_ = std::make_unique<ManagerAdaptor>(connection_, parts_, *this);
    log_control_ = std::make_unique<LogControl>(*connection_);
    int status = sd_bus_match_signal(
        bus_, &disconnected_, nullptr, "/org/freedesktop/DBus/Local",
        "org.freedesktop.DBus.Local", "Disconnected",
        [](sd_bus_message*, void* userdata, sd_bus_error*) {
          auto* self = static_cast<SystemBus*>(userdata);
          self->loop_.Post([self] {
            self->Disconnect();
            self->ConnectLater();
          });
          return 0;
        },
        this);
    if (status >= 0) {
      status = sd_bus_track_new(bus_, &subscribers_, nullptr, nullptr);
    }
    if (status >= 0) {
      status = sd_bus_attach_event(bus_, loop_.raw(), SD_EVENT_PRIORITY_NORMAL);
    }
    if (status < 0) {
      return BusError(status, "attach");
    }
    sd_bus_set_close_on_exit(bus_, 0);
    connection_->requestName(sdbus::ServiceName(kBusName));
  } catch (const sdbus::Error& error) {
    return MakeError(Code::kUnavailable, "connect", "system bus",
                     error.getMessage());
  }
  return Ok();
}

void SystemBus::Disconnect() {
  callers_.clear();
  subscribed_.clear();
  subscribers_ = sd_bus_track_unref(subscribers_);
  disconnected_ = sd_bus_slot_unref(disconnected_);
  if (connection_ != nullptr) {
    sd_bus_detach_event(bus_);
    sd_bus_close(bus_);
    log_control_.reset();
    manager_.reset();
    connection_.reset();
  }
  bus_ = nullptr;
}

void SystemBus::ConnectLater() {
  loop_.After(reconnect_, [this] { Start(); });
}

Result<Caller> SystemBus::CallerOf(const sdbus::Message& message) {
  const char* const sender = message.getSender();
  if (sender == nullptr) {
    return MakeError(Code::kPermissionDenied, "identify", "caller",
                     "the message has no sender");
  }
  if (const auto known = callers_.find(sender); known != callers_.end()) {
    return known->second;
  }
  MOUNTD_ASSIGN(Caller caller, AskBus(sender));
  if (callers_.size() >= kMaxRememberedCallers) {
    callers_.clear();
  }
  callers_.emplace(sender, caller);
  return caller;
}

Result<Caller> SystemBus::AskBus(const std::string& sender) {
  sd_bus_creds* credentials = nullptr;
  // No AUGMENT: what the bus daemon knows, nothing read from /proc.
  int status = sd_bus_get_name_creds(bus_, sender.c_str(), SD_BUS_CREDS_EUID,
                                     &credentials);
  uid_t uid = 0;
  if (status >= 0) {
    status = sd_bus_creds_get_euid(credentials, &uid);
  }
  sd_bus_creds_unref(credentials);
  if (status < 0) {
    Error error = BusError(status, "identify");
    error.code = Code::kPermissionDenied;
    return error;
  }
  Caller caller{uid, 0, {}};
  AddGroups(caller);
  return caller;
}

Result<void> SystemBus::Subscribe(const sdbus::Message& message) {
  MOUNTD_ASSIGN(const Caller caller, CallerOf(message));
  std::erase_if(subscribed_, [this](const auto& one) {
    return sd_bus_track_contains(subscribers_, one.first.c_str()) == nullptr;
  });
  const auto count = std::count_if(
      subscribed_.begin(), subscribed_.end(),
      [&](const auto& one) { return one.second.uid == caller.uid; });
  if (static_cast<std::size_t>(count) >= kMaxSubscriptionsOfUser) {
    return MakeError(Code::kResourceExhausted, "subscribe", "system bus",
                     "this user has too many subscriptions");
  }
  if (const int status =
          sd_bus_track_add_name(subscribers_, message.getSender());
      status < 0) {
    return BusError(status, "subscribe");
  }
  subscribed_.insert_or_assign(message.getSender(), caller);
  return Ok();
}

void SystemBus::Unsubscribe(const sdbus::Message& message) {
  if (const char* const sender = message.getSender(); sender != nullptr) {
    sd_bus_track_remove_name(subscribers_, sender);
    subscribed_.erase(sender);
  }
}

void SystemBus::Send(const Event& event) {
  if (subscribers_ == nullptr) {
    return;
  }
  for (const char* name = sd_bus_track_first(subscribers_); name != nullptr;
       name = sd_bus_track_next(subscribers_)) {
    const auto caller = subscribed_.find(name);
    if (caller != subscribed_.end() && event.may_see(caller->second)) {
      Emit(bus_, name, event);
    }
  }
}

}  // namespace mountd::dbus
