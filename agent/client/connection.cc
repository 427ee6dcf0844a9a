// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/connection.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "agent/client/dict_to_types.h"
#include "agent/fields/node_fields.h"
#include "dbus/dict/error_name.h"
#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/unix_socket.h"

namespace mountd::agent {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr char kService[] = "org.mountd1";
constexpr char kObject[] = "/org/mountd1";
constexpr char kConnect[] = "connect";
constexpr std::string_view kErrorPrefix = dbus::kErrorPrefix;
constexpr std::string_view kBusErrorPrefix = "org.freedesktop.DBus.Error.";

// A daemon that has not answered after its patience and this margin is stuck.
constexpr std::chrono::seconds kMostPatience{20};
constexpr std::chrono::seconds kAnswerMargin{10};
// The time that mountd gives polkit.
constexpr std::chrono::seconds kTimeToAuthenticate{300};

struct BusUnref {
  void operator()(sd_bus* bus) const { ::sd_bus_close_unref(bus); }
};
using UniqueBus = std::unique_ptr<sd_bus, BusUnref>;

Error Unreachable(int err, const std::string& where) {
  Error error =
      ErrnoError(err, kConnect, where,
                 "mountd does not answer there; mountctl doctor says why");
  error.code = Code::kUnavailable;
  switch (err) {
    case EACCES:
    case EPERM:
      break;  // mountd may be there, but this user may not connect
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
      error.away = Away::kRestarting;  // somebody was there and hung up
      break;
    default:
      error.away = Away::kDaemon;
  }
  return error;
}

Result<std::string> SocketPath(const std::string& address) {
  constexpr std::string_view kUnixPath = "unix:path=";
  std::string path = address.empty() ? paths::kBusSocket : address;
  if (path.starts_with(kUnixPath)) {
    path.erase(0, kUnixPath.size());
  }
  // "," would begin another key and ";" another address (D-Bus Specification,
  // "Server Addresses").
  if (!path.starts_with('/') || path.find_first_of(",;") != std::string::npos ||
      path.size() >= sizeof(sockaddr_un::sun_path)) {
    return MakeError(Code::kInvalidArgument, kConnect, address,
                     "must be of the form unix:path=/absolute/path");
  }
  return path;
}

timeval ToTimeval(steady_clock::duration duration) {
  // The time is at least 1 us, because 0 means no limit to SO_SNDTIMEO
  // (socket(7)).
  const auto us = std::max<std::int64_t>(
      1, std::chrono::duration_cast<microseconds>(duration).count());
  timeval result{};
  result.tv_sec = us / 1'000'000;
  result.tv_usec = us % 1'000'000;
  return result;
}

Result<UniqueFd> ConnectSocket(const std::string& path,
                               steady_clock::time_point deadline) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return ErrnoError(errno, kConnect, path);
  }
  int err = 0;
  do {
    // connect(2) to a full backlog waits as long as a send may (unix(7)).
    const timeval limit = ToTimeval(deadline - steady_clock::now());
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) <
        0) {
      return ErrnoError(errno, kConnect, path);
    }
    err = ConnectUnix(fd.get(), path);
    // A signal handler interrupts connect(2), even with SA_RESTART (signal(7)).
    // The connection has not begun then, so the loop tries again.
  } while (err == EINTR && steady_clock::now() < deadline);
  if (err != 0) {
    return Unreachable(err == EINTR ? ETIMEDOUT : err, path);
  }
  return fd;
}

// Authenticates under the deadline, because sdbus-c++ would wait without one.
Result<UniqueBus> Handshake(UniqueFd fd, const std::string& path,
                            steady_clock::time_point deadline) {
  sd_bus* raw = nullptr;
  int r = ::sd_bus_new(&raw);
  if (r < 0) {
    return ErrnoError(-r, kConnect, path);
  }
  UniqueBus bus(raw);
  r = ::sd_bus_set_fd(raw, fd.get(), fd.get());
  if (r < 0) {
    return ErrnoError(-r, kConnect, path);
  }
  static_cast<void>(fd.release());  // the bus owns it now
  r = ::sd_bus_start(raw);
  while (r >= 0 && ::sd_bus_is_ready(raw) <= 0) {
    r = ::sd_bus_process(raw, nullptr);
    if (r != 0) {
      continue;
    }
    const auto left = std::chrono::duration_cast<microseconds>(
        deadline - steady_clock::now());
    r = left.count() <= 0
            ? -ETIMEDOUT
            : ::sd_bus_wait(raw, static_cast<std::uint64_t>(left.count()));
    // A signal handler interrupts poll(2), even with SA_RESTART (signal(7)).
    if (r == -EINTR) {
      r = 0;
    }
  }
  if (r < 0) {
    return Unreachable(-r, path);
  }
  return bus;
}

Result<UniqueBus> OpenSystemBus(bool interactive) {
  sd_bus* raw = nullptr;
  if (const int r = ::sd_bus_open_system(&raw); r < 0) {
    return Unreachable(-r, "system bus");
  }
  UniqueBus bus(raw);
  if (const int r =
          ::sd_bus_set_allow_interactive_authorization(raw, interactive);
      r < 0) {
    return ErrnoError(-r, kConnect, "system bus");
  }
  return bus;
}

bool IsLost(const std::string& name) {
  // The bus answers NoReply if mountd leaves the bus before mountd answers. For
  // an errno without a D-Bus name, sd-bus makes a name of "System.Error." and
  // the errno (sd_bus_error(3)).
  return name == "org.freedesktop.DBus.Error.Disconnected" ||
         name == "org.freedesktop.DBus.Error.NoReply" ||
         name == "System.Error.ENOTCONN" || name == "System.Error.EPIPE" ||
         name == "System.Error.ECONNRESET" || name == "System.Error.ESHUTDOWN";
}

Code CodeOfBusError(std::string_view name) {
  if (!name.starts_with(kBusErrorPrefix)) {
    return Code::kUnavailable;
  }
  name.remove_prefix(kBusErrorPrefix.size());
  if (name == "AccessDenied") {
    return Code::kPermissionDenied;
  }
  if (name == "InvalidArgs" || name == "InvalidSignature") {
    return Code::kInvalidArgument;
  }
  if (name == "UnknownMethod" || name == "UnknownInterface" ||
      name == "UnknownObject" || name == "UnknownProperty") {
    return Code::kNotSupported;
  }
  return name == "LimitsExceeded" ? Code::kResourceExhausted
                                  : Code::kUnavailable;
}

// Returns true if the bus, or sd-bus, says that mountd is not there or has not
// answered in time.
bool IsAbsent(std::string_view name) {
  if (!name.starts_with(kBusErrorPrefix)) {
    return false;
  }
  name.remove_prefix(kBusErrorPrefix.size());
  return name == "ServiceUnknown" || name == "NameHasNoOwner" ||
         name == "NoServer" || name == "Timeout" || name == "TimedOut" ||
         name.starts_with("Spawn.");
}

Away AwayOf(const std::string& name, const std::string& message) {
  if (name.starts_with(kErrorPrefix)) {
    return dbus::AwayOfText(message);
  }
  if (IsLost(name)) {
    return Away::kRestarting;
  }
  return IsAbsent(name) ? Away::kDaemon : Away::kNone;
}

// Returns the key of an option that mountd refuses as unknown. Knows the words
// of this release and of 0.1.0. Returns "" for another error.
std::string UnknownOptionOf(const sdbus::Error& error) {
  const std::string_view message = error.getMessage();
  if (error.getName() != "org.mountd1.Error.InvalidArgument" ||
      !message.starts_with("check ")) {
    return "";
  }
  for (const std::string_view words :
       {"\"]: is not an option of this method", "\"]: is not known"}) {
    if (message.ends_with(words)) {
      const std::string_view named =
          message.substr(0, message.size() - words.size());
      const std::size_t before = named.rfind("[\"");
      return before == std::string_view::npos
                 ? ""
                 : std::string(named.substr(before + 2));
    }
  }
  return "";
}

}  // namespace

Error ErrorFromName(const std::string& name, const std::string& message,
                    const std::string& op, const std::string& object) {
  const bool ours = name.starts_with(kErrorPrefix);
  const Code code = ours ? CodeFromName(name.substr(kErrorPrefix.size()))
                         : CodeOfBusError(name);
  return WithAway(
      AwayOf(name, message),
      MakeError(code, op, object, message.empty() && !ours ? name : message));
}

CallFailure FailureOf(const sdbus::Error& error, const std::string& op,
                      const std::string& object) {
  return {ErrorFromName(error.getName(), error.getMessage(), op, object),
          IsLost(error.getName())};
}

CallFailure FailureOfOwnCall(const sdbus::Error& error, const std::string& op,
                             const std::string& object) {
  CallFailure failure = FailureOf(error, op, object);
  failure.unknown_option = UnknownOptionOf(error);
  if (!failure.unknown_option.empty() ||
      CodeOfBusError(error.getName()) == Code::kNotSupported) {
    failure.error.code = Code::kNotSupported;
    failure.error.detail =
        "this mountd is older than its client and cannot do this; update "
        "mountd-service (" +
        error.getMessage() + ")";
  }
  return failure;
}

ManagerProxy::ManagerProxy(sdbus::IConnection& bus, const std::string& service,
                           const SignalHandlers* handlers)
    : ProxyInterfaces(bus, sdbus::ServiceName(service),
                      sdbus::ObjectPath(kObject)),
      handlers_(handlers) {
  if (handlers_ != nullptr) {
    registerProxy();
  }
}

ManagerProxy::~ManagerProxy() {
  if (handlers_ != nullptr) {
    unregisterProxy();
  }
}

void ManagerProxy::onOperationDone(const std::string& operation,
                                   const std::string& error,
                                   const std::string& message) {
  if (handlers_->operation_done) {
    SignalHandlers::Outcome outcome{operation, !error.empty(), {}};
    if (outcome.failed) {
      outcome.error = ErrorFromName(error, message, "operation", operation);
    }
    handlers_->operation_done(outcome);
  }
}

void ManagerProxy::onOperationProgress(const std::string& operation,
                                       const std::string& method,
                                       const std::uint64_t& done) {
  if (handlers_->operation_progress) {
    handlers_->operation_progress(operation, method, done);
  }
}

// Ignores a status that does not follow the contract.
void ManagerProxy::onOperationStep(const std::string& /*operation*/,
                                   const dbus::Dict& status) {
  if (handlers_->operation_step) {
    if (const Result<OperationStatus> now = FromDict<OperationStatus>(status)) {
      handlers_->operation_step(*now);
    }
  }
}

void ManagerProxy::onMountLost(const std::string& allocation,
                               const std::string& task, const std::string& name,
                               const std::string& reason) {
  if (handlers_->mount_lost) {
    handlers_->mount_lost({allocation, task, name}, reason);
  }
}

void ManagerProxy::onMountHealth(const std::string& allocation,
                                 const std::string& task,
                                 const std::string& name,
                                 const std::string& state,
                                 const std::string& reason) {
  if (handlers_->mount_health) {
    handlers_->mount_health({allocation, task, name}, state, reason);
  }
}

void ManagerProxy::onVolumeHealth(const std::string& plugin,
                                  const std::string& volume,
                                  const std::string& state,
                                  const std::string& reason) {
  if (handlers_->volume_health) {
    handlers_->volume_health({plugin, volume}, state, reason);
  }
}

void ManagerProxy::onPluginEvent(const std::string& plugin,
                                 const std::string& type,
                                 const std::string& allocation,
                                 const std::string& event,
                                 const std::string& message) {
  if (handlers_->plugin_event) {
    handlers_->plugin_event({plugin, type, allocation, event, message});
  }
}

// Ignores a node that does not follow the contract.
void ManagerProxy::onNodeInfoChanged(const std::string& plugin,
                                     const std::string& type,
                                     const std::string& allocation,
                                     const dbus::Dict& node,
                                     const std::string& text) {
  if (handlers_->node_info_changed) {
    if (Result<NodeInfo> now = FromDict<NodeInfo>(node)) {
      handlers_->node_info_changed(
          {plugin, type, allocation, *std::move(now), text});
    }
  }
}

void ManagerProxy::onAddressesScarce(const std::string& network,
                                     const std::uint32_t& capacity,
                                     const std::uint32_t& free) {
  if (handlers_->addresses_scarce) {
    handlers_->addresses_scarce(network, {capacity, free});
  }
}

void ManagerProxy::onNetworkRepaired(const std::string& allocation,
                                     const std::string& interface,
                                     const std::string& what) {
  if (handlers_->network_repaired) {
    handlers_->network_repaired(allocation, interface, what);
  }
}

void ManagerProxy::onNetworkLost(const std::string& allocation,
                                 const std::string& interface,
                                 const std::string& reason) {
  if (handlers_->network_lost) {
    handlers_->network_lost(allocation, interface, reason);
  }
}

void ManagerProxy::onRulesetRestored() {
  if (handlers_->ruleset_restored) {
    handlers_->ruleset_restored();
  }
}

void ManagerProxy::onLeaseLapsed(const std::string& lease,
                                 const std::uint32_t& uid,
                                 const std::string& reason) {
  if (handlers_->lease_lapsed) {
    handlers_->lease_lapsed(lease, uid, reason);
  }
}

void ManagerProxy::onFenceDone(const std::string& allocation,
                               const std::string& lease) {
  if (handlers_->fence_done) {
    handlers_->fence_done(allocation, lease);
  }
}

// Ignores a change that does not follow the contract.
void ManagerProxy::onLeaseChanged(const std::string& lease,
                                  const std::uint32_t& uid,
                                  const dbus::Dict& change) {
  if (handlers_->lease_changed) {
    if (const Result<LeaseChange> one = FromDict<LeaseChange>(change)) {
      handlers_->lease_changed(lease, uid, *one);
    }
  }
}

void ManagerProxy::onSecretsNeeded(const std::string& allocation,
                                   const std::string& alias,
                                   const std::string& plugin,
                                   const std::string& volume) {
  if (handlers_->secrets_needed) {
    handlers_->secrets_needed(allocation, alias, {plugin, volume});
  }
}

void ManagerProxy::onPluginChanged(const std::string& plugin,
                                   const std::string& state,
                                   const std::string& reason) {
  if (handlers_->plugin_changed) {
    handlers_->plugin_changed(plugin, state, reason);
  }
}

void ManagerProxy::onPluginAdded(const std::string& plugin,
                                 const std::string& type,
                                 const std::string& allocation,
                                 const sdbus::ObjectPath& object) {
  if (handlers_->plugin_added) {
    handlers_->plugin_added({plugin, type, allocation, object});
  }
}

void ManagerProxy::onPluginRemoved(const std::string& plugin,
                                   const std::string& type,
                                   const std::string& allocation,
                                   const sdbus::ObjectPath& object) {
  if (handlers_->plugin_removed) {
    handlers_->plugin_removed({plugin, type, allocation, object});
  }
}

void ManagerProxy::onOwedChanged(const std::uint32_t& count) {
  if (handlers_->owed_changed) {
    handlers_->owed_changed(count);
  }
}

void ManagerProxy::onOwedOverdue(const std::uint32_t& count,
                                 const std::uint64_t& since) {
  if (handlers_->owed_overdue) {
    handlers_->owed_overdue({count, ToTimestamp(since)});
  }
}

void ManagerProxy::onStuckChanged(const std::uint32_t& count) {
  if (handlers_->stuck_changed) {
    handlers_->stuck_changed(count);
  }
}

Result<std::unique_ptr<Connection>> Connection::Open(
    const ClientOptions& options, const SignalHandlers* handlers) {
  std::unique_ptr<Connection> made(new Connection);
  const auto deadline = steady_clock::now() + options.connect_timeout;
  try {
    if (options.system_bus) {
      MOUNTD_ASSIGN(UniqueBus raw, OpenSystemBus(options.interactive));
      made->bus_ = sdbus::createBusConnection(raw.release());
      made->service_ = kService;
    } else {
      MOUNTD_ASSIGN(const std::string path, SocketPath(options.address));
      MOUNTD_ASSIGN(UniqueFd fd, ConnectSocket(path, deadline));
      MOUNTD_ASSIGN(UniqueBus raw, Handshake(std::move(fd), path, deadline));
      made->raw_ = raw.get();
      made->bus_ = sdbus::createBusConnection(raw.release());
    }
    made->bus_->setMethodCallTimeout(
        std::max<std::chrono::milliseconds>(options.patience, kMostPatience) +
        kAnswerMargin +
        (options.interactive ? kTimeToAuthenticate : std::chrono::seconds(0)));
    made->proxy_ =
        std::make_unique<ManagerProxy>(*made->bus_, made->service_, handlers);
  } catch (const sdbus::Error& error) {
    Error failure = FailureOf(error, kConnect, kService).error;
    failure.code = Code::kUnavailable;
    return failure;
  }
  return made;
}

Connection::~Connection() {
  proxy_.reset();
  if (raw_ != nullptr) {
    // ~IConnection flushes, and would wait for a daemon that does not read.
    ::sd_bus_close(raw_);
  }
}

}  // namespace mountd::agent
