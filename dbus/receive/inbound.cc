// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/inbound.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

namespace mountd::dbus {
namespace {

// Only messages larger than this count against their owner's share.
constexpr std::size_t kSmallMessage = std::size_t{64} << 10U;
constexpr std::size_t kMostDeliveredOfBus = 256;

// State of the loop's thread; other threads have no state.
struct LoopState {
  std::unordered_map<int, Inbound*> inbounds;
  std::unordered_map<std::uint64_t, std::shared_ptr<UniqueFd>> passed;
  std::vector<std::uint64_t> taken;             // in passed
  std::map<std::uint64_t, std::size_t> claims;  // bytes, by owner
  EventLoop* loop = nullptr;
  Inbound* awaits_array = nullptr;
};

// Null after the thread's end has destroyed the state, because sd-bus may still
// read then.
thread_local LoopState* t_state = nullptr;

struct StateOwner {
  ~StateOwner() { delete std::exchange(t_state, nullptr); }
};

LoopState& State() {
  thread_local const StateOwner owner;
  if (t_state == nullptr) {
    t_state = new LoopState;
  }
  return *t_state;
}

std::uint64_t InodeOf(int fd) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 ? file.st_ino : 0;
}

// Puts the fds into the message's control buffer, which has room for them.
void PutNumbers(const std::vector<int>& numbers, msghdr* message) {
  const std::size_t bytes = numbers.size() * sizeof(int);
  message->msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), numbers.data(), bytes);
}

ssize_t RawReceive(int socket, void* into, std::size_t size, int flags,
                   bool* has_fds) {
  iovec part = {into, size};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // MSG_DONTWAIT, because the loop must not wait for a peer. There is no room
  // for fds, so the kernel sets MSG_CTRUNC if some come. By syscall(2), because
  // recvmsg is mountd's own function here (received_fds.cc).
  const ssize_t received =
      ::syscall(SYS_recvmsg, socket, &message, flags | MSG_DONTWAIT);
  *has_fds = received >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
  return received;
}

}  // namespace

Inbound* FindInbound(int socket) {
  if (t_state == nullptr) {
    return nullptr;
  }
  // sd-bus allocates the array before it reads again, so the wait for it is
  // over.
  t_state->awaits_array = nullptr;
  const auto found = t_state->inbounds.find(socket);
  return found != t_state->inbounds.end() && found->second->IsThatOf(socket)
             ? found->second
             : nullptr;
}

// sd-bus allocates the array for all fds of a message right after the read.
void NoteArray(void* array, std::size_t count, std::size_t size) {
  Inbound* const inbound = t_state == nullptr
                               ? nullptr
                               : std::exchange(t_state->awaits_array, nullptr);
  if (inbound != nullptr && size == sizeof(int) && count == inbound->fds()) {
    inbound->SetArray(array);
  }
}

// Keeps the fd until this call is decoded, because its message may name one fd
// twice. A posted closure then drops this reference, because the file's owner
// must not find the file in use by mountd afterwards.
std::shared_ptr<UniqueFd> TakePassed(int fd) {
  if (t_state != nullptr && !t_state->passed.empty()) {
    const auto found = t_state->passed.find(InodeOf(fd));
    if (found != t_state->passed.end()) {
      if (t_state->taken.empty()) {
        t_state->loop->Post([] {
          for (const std::uint64_t inode : std::exchange(State().taken, {})) {
            State().passed.erase(inode);
          }
        });
      }
      t_state->taken.push_back(found->first);
      return found->second;
    }
  }
  // Takes a number from 3 up, so that the fd cannot become a standard stream.
  return std::make_shared<UniqueFd>(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

Inbound::Inbound(ForeignFds& foreign, PeerDrops& drops, std::uint64_t id,
                 std::uint64_t owner, UniqueFd socket, Kind kind)
    : foreign_(foreign),
      drops_(drops),
      id_(id),
      owner_(owner),
      socket_(std::move(socket)),
      inode_(InodeOf(socket_.get())),
      kind_(kind) {
  State().loop = &foreign.loop();
}

Inbound::~Inbound() {
  LoopState& state = State();
  const auto found = state.inbounds.find(number_);
  if (found != state.inbounds.end() && found->second == this) {
    state.inbounds.erase(found);
  }
  if (state.awaits_array == this) {
    state.awaits_array = nullptr;
  }
  // MessageSeen gives the claim back and moves the placeholders to delivered_,
  // so that Forget drops their fds.
  CloseLost();
  MessageSeen();
  Forget(0);
  foreign_.Close(id_, std::move(socket_));
}

void Inbound::SetNumber(int number) {
  number_ = number;
  State().inbounds[number] = this;
}

bool Inbound::IsThatOf(int number) const { return InodeOf(number) == inode_; }

// Ignores the message that sd-bus makes itself when a connection ends. No peer
// sent that message, and a malformed message before it stays malformed.
int Inbound::Watch(sd_bus* bus) {
  return sd_bus_add_filter(
      bus, nullptr,
      [](sd_bus_message* message, void* userdata, sd_bus_error* /*error*/) {
        if (sd_bus_is_open(sd_bus_message_get_bus(message)) > 0) {
          auto* const self = static_cast<Inbound*>(userdata);
          ++self->seen_;
          self->MessageSeen();
        }
        return 0;
      },
      this);
}

int Inbound::LookAtUnfinished() {
  const bool is_same = looked_at_ == framing_.complete();
  looks_ = framing_.IsInMessage() && is_same ? looks_ + 1 : 0;
  looked_at_ = framing_.complete();
  return looks_;
}

bool Inbound::LookAtLost() {
  const bool was_found = found_lost_ && lost_seen_ == seen_;
  found_lost_ = HasLost();
  lost_seen_ = seen_;
  return found_lost_ && was_found;
}

ssize_t Inbound::Receive(msghdr* message, int flags) {
  // sd-bus reads into one buffer and never peeks. So another kind of read is
  // not sd-bus's.
  if (message->msg_iovlen != 1 || (flags & MSG_PEEK) != 0) {
    errno = EINVAL;
    return -1;
  }
  const std::size_t size = message->msg_iov->iov_len;
  if (!why_ended_.empty() || Refuses(size)) {
    errno = ECONNRESET;
    return -1;
  }
  // sd-bus has decoded the messages before this read, so no method wants the
  // fds that are left.
  if (kind_ == Kind::kPeer) {
    Forget(0);
  }
  auto* const into = static_cast<std::byte*>(message->msg_iov->iov_base);
  const ssize_t received = Read(into, size, message);
  if (received > 0 && kind_ == Kind::kPeer) {
    framing_.Add(std::span(into, static_cast<std::size_t>(received)));
  }
  return received;
}

// Compares `asked` with the bounds, because sd-bus asks for all that is left of
// a message at once.
bool Inbound::Refuses(std::size_t asked) {
  if (kind_ == Kind::kBus) {
    return false;
  }
  if (asked > kMostBytes) {
    End(PeerDrop::kTooLarge, "it sent a message of more than " +
                                 std::to_string(kMostBytes) + " bytes");
    return true;
  }
  if (HasLost()) {
    End(PeerDrop::kMalformed, "it sent a malformed message");
    return true;
  }
  // Claims once, because sd-bus asks several times for one message.
  if (asked > kSmallMessage && claimed_ == 0) {
    std::size_t& claims = State().claims[owner_];
    if (claims + asked > kMostBytesOfOwner) {
      End(PeerDrop::kTooLarge,
          "unfinished messages of its user hold more than " +
              std::to_string(kMostBytesOfOwner) + " bytes");
      return true;
    }
    claims += asked;
    claimed_ = asked;
  }
  return false;
}

ssize_t Inbound::End(PeerDrop kind, std::string why) {
  if (why_ended_.empty()) {
    drops_.Count(kind);
    why_ended_ = std::move(why);
  }
  // sd-bus takes ECONNRESET for the end of the connection, and closes it as if
  // the peer had hung up.
  errno = ECONNRESET;
  return -1;
}

ssize_t Inbound::Read(std::byte* into, std::size_t size, msghdr* message) {
  message->msg_flags = 0;
  if (given_ < ahead_) {
    message->msg_controllen = 0;
    return ReadAhead(into, size);
  }
  // A large read peeks into sd-bus's buffer, because it may not fit into
  // peeked_.
  const bool is_large = size > peeked_.size();
  bool has_fds = false;
  const ssize_t peeked =
      RawReceive(socket_.get(), is_large ? into : peeked_.data(),
                 is_large ? size : peeked_.size(), MSG_PEEK, &has_fds);
  if (has_fds) {
    // mountd-closer reads the same bytes, which the peek left in the queue.
    return ReadWithFds(into, size, message);
  }
  message->msg_controllen = 0;
  if (peeked <= 0) {
    return peeked;
  }
  if (is_large) {
    // The peek copied the bytes already; this read takes them from the queue.
    return RawReceive(socket_.get(), into, static_cast<std::size_t>(peeked), 0,
                      &has_fds);
  }
  ahead_ = static_cast<std::size_t>(peeked);
  given_ = 0;
  return ReadAhead(into, size);
}

ssize_t Inbound::ReadAhead(std::byte* into, std::size_t size) {
  const std::size_t count = std::min(size, ahead_ - given_);
  std::memcpy(into, peeked_.data() + given_, count);
  given_ += count;
  // The socket stays readable until sd-bus has all of the bytes, so sd-bus
  // reads again.
  if (given_ == ahead_) {
    Consume(ahead_);
    ahead_ = 0;
    given_ = 0;
  }
  return static_cast<ssize_t>(count);
}

void Inbound::Consume(std::size_t size) const {
  std::array<std::byte, sizeof(peeked_)> ignored;
  while (size > 0) {
    bool has_fds = false;
    const ssize_t taken =
        RawReceive(socket_.get(), ignored.data(), size, 0, &has_fds);
    if (taken <= 0) {
      return;
    }
    size -= static_cast<std::size_t>(taken);
  }
}

ssize_t Inbound::ReadWithFds(std::byte* into, std::size_t size,
                             msghdr* message) {
  Result<ForeignFds::Received, int> received =
      foreign_.Receive(id_, owner_, std::span(into, size));
  if (!received) {
    if (received.error() == EAGAIN) {
      errno = EAGAIN;
      return -1;
    }
    is_over_quota_ = received.error() == EDQUOT;
    return End(PeerDrop::kFds,
               is_over_quota_
                   ? "its user has too many file descriptors in mountd"
                   : "mountd cannot receive its file descriptors");
  }
  if (kind_ == Kind::kPeer &&
      placeholders_.size() + received->fds.size() > kMostFds) {
    return End(PeerDrop::kFds,
               "it sent more file descriptors than any method takes");
  }
  if (!PutPlaceholders(std::move(received->fds), message)) {
    return End(PeerDrop::kFds, "mountd has no room for its file descriptors");
  }
  return static_cast<ssize_t>(received->size);
}

int Inbound::PutPlaceholder(std::shared_ptr<UniqueFd> fd,
                            std::uint64_t* inode) {
  UniqueFd own(::memfd_create("mountd-passed", MFD_CLOEXEC));
  *inode = own.valid() ? InodeOf(own.get()) : 0;
  if (*inode == 0) {
    return -1;
  }
  if (fd != nullptr) {
    State().passed[*inode] = std::move(fd);
  }
  // The bus daemon passes on no malformed message, so none is looked for.
  // sd-bus may make some messages before earlier ones are decoded.
  if (kind_ == Kind::kBus) {
    delivered_.push_back(*inode);
    Forget(kMostDeliveredOfBus);
  } else {
    placeholders_.push_back({own.get(), *inode, framing_.complete()});
  }
  return own.release();
}

bool Inbound::PutPlaceholders(std::vector<std::shared_ptr<UniqueFd>> fds,
                              msghdr* message) {
  if (fds.empty()) {
    message->msg_controllen = 0;
    return true;
  }
  const std::size_t bytes = fds.size() * sizeof(int);
  if (message->msg_control == nullptr ||
      message->msg_controllen < CMSG_SPACE(bytes)) {
    return false;
  }
  std::vector<int> numbers;
  std::vector<std::uint64_t> inodes;
  for (std::shared_ptr<UniqueFd>& fd : fds) {
    std::uint64_t inode = 0;
    const int number = PutPlaceholder(std::move(fd), &inode);
    if (number < 0) {
      std::for_each(numbers.begin(), numbers.end(), ::close);
      // Nobody could take these by their placeholders any more.
      for (const std::uint64_t put : inodes) {
        State().passed.erase(put);
      }
      if (kind_ == Kind::kPeer) {
        placeholders_.resize(placeholders_.size() - numbers.size());
      }
      return false;
    }
    inodes.push_back(inode);
    numbers.push_back(number);
  }
  PutNumbers(numbers, message);
  if (kind_ == Kind::kPeer) {
    // NoteArray takes the next array of this size for sd-bus's.
    State().awaits_array = this;
  }
  return true;
}

// sd-bus decodes this message next. If more is read, the method did not want
// the fds that are still there, so Forget drops those.
void Inbound::MessageSeen() {
  if (claimed_ != 0) {
    const auto claims = State().claims.find(owner_);
    claims->second -= claimed_;
    if (claims->second == 0) {
      State().claims.erase(claims);
    }
    claimed_ = 0;
  }
  for (const Placeholder& one : placeholders_) {
    delivered_.push_back(one.inode);
  }
  placeholders_.clear();
  array_ = nullptr;
}

void Inbound::Forget(std::size_t most) {
  while (delivered_.size() > most) {
    State().passed.erase(delivered_.front());
    delivered_.pop_front();
  }
}

// sd-bus calls the filter for each message before it reads on. So a message
// that is whole and that the filter has not seen is malformed.
bool Inbound::HasLost() const { return seen_ < framing_.complete(); }

// Closes the placeholders of a malformed message, because sd-bus has lost them
// and reads nothing after it. Compares inodes first, because an inode belongs
// to one placeholder alone: a number that still shows that inode is still the
// lost placeholder. A libsystemd that closed the placeholder would have freed
// the array, too. Leaves the placeholders of an unfinished message to sd-bus,
// which closes them with the connection.
void Inbound::CloseLost() {
  bool are_all_lost = !placeholders_.empty();
  for (const Placeholder& one : placeholders_) {
    if (one.message < framing_.complete() && InodeOf(one.number) == one.inode) {
      ::close(one.number);
    } else {
      are_all_lost = false;
    }
  }
  if (are_all_lost) {
    ::free(std::exchange(array_, nullptr));
  }
}

}  // namespace mountd::dbus
