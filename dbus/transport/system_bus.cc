// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/transport/system_bus.h"

#include <fcntl.h>
#include <sdbus-c++/IConnection.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dbus/receive/handshake.h"
#include "mountd/base/user_groups.h"

namespace mountd::dbus {
namespace {

constexpr char kBusName[] = "org.mountd1";
constexpr std::chrono::milliseconds kHandshakeTime{5000};
constexpr std::uint64_t kBusTimeUs = 2'000'000;
// See RequestName in the D-Bus Specification, "Message Bus Messages".
constexpr std::uint32_t kPrimaryOwner = 1;  // RequestName's answer
constexpr std::size_t kMaxRememberedCallers = 1024;
constexpr std::size_t kMaxSubscriptionsOfUser = 64;
constexpr std::chrono::seconds kTimeWithoutFds{60};

Error BusError(int negative_errno, const char* op) {
  return ErrnoError(-negative_errno, op, "system bus");
}

// Opens the bus as sd_bus_open_system(3) does, but makes the bus daemon refuse
// messages with fds to this connection.
int OpenWithoutFds(sd_bus** bus) {
  const char* const address = ::secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
  int status = sd_bus_new(bus);
  if (status >= 0) {
    status = sd_bus_set_address(
        *bus,
        address != nullptr ? address : "unix:path=/run/dbus/system_bus_socket");
  }
  if (status >= 0) {
    status = sd_bus_set_bus_client(*bus, 1);
  }
  if (status >= 0) {
    status = sd_bus_negotiate_fds(*bus, 0);
  }
  if (status >= 0) {
    status = sd_bus_start(*bus);
  }
  if (status < 0) {
    *bus = sd_bus_unref(*bus);
  }
  return status;
}

}  // namespace

SystemBus::SystemBus(EventLoop& loop, const ApiParts& parts,
                     ForeignFds& foreign, std::chrono::milliseconds reconnect)
    : loop_(loop),
      parts_(parts),
      foreign_(foreign),
      reconnect_(reconnect),
      plugins_(parts, *this) {}

SystemBus::~SystemBus() { Disconnect(); }

void SystemBus::Start() {
  const int status =
      is_over_quota_ ? OpenWithoutFds(&bus_) : sd_bus_open_system(&bus_);
  if (status < 0) {
    bus_ = nullptr;
    Lost(BusError(status, "open"));
    return;
  }
  // No message has come yet, because the bus passes nothing on before Hello.
  // SO_PEERCRED names root, who made the bus's socket, but other users send the
  // messages. So kBusOwner owns the fds of this socket.
  const int number = sd_bus_get_fd(bus_);
  UniqueFd socket(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  if (!socket.valid()) {
    Lost(ErrnoError(errno, "fcntl", "system bus"));
    return;
  }
  const std::uint64_t id = foreign_.Hold(socket.get(), ForeignFds::kBusOwner);
  inbound_ = std::make_unique<Inbound>(foreign_, parts_.drops, id,
                                       ForeignFds::kBusOwner, std::move(socket),
                                       Inbound::Kind::kBus);
  inbound_->SetNumber(number);
  handshake_ = loop_.WatchFd(inbound_->socket(), EPOLLIN,
                             [this](std::uint32_t) { Step(); });
  if (handshake_ == nullptr) {
    Lost(MakeError(Code::kInternal, "watch", "system bus"));
    return;
  }
  loop_.After(kHandshakeTime, [this, attempt = ++attempt_] {
    // The attempt's number tells this connection from a later one.
    if (attempt == attempt_ && handshake_ != nullptr) {
      Lost(MakeError(Code::kDeadlineExceeded, "connect", "system bus"));
    }
  });
  Step();
}

// Advances the handshake until the bus has said Hello, without waiting for it.
void SystemBus::Step() {
  int error = 0;
  switch (StepHandshake(bus_, *handshake_, &error)) {
    case Handshake::kUnderWay:
      return;
    case Handshake::kFailed:
      Lost(BusError(error, "connect"));
      return;
    case Handshake::kReady:
      break;
  }
  handshake_.reset();
  if (const Result<void> served = Serve(); !served) {
    Lost(served.error());
  }
}

Result<void> SystemBus::Serve() {
  try {
    connection_ = sdbus::createBusConnection(bus_);
    polkit_ = std::make_shared<Polkit>(
        *connection_, bus_,
        [this](const std::string& sender) { return AskBus(sender); });
    manager_ = std::make_unique<ManagerAdaptor>(connection_, parts_, *this);
    log_control_ = std::make_unique<LogControl>(*connection_);
  } catch (const sdbus::Error& error) {
    return MakeError(Code::kUnavailable, "connect", "system bus",
                     error.getMessage());
  }
  int status = sd_bus_match_signal(
      bus_, &disconnected_, nullptr, "/org/freedesktop/DBus/Local",
      "org.freedesktop.DBus.Local", "Disconnected",
      [](sd_bus_message*, void* userdata, sd_bus_error*) {
        static_cast<SystemBus*>(userdata)->LoseLater("closed the connection");
        return 0;
      },
      this);
  if (status >= 0) {
    status = plugins_.AddTo(bus_);
  }
  if (status >= 0) {
    status = sd_bus_track_new(bus_, &subscribers_, nullptr, nullptr);
  }
  if (status >= 0) {
    // Bounds the wait for the bus while a call's sender is identified.
    status = sd_bus_set_method_call_timeout(bus_, kBusTimeUs);
  }
  if (status >= 0) {
    status = sd_bus_attach_event(bus_, loop_.raw(), SD_EVENT_PRIORITY_NORMAL);
  }
  if (status >= 0) {
    sd_bus_set_close_on_exit(bus_, 0);
    // No flags, so mountd takes the name from nobody, gives it to nobody and
    // does not queue for it (sd_bus_request_name(3)). Lost tries again later.
    status = sd_bus_request_name_async(bus_, &named_, kBusName, 0,
                                       &SystemBus::OnName, this);
  }
  return status < 0 ? BusError(status, "attach") : Ok();
}

int SystemBus::OnName(sd_bus_message* message, void* userdata,
                      sd_bus_error* /*error*/) {
  std::uint32_t answer = 0;
  if (sd_bus_message_is_method_error(message, nullptr) != 0 ||
      sd_bus_message_read(message, "u", &answer) < 0 ||
      answer != kPrimaryOwner) {
    static_cast<SystemBus*>(userdata)->LoseLater(
        "does not give mountd its name");
  } else {
    spdlog::info("owns {} on the system bus", kBusName);
  }
  return 1;
}

// Posts the loss, because the bus is in the middle of a callback.
void SystemBus::LoseLater(const char* why) {
  loop_.Post([this, why, attempt = attempt_] {
    if (attempt == attempt_ && bus_ != nullptr) {
      Lost(MakeError(Code::kUnavailable, "use", "system bus", why));
    }
  });
}

void SystemBus::Lost(const Error& error) {
  spdlog::warn("mountd is not on the system bus: {}", error.Message());
  if (inbound_ != nullptr && inbound_->is_over_quota()) {
    LeaveOutFds();
  }
  Disconnect();
  loop_.After(reconnect_, [this] {
    if (!given_up_) {
      Start();
    }
  });
}

// Takes no fds for a while, because some sender's fds are stuck and the bus
// does not say whose. Calls without fds still work.
void SystemBus::LeaveOutFds() {
  spdlog::warn(
      "mountd takes no file descriptors from the system bus for {} s: {}",
      kTimeWithoutFds.count(), inbound_->why_ended());
  is_over_quota_ = true;
  loop_.After(kTimeWithoutFds, [this] {
    is_over_quota_ = false;
    if (bus_ != nullptr) {
      Lost(MakeError(Code::kUnavailable, "take file descriptors again",
                     "system bus"));
    }
  });
}

void SystemBus::Disconnect() {
  handshake_.reset();
  callers_.clear();
  subscribed_.clear();
  // Each of these keeps the bus alive (sd_bus_slot_set_floating(3)), so they go
  // before it.
  subscribers_ = sd_bus_track_unref(subscribers_);
  disconnected_ = sd_bus_slot_unref(disconnected_);
  named_ = sd_bus_slot_unref(named_);
  plugins_.Remove();
  // Closes before it destroys, because a flush to a bus that does not read
  // would block. connection_ goes last, because the other objects use it.
  if (connection_ != nullptr) {
    sd_bus_detach_event(bus_);
    sd_bus_close(bus_);
    log_control_.reset();
    manager_.reset();
    polkit_.reset();
    connection_.reset();
  } else if (bus_ != nullptr) {
    sd_bus_close(bus_);
    sd_bus_unref(bus_);
  }
  bus_ = nullptr;
  inbound_.reset();
}

Result<Caller> SystemBus::CallerOf(const sdbus::Message& message) {
  return CallerOfSender(message.getSender());
}

Result<Caller> SystemBus::CallerOfSender(const char* sender) {
  if (sender == nullptr) {
    return MakeError(Code::kPermissionDenied, "identify", "caller",
                     "the message has no sender");
  }
  if (const auto known = callers_.find(sender); known != callers_.end()) {
    return known->second;
  }
  MOUNTD_ASSIGN(Caller caller, AskBus(sender));
  // Forgets all callers, because SystemBus can ask the bus about each of them
  // again.
  if (callers_.size() >= kMaxRememberedCallers) {
    callers_.clear();
  }
  callers_.emplace(sender, caller);
  return caller;
}

Result<Caller> SystemBus::AskBus(const std::string& sender) {
  sd_bus_creds* credentials = nullptr;
  // No AUGMENT flag, so that only the bus daemon's knowledge counts and nothing
  // is read from /proc.
  int status = sd_bus_get_name_creds(
      bus_, sender.c_str(), SD_BUS_CREDS_EUID | SD_BUS_CREDS_PID, &credentials);
  uid_t uid = 0;
  pid_t pid = 0;
  if (status >= 0) {
    status = sd_bus_creds_get_euid(credentials, &uid);
    // `pid` stays 0 if the bus does not say.
    sd_bus_creds_get_pid(credentials, &pid);
  }
  sd_bus_creds_unref(credentials);
  if (status < 0) {
    Error error = BusError(status, "identify");
    error.code = Code::kPermissionDenied;
    return error;
  }
  // Reads the groups from the user database, because not every version of the
  // bus daemon reports more than the uid.
  MOUNTD_ASSIGN(const UserGroups groups, GroupsOf(uid));
  Caller caller{uid, groups.primary, {groups.all.begin(), groups.all.end()}};
  caller.pid = static_cast<std::uint32_t>(pid);
  // Opens the process by its number, so the pidfd may be another process's by
  // now, as before Linux 6.5 (peer.cc). Calls syscall(2) and not
  // pidfd_open(2)'s wrapper, because the header of glibc 2.36 lacks extern "C".
  caller.process = std::make_shared<const UniqueFd>(
      static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return caller;
}

Result<void> SystemBus::Subscribe(const sdbus::Message& message) {
  MOUNTD_ASSIGN(const Caller caller, CallerOf(message));
  // sd-bus removes a sender that has gone from subscribers_, but not from
  // subscribed_.
  std::erase_if(subscribed_, [this](const auto& one) {
    return sd_bus_track_contains(subscribers_, one.first.c_str()) == nullptr;
  });
  const auto count = std::count_if(
      subscribed_.begin(), subscribed_.end(),
      [&](const auto& one) { return one.second.uid == caller.uid; });
  if (static_cast<std::size_t>(count) >= kMaxSubscriptionsOfUser) {
    return MakeError(Code::kResourceExhausted, "subscribe", "system bus",
                     "this user has too many subscriptions; end some of them");
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

bool SystemBus::HasSubscribers() const {
  return subscribers_ != nullptr && sd_bus_track_count(subscribers_) != 0;
}

bool SystemBus::HasSubscriber(std::uint32_t uid) const {
  return subscribers_ != nullptr && IsOpen(bus_) &&
         std::any_of(
             subscribed_.begin(), subscribed_.end(), [&](const auto& one) {
               return one.second.uid == uid &&
                      sd_bus_track_contains(subscribers_, one.first.c_str()) !=
                          nullptr;
             });
}

bool SystemBus::HasReader(std::uint32_t uid) const {
  return HasSubscriber(uid) && HasTakenAll(bus_);
}

void SystemBus::GiveUpName() {
  // Keeps Lost from connecting again.
  given_up_ = true;
  if (connection_ == nullptr || sd_bus_release_name(bus_, kBusName) < 0) {
    return;
  }
  // Each message that is queued came before the bus's answer, so it was sent to
  // this process.
  while (bus_ != nullptr && sd_bus_process(bus_, nullptr) > 0) {
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
