// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Bounds of one connection, and of one user: bytes and fds of unfinished or
// invalid messages, and unread answers.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dbus/receive/inbound.h"
#include "tests/dbus/peers_test.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"

namespace mountd::test {
namespace {

constexpr std::uint32_t kMiB = 1U << 20U;

// Returns the body of a call with a string of this size.
std::string Large(std::size_t size) {
  return MarshalText(std::string(size, 'x'));
}

// Returns how many fds of this process have `name` in their path.
std::size_t OpenFdsOf(const std::string& name) {
  std::size_t count = 0;
  std::error_code gone;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    if (std::filesystem::read_symlink(fd, gone).string().find(name) !=
        std::string::npos) {
      ++count;
    }
  }
  return count;
}

// Owns sd-bus without an Inbound, as a naive server uses it.
class NaiveServer {
 public:
  NaiveServer() {
    std::array<int, 2> ends{};
    sd_id128_t id{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                           0, ends.data()),
              0);
    client_.reset(ends[0]);
    EXPECT_GE(sd_id128_randomize(&id), 0);
    EXPECT_GE(sd_bus_new(&bus_), 0);
    EXPECT_GE(sd_bus_set_fd(bus_, ends[1], ends[1]), 0);
    EXPECT_GE(sd_bus_set_server(bus_, 1, id), 0);
    EXPECT_GE(sd_bus_negotiate_fds(bus_, 1), 0);
    EXPECT_GE(sd_bus_start(bus_), 0);
    EXPECT_EQ(::send(client_.get(), kHandshake.data(), kHandshake.size(), 0),
              static_cast<ssize_t>(kHandshake.size()));
    Process();
  }
  ~NaiveServer() {
    sd_bus_close(bus_);
    sd_bus_unref(bus_);
  }
  NaiveServer(const NaiveServer&) = delete;
  NaiveServer& operator=(const NaiveServer&) = delete;

  void Process() {
    while (sd_bus_process(bus_, nullptr) > 0) {
    }
  }
  bool IsOpen() { return sd_bus_is_open(bus_) > 0; }
  bool HasADeadline() {
    std::uint64_t at = UINT64_MAX;
    EXPECT_GE(sd_bus_get_timeout(bus_, &at), 0);
    return at != UINT64_MAX;
  }
  // True if the server has read all of these bytes, and wants more.
  bool Takes(std::string_view bytes) {
    while (!bytes.empty() && IsOpen()) {
      const ssize_t sent =
          ::send(client(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      bytes.remove_prefix(sent > 0 ? static_cast<std::size_t>(sent) : 0);
      Process();
    }
    return IsOpen();
  }
  int client() const { return client_.get(); }

 private:
  UniqueFd client_;
  sd_bus* bus_ = nullptr;
};

// True if naive servers keep unfinished messages of `whole` MiB, of which
// `each` MiB have arrived, on so many connections.
bool NaiveKeeps(int connections, std::size_t each, std::uint32_t whole) {
  const std::string part =
      MarshalCall(1, "ListOwed", "s", Large(each * kMiB),
                  whole * static_cast<std::uint32_t>(kMiB));
  ::malloc_trim(0);  // memory that is free already does not count
  const std::size_t before = ResidentMiB();
  std::list<NaiveServer> servers;
  for (int i = 0; i < connections; ++i) {
    if (!servers.emplace_back().Takes(part)) {
      return false;
    }
  }
  return ResidentMiB() >=
         before + static_cast<std::size_t>(connections) * each * 3 / 4;
}

class PeerBounds : public Peers {
 protected:
  // Returns the number of the property DroppedPeers for the reason.
  std::uint64_t Dropped(const std::string& reason) {
    const Answer answer =
        witness_->CallOn("/org/mountd1", "org.freedesktop.DBus.Properties",
                         "Get", "ss", "org.mountd1.Manager", "DroppedPeers");
    EXPECT_EQ(answer.signature, "v") << answer.message;
    const std::size_t at = answer.text.find('"' + reason + '"');
    const std::size_t digits = answer.text.find_first_of(
        "0123456789", std::min(at, answer.text.size()));
    if (digits == std::string::npos) {
      ADD_FAILURE() << answer.text;
      return 0;
    }
    return std::stoul(answer.text.substr(digits));
  }
  // Expects that mountd drops the connection, and closes everything of it.
  void ExpectDropped(RawSocket& socket) {
    EXPECT_TRUE(socket.AwaitClosed());
    EXPECT_TRUE(OnlyTheWitnessIsLeft());
    ExpectServed();
  }
};

TEST_F(PeerBounds, AMessageOfMoreThanFourMiBEndsItsConnection) {
  EXPECT_NAIVE(NaiveKeeps(1, 16, 32));
  Begin();
  const std::size_t before = ResidentMiB();
  RawSocket socket = ShakenHands();
  // sd-bus itself would take all of it, because its own limit is 128 MiB.
  EXPECT_TRUE(socket.Write(MarshalCall(1, "ListOwed", "s", "", 100 * kMiB)));
  ExpectDropped(socket);
  EXPECT_LT(ResidentMiB(), before + 16);
  EXPECT_EQ(Dropped("too-large"), 1U);
}

TEST_F(PeerBounds, AMessageBelowThatIsAnswered) {
  Begin();
  RawSocket socket = ShakenHands();
  for (std::uint32_t serial = 1; serial <= 8; ++serial) {
    ASSERT_TRUE(socket.Write(
        MarshalCall(serial, "ListOwed", "s", Large(4 * kMiB - 1024))));
    EXPECT_TRUE(socket.ReadMessage());
  }
  ExpectServed();
}

// Without a bound for all of a user's connections 32 of them could keep 128
// MiB.
TEST_F(PeerBounds, UnfinishedMessagesOfOneUserAreBoundedTogether) {
  EXPECT_NAIVE(NaiveKeeps(16, 7, 8));
  Begin();
  std::vector<RawSocket> all;
  const std::string part = Large(3 * kMiB);
  for (int i = 0; i < 10; ++i) {
    all.push_back(ShakenHands());
    (void)all.back().Write(
        MarshalCall(1, "ListOwed", "s", part, 4 * kMiB - 1024));
  }
  // The witness and four of the connections remain.
  EXPECT_TRUE(Eventually([this] { return server().peer_count() == 5; }));
  const Answer answer = witness_->Call("ListAllocations", "a{sv}", 0);
  EXPECT_TRUE(answer.ok()) << answer.message;
  all.clear();
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  RawSocket again = ShakenHands();
  ASSERT_TRUE(
      again.Write(MarshalCall(1, "ListOwed", "s", Large(4 * kMiB - 1024))));
  EXPECT_TRUE(again.ReadMessage());
}

TEST_F(PeerBounds, AMessageThatIsNotFinishedInTimeEndsItsConnection) {
  {
    NaiveServer naive;
    EXPECT_NAIVE(
        naive.Takes(MarshalCall(1, "ListOwed", "a{sv}").substr(0, 30)) &&
        !naive.HasADeadline());
  }
  options_.peers.message = std::chrono::milliseconds(200);
  Begin();
  RawSocket idle = ShakenHands();
  RawSocket silent = ShakenHands();
  ASSERT_TRUE(silent.Write(MarshalCall(1, "ListOwed", "a{sv}").substr(0, 30)));
  RawSocket dripping = ShakenHands();
  ASSERT_TRUE(dripping.Write(MarshalCall(1, "ListOwed", "s", "", 1 * kMiB)));
  int written = 0;
  while (dripping.WriteSome("x").value_or(0) == 1 && written < 5000) {
    ++written;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(written, 5000);
  EXPECT_TRUE(dripping.AwaitClosed());
  EXPECT_TRUE(silent.AwaitClosed());
  EXPECT_EQ(Dropped("unfinished"), 2U);
  // A connection that sends nothing stays.
  EXPECT_TRUE(Eventually([this] { return server().peer_count() == 2; }));
  ASSERT_TRUE(idle.Write(MarshalIntrospect(1)));
  EXPECT_TRUE(idle.ReadMessage());
  ExpectServed();
}

// The message comes byte by byte, each with as many fds as the kernel takes.
TEST_F(PeerBounds, FdsOfAnUnfinishedMessageAreBounded) {
  const UniqueFd memfd(::memfd_create("collected", MFD_CLOEXEC));
  const std::vector<int> many(253, memfd.get());
  const std::string call =
      MarshalCall(1, "ListOwed", "a{sv}", std::string(8, '\0'));
  {
    NaiveServer naive;
    const std::size_t before = OpenFdsOf("collected");
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(SendWithFds(naive.client(), call.substr(i, 1), many));
      naive.Process();
    }
    EXPECT_NAIVE(naive.IsOpen() && OpenFdsOf("collected") == before + 4 * 253);
  }
  Begin();
  const std::size_t before = OpenFds();
  RawSocket socket = ShakenHands();
  std::size_t sent = 0;
  // The attack would send 20,000 fds; some wait in the kernel when mountd drops
  // the connection.
  while (sent < 79 && socket.WriteWithFds(call.substr(sent, 1), many)) {
    ++sent;
    EXPECT_LE(OpenFdsOf("mountd-passed"), dbus::Inbound::kMostFds);
  }
  ExpectDropped(socket);
  EXPECT_EQ(Dropped("fds"), 1U);
  socket.Close();
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }));
}

// A call keeps its message until it is answered, and other calls may join it.
TEST_F(PeerBounds, AMessageHasNoMoreFdsThanAMethodTakes) {
  const UniqueFd memfd(::memfd_create("too many", MFD_CLOEXEC));
  Begin();
  for (const std::size_t count :
       {dbus::Inbound::kMostFds, dbus::Inbound::kMostFds + 1,
        std::size_t{253}}) {
    RawSocket socket = ShakenHands();
    const std::vector<int> fds(count, memfd.get());
    ASSERT_TRUE(socket.WriteWithFds(
        MarshalCallWithFds(1, "ListOwed", static_cast<std::uint32_t>(count)),
        fds));
    if (count > dbus::Inbound::kMostFds) {
      ExpectDropped(socket);
    } else {
      EXPECT_TRUE(socket.ReadMessage());
    }
  }
  // mountd refuses the user while mountd-closer has the fds. The last ones may
  // come there after a connection was accepted.
  EXPECT_TRUE(testing::Eventually([this] {
    const auto newcomer = ConnectPeer();
    return newcomer != nullptr &&
           newcomer->Call("ListAllocations", "a{sv}", 0).ok();
  }));
}

// sd-bus drops such a message, so the caller would wait for its answer for
// ever.
TEST_F(PeerBounds, AMalformedMessageEndsItsConnection) {
  const std::string sound =
      MarshalCall(2, "ListAllocations", "a{sv}", std::string(8, '\0'));
  const auto with = [&](const std::string& text, const std::string& other) {
    std::string bytes = sound;
    return bytes.replace(bytes.find(text), text.size(), other);
  };
  std::string of_another_version = sound;
  of_another_version[3] = 9;
  const std::string malformed[] = {
      MarshalCallTo(2, "ListAllocations", ""),
      MarshalCallTo(2, "ListAllocations", "no name"),
      with("ListAllocations", "List.Allocation"),
      with("org.mountd1.Manager", "org.mountd1.Manag\xff\xff"),
      of_another_version};
  {
    NaiveServer naive;
    ASSERT_TRUE(naive.Takes(malformed[0]));
    EXPECT_TRUE(naive.IsOpen()) << "sd-bus ends the connection itself";
  }
  Begin();
  std::uint64_t dropped = 0;
  for (const std::string& bytes : malformed) {
    SCOPED_TRACE(bytes);
    RawSocket first = ShakenHands();
    ASSERT_TRUE(first.Write(bytes));
    EXPECT_TRUE(first.AwaitClosed());
    // Calls before it are answered, and none after it is served.
    RawSocket later = ShakenHands();
    ASSERT_TRUE(later.Write(MarshalIntrospect(1)));
    EXPECT_TRUE(later.ReadMessage());
    ASSERT_TRUE(later.Write(bytes + sound));
    EXPECT_TRUE(later.AwaitClosed());
    dropped += 2;
    EXPECT_TRUE(Eventually([&] { return Dropped("malformed") == dropped; }))
        << Dropped("malformed");
  }
  // So is one that comes together with the handshake.
  RawSocket together(server().socket());
  ASSERT_TRUE(together.Write(kHandshake + malformed[0]));
  EXPECT_TRUE(together.AwaitClosed());
  ExpectServed();
}

// Sound messages in the same write, however many, are no malformed ones.
TEST_F(PeerBounds, ManySoundMessagesInOneWriteAreServed) {
  Begin();
  RawSocket socket(server().socket());
  std::string all = kHandshake;
  constexpr std::uint32_t kCalls = 50;
  for (std::uint32_t serial = 1; serial <= kCalls; ++serial) {
    all += MarshalIntrospect(serial);
  }
  ASSERT_TRUE(socket.Write(all));
  for (int line = 0; line < 3; ++line) {
    ASSERT_TRUE(socket.ReadLine());
  }
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(socket.ReadMessage()) << i;
  }
  EXPECT_EQ(Dropped("malformed"), 0U);
}

// libsystemd keeps the fds of a malformed message open.
TEST_F(PeerBounds, FdsOfMalformedMessagesAreClosed) {
  const UniqueFd memfd(::memfd_create("lost", MFD_CLOEXEC));
  // The header claims three fds.
  const std::string call = MarshalCallWithFds(1, "ListOwed", 3);
  // The attack runs in a child, so that the fds that sd-bus loses end with it.
  const pid_t naive = ::fork();
  if (naive == 0) {
    const std::size_t before = OpenFdsOf("lost");
    {
      NaiveServer server;
      if (!SendWithFds(server.client(), call, {memfd.get(), memfd.get()})) {
        ::_exit(255);
      }
      server.Process();
    }
    ::_exit(static_cast<int>(OpenFdsOf("lost") - before));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(naive, &status, 0), naive);
  const int lost = WEXITSTATUS(status);
  RecordProperty("lost_by_sd_bus", lost);
  EXPECT_TRUE(lost == 0 || lost == 2) << lost;
  Begin();
  const std::size_t before = OpenFds();
  for (int i = 0; i < 50; ++i) {
    RawSocket socket = ShakenHands();
    ASSERT_TRUE(socket.WriteWithFds(call, {memfd.get(), memfd.get()}));
    if (i % 2 == 0) {
      // A call follows, which mountd does not serve: it drops such a
      // connection.
      (void)socket.Write(MarshalIntrospect(2));
      EXPECT_TRUE(socket.AwaitClosed());
    }
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }))
      << OpenFds() - before;
  EXPECT_EQ(OpenFdsOf("mountd-passed"), 0U);
  EXPECT_GE(Dropped("malformed"), 25U);
  ExpectServed();
}

// No single connection reaches its own bound here.
TEST_F(PeerBounds, UnreadAnswersOfOneUserAreBoundedTogether) {
  constexpr std::size_t kConnections = 6;
  // sd-bus makes room in the socket for some 1,000 of root's answers, and for
  // some 20 of other users'. The other answers wait in mountd.
  const std::uint32_t calls_of_one = IsRoot() ? 1500 : 1000;
  options_.peers.stall_check = std::chrono::hours(1);
  Begin();
  std::string calls;
  for (std::uint32_t serial = 1; serial <= calls_of_one; ++serial) {
    calls += MarshalIntrospect(serial);
  }
  std::vector<RawSocket> deaf;
  for (std::size_t i = 0; i < kConnections; ++i) {
    deaf.push_back(ShakenHands());
  }
  for (RawSocket& one : deaf) {
    (void)one.Write(calls);
  }
  // Two connections together have 1,024 answers, and the witness stays.
  EXPECT_TRUE(Eventually([this] { return server().peer_count() <= 1 + 2; }))
      << server().peer_count();
  EXPECT_GE(Dropped("unread"), kConnections - 2);
  ExpectServed();
}

TEST_F(PeerBounds, ConnectionsThatAreNotTakenAreCounted) {
  options_.config.limits.peers_per_uid = 3;
  HandshakeSoonOver();
  Begin();
  RawSocket silent(server().socket());
  EXPECT_TRUE(silent.AwaitClosed());
  EXPECT_EQ(Dropped("handshake"), 1U);
  const RawSocket first = ShakenHands();
  const RawSocket second = ShakenHands();
  RawSocket third(server().socket());
  EXPECT_TRUE(third.AwaitClosed());
  EXPECT_EQ(Dropped("refused"), 1U);
  EXPECT_EQ(Dropped("unread"), 0U);
}

// Calls name an fd twice, name several at once, and pass a kind that mountd
// itself may not hold. Each method gets what was sent, and nothing stays open.
TEST_F(PeerBounds, WhatIsPassedIsNotKept) {
  Begin();
  const std::size_t before = OpenFds();
  const UniqueFd directory(::open("/tmp", O_PATH | O_CLOEXEC));
  const UniqueFd queue(::memfd_create("unsealed", MFD_CLOEXEC));
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(witness_->Call("RemoveTree", "ha{sv}", queue.get(), 0).ok());
    (void)witness_->Call("RemoveTree", "ha{sv}", directory.get(), 0);
  }
  // Two of the fds are this test's own.
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before + 2; }))
      << OpenFds() - before;
}

}  // namespace
}  // namespace mountd::test
