// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/transport/peer.h"

#include <fcntl.h>
#include <sdbus-c++/IConnection.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include <memory>
#include <string_view>
#include <utility>

#include "dbus/methods/audit.h"
#include "dbus/receive/handshake.h"

namespace mountd::dbus {
namespace {

// Bounds the answers of one user, about 64 MiB of the largest. A peer that
// reads at all has a handful waiting, and mountd drops no peer with so few.
constexpr std::uint64_t kMaxQueuedAnswers = 1024;
constexpr std::uint64_t kFewQueuedAnswers = 8;

// This bound is above the number of calls in the bytes that the handshake reads
// ahead.
constexpr int kMaxBufferedCalls = 1024;

// Answers Hello with a name, because ordinary clients and busctl --address=
// greet a bus daemon. Their match rules are accepted unread, because every
// signal sent here is for this peer.
int AnswerHello(sd_bus_message* message, void* /*userdata*/,
                sd_bus_error* /*error*/) {
  return sd_bus_reply_method_return(message, "s", ":1.1");
}

int AnswerNothing(sd_bus_message* message, void* /*userdata*/,
                  sd_bus_error* /*error*/) {
  return sd_bus_reply_method_return(message, "");
}

// sd-bus's macros need these warnings off, because they use C's designated
// initialisers and compound casts.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wpedantic"
const sd_bus_vtable kDriver[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Hello", "", "s", &AnswerHello, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("AddMatch", "s", "", &AnswerNothing,
                  SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("RemoveMatch", "s", "", &AnswerNothing,
                  SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END};
#pragma GCC diagnostic pop

// Returns a pidfd of the process that connected. Before Linux 6.5 the pidfd is
// opened by the process's number, which another process may have by then.
UniqueFd PeerProcess(int socket, pid_t pid) {
  constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0) {
    return UniqueFd(fd);
  }
  // Calls syscall(2) and not pidfd_open(2)'s wrapper, because the header of
  // glibc 2.36 lacks extern "C".
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Returns true for a call that only mountd's own code can answer with success.
// sd-bus serves the standard interfaces, and refuses a call without an
// interface or of an interface that mountd does not have.
bool IsForMountd(sd_bus_message* message) {
  if (sd_bus_message_is_method_call(message, nullptr, nullptr) <= 0) {
    return false;
  }
  const char* const interface = sd_bus_message_get_interface(message);
  return interface == nullptr ||
         !std::string_view(interface).starts_with("org.freedesktop.DBus");
}

}  // namespace

Result<Caller> PeerCaller(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  // The credentials are those at connect(2) (unix(7)), so a later change of the
  // peer's user or groups has no effect.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return ErrnoError(errno, "SO_PEERCRED", "peer");
  }
  Caller caller{credentials.uid, credentials.gid, {}};
  caller.pid = static_cast<std::uint32_t>(credentials.pid);
  caller.process =
      std::make_shared<const UniqueFd>(PeerProcess(socket, credentials.pid));
  caller.groups.resize(64);
  size = static_cast<socklen_t>(caller.groups.size() * sizeof(gid_t));
  int status = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS,
                          caller.groups.data(), &size);
  // The kernel has set `size` to the size that it needs.
  if (status != 0 && errno == ERANGE) {
    caller.groups.resize(size / sizeof(gid_t));
    status = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, caller.groups.data(),
                        &size);
  }
  if (status != 0) {
    return ErrnoError(errno, "SO_PEERGROUPS", "peer");
  }
  caller.groups.resize(size / sizeof(gid_t));
  return caller;
}

Peer::Peer(EventLoop& loop, const ApiParts& parts, ForeignFds& foreign,
           ForeignFds::Accepted accepted, Caller caller, QueuedOf queued_of,
           OnDrop on_drop)
    : loop_(loop),
      parts_(parts),
      caller_(std::move(caller)),
      queued_of_(std::move(queued_of)),
      on_drop_(std::move(on_drop)),
      inbound_(foreign, parts.drops, accepted.id, caller_.uid,
               std::move(accepted.socket), Inbound::Kind::kPeer),
      plugins_(parts, *this) {
  Start();
}

// Closes before it destroys, because a flush to a peer that does not read would
// block for ever.
Peer::~Peer() {
  AuditUnserved();
  handshake_.reset();
  // Each slot keeps the bus alive (sd_bus_slot_set_floating(3)), so the slots
  // go before it.
  sd_bus_slot_unref(driver_);
  sd_bus_slot_unref(filter_);
  sd_bus_slot_unref(disconnected_);
  plugins_.Remove();
  if (connection_ != nullptr) {
    sd_bus_detach_event(bus_);
    sd_bus_close(bus_);
    manager_.reset();
    connection_.reset();
  } else if (bus_ != nullptr) {
    sd_bus_close(bus_);
    sd_bus_unref(bus_);
  }
}

void Peer::Start() {
  sd_id128_t id = {};
  // sd-bus gets a duplicate, because it closes its descriptor at any error.
  UniqueFd socket(::fcntl(inbound_.socket(), F_DUPFD_CLOEXEC, 3));
  const int fd = socket.get();
  inbound_.SetNumber(fd);
  // The id is the server's GUID, which the handshake sends to the client (D-Bus
  // Specification, "Authentication Protocol").
  if (fd < 0 || sd_id128_randomize(&id) < 0 || sd_bus_new(&bus_) < 0 ||
      inbound_.Watch(bus_) < 0 || sd_bus_set_fd(bus_, fd, fd) < 0) {
    Drop();
    return;
  }
  socket.release();  // the bus owns it now
  if (sd_bus_set_server(bus_, 1, id) < 0 || sd_bus_start(bus_) < 0) {
    Drop();
    return;
  }
  handshake_ = loop_.WatchFd(inbound_.socket(), EPOLLIN,
                             [this](std::uint32_t) { Step(); });
  if (handshake_ == nullptr) {
    Drop();
    return;
  }
  // sd_bus_start may have read all bytes already, and then no event would come.
  Step();
}

void Peer::Step() {
  if (ready() || handshake_ == nullptr) {
    return;
  }
  switch (StepHandshake(bus_, *handshake_)) {
    case Handshake::kUnderWay:
      return;
    case Handshake::kFailed:
      Drop();
      return;
    case Handshake::kReady:
      Promote();
  }
}

// Checks at every message, because answers pile up far faster than a timer
// looks.
int Peer::OnMessage(sd_bus_message* message, void* userdata,
                    sd_bus_error* /*error*/) {
  auto* const self = static_cast<Peer*>(userdata);
  if (self->stalled()) {
    self->DropFor(PeerDrop::kUnread);
    return 1;
  }
  self->AuditUnserved();
  if (IsForMountd(message)) {
    self->unserved_ = sd_bus_message_get_member(message);
  }
  return 0;
}

// sd-bus answers such a call itself, so no code of mountd sees the call.
void Peer::AuditUnserved() {
  if (unserved_.empty()) {
    return;
  }
  const std::string method = std::exchange(unserved_, {});
  const Error error = MakeError(
      Code::kInvalidArgument, "decode", "call",
      "mountd has no such method, or the arguments are malformed or of other "
      "types");
  AuditUndecodable(parts_, caller_, method, error);
}

int Peer::AddDriverShim() {
  const int added =
      sd_bus_add_object_vtable(bus_, &driver_, "/org/freedesktop/DBus",
                               "org.freedesktop.DBus", kDriver, this);
  if (added < 0) {
    return added;
  }
  const int filtered = sd_bus_add_filter(bus_, &filter_, &OnMessage, this);
  if (filtered < 0) {
    return filtered;
  }
  return sd_bus_match_signal(
      bus_, &disconnected_, nullptr, "/org/freedesktop/DBus/Local",
      "org.freedesktop.DBus.Local", "Disconnected",
      [](sd_bus_message*, void* userdata, sd_bus_error*) {
        static_cast<Peer*>(userdata)->Drop();
        return 0;
      },
      this);
}

void Peer::Promote() {
  handshake_.reset();
  if (AddDriverShim() < 0 || plugins_.AddTo(bus_) < 0) {
    Drop();
    return;
  }
  try {
    connection_ = sdbus::createBusConnection(bus_);
    manager_ = std::make_unique<ManagerAdaptor>(connection_, parts_, *this);
  } catch (const sdbus::Error&) {
    Drop();
    return;
  }
  // Attaches the event loop to sd-bus below sdbus-c++, because sdbus-c++'s own
  // integration throws through C frames when a peer hangs up. Close on exit is
  // off, because its exit source would flush and hang at the end.
  if (sd_bus_attach_event(bus_, loop_.raw(), SD_EVENT_PRIORITY_NORMAL) < 0) {
    Drop();
    return;
  }
  sd_bus_set_close_on_exit(bus_, 0);
  ServeBuffered(kMaxBufferedCalls);
}

// Serves calls that came in the same read as the end of the handshake. These
// calls are in sd-bus's buffer already, so no event of the socket would
// announce them. Serves one call in a turn of the loop, as for every peer,
// because the buffer may hold hundreds.
void Peer::ServeBuffered(int most) {
  const int processed = sd_bus_process(bus_, nullptr);
  if (processed < 0) {
    Drop();
  } else if (processed > 0 && most > 1) {
    loop_.Post([this, most, alive = std::weak_ptr<const bool>(alive_)] {
      if (!alive.expired()) {
        ServeBuffered(most - 1);
      }
    });
  }
}

void Peer::DropFor(PeerDrop why) {
  if (!std::exchange(is_counted_, true)) {
    parts_.drops.Count(why);
  }
  Drop();
}

void Peer::Drop() {
  handshake_.reset();
  // The peer may leave what mountd sends from now on unread.
  subscribed_ = false;
  on_drop_();
}

std::uint64_t Peer::queued() const {
  std::uint64_t count = 0;
  return ready() && sd_bus_get_n_queued_write(bus_, &count) >= 0 ? count : 0;
}

bool Peer::IsSubscribed() const {
  return ready() && subscribed_ && IsOpen(bus_);
}

bool Peer::IsReading() const { return IsSubscribed() && HasTakenAll(bus_); }

bool Peer::stalled() const {
  return queued() > kFewQueuedAnswers &&
         queued_of_(caller_.uid) > kMaxQueuedAnswers;
}

void Peer::Send(const Event& event) {
  if (IsSubscribed() && event.may_see(caller_)) {
    Emit(bus_, nullptr, event);
  }
}

Result<Caller> Peer::CallerOf(const sdbus::Message& /*message*/) {
  unserved_.clear();
  return caller_;
}

Result<Caller> Peer::CallerOfSender(const char* /*sender*/) { return caller_; }

Result<void> Peer::Subscribe(const sdbus::Message& /*message*/) {
  unserved_.clear();
  subscribed_ = true;
  return Ok();
}

void Peer::Unsubscribe(const sdbus::Message& /*message*/) {
  unserved_.clear();
  subscribed_ = false;
}

}  // namespace mountd::dbus
