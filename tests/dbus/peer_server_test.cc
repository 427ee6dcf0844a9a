// SPDX-License-Identifier: LGPL-2.1-or-later
// The peer-to-peer socket against clients that do not behave: they are
// dropped, leave nothing behind, and the others are served meanwhile.
#include <fcntl.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

#include "csi-node/secrets.h"
#include "tests/dbus/api_test.h"
#include "tests/support/raw_socket.h"

namespace mountd::test {
namespace {

// Of this process: the server's and the clients' alike.
std::size_t OpenFds() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

std::size_t ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) >> 20U;
}

// Small to ask, and each with an answer of many KiB.
std::string ManyCalls(std::uint32_t count) {
  std::string calls;
  for (std::uint32_t serial = 1; serial <= count; ++serial) {
    calls += MarshalIntrospect(serial);
  }
  return calls;
}

class Peers : public ApiTest {
 protected:
  void SetUp() override {
    options_.config = DefaultConfig();
    options_.peers.stall_check = std::chrono::milliseconds(20);
  }
  // Those that say too little are dropped soon.
  void HandshakeSoonOver() {
    options_.peers.handshake = std::chrono::milliseconds(100);
  }
  // Begins, with one client that behaves and has to be served throughout.
  void Begin() {
    Start(options_);
    witness_ = ConnectPeer();
    ASSERT_NE(witness_, nullptr);
    // Answered: the server, too, has all that a connection takes.
    ASSERT_TRUE(witness_->Call("ListAllocations", "a{sv}", 0).ok());
  }
  void ExpectServed() {
    const Answer answer = witness_->Call("ListAllocations", "a{sv}", 0);
    EXPECT_TRUE(answer.ok()) << answer.error << answer.message;
    const auto newcomer = ConnectPeer();
    ASSERT_NE(newcomer, nullptr);
    EXPECT_TRUE(newcomer->Call("ListAllocations", "a{sv}", 0).ok());
  }
  // Nobody but the witness is left.
  bool OnlyTheWitnessIsLeft() {
    return Eventually([this] { return server().peer_count() == 1; });
  }
  // A raw client that has said what it has to.
  RawSocket ShakenHands() {
    RawSocket socket(server().socket());
    EXPECT_TRUE(socket.Write(kHandshake));
    EXPECT_EQ(socket.ReadLine(), "DATA");
    EXPECT_EQ(socket.ReadLine().value_or("").substr(0, 3), "OK ");
    EXPECT_EQ(socket.ReadLine(), "AGREE_UNIX_FD");
    return socket;
  }

  ApiServerOptions options_;
  std::unique_ptr<BusClient> witness_;
};

// ---- The handshake ----

TEST_F(Peers, ASilentClientIsDropped) {
  HandshakeSoonOver();
  Begin();
  RawSocket silent(server().socket());
  ASSERT_TRUE(Eventually([&] { return server().peer_count() == 2; }));
  ExpectServed();
  EXPECT_TRUE(silent.AwaitClosed());
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

TEST_F(Peers, HalfOfTheSaslIsDropped) {
  HandshakeSoonOver();
  Begin();
  for (std::size_t size = 1; size < kHandshake.size(); size += 6) {
    SCOPED_TRACE(size);
    RawSocket half(server().socket());
    EXPECT_TRUE(half.Write(kHandshake.substr(0, size)));
    EXPECT_TRUE(half.AwaitClosed());
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

TEST_F(Peers, WrongSaslIsNeverServed) {
  HandshakeSoonOver();
  Begin();
  const std::string nul(1, '\0');
  const std::string other_uid = IsRoot() ? "31" : "30";  // "1", "0" in hex
  for (const std::string& words :
       {std::string("AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n"),  // no NUL first
        nul + "BEGIN\r\n", nul + "AUTH ANONYMOUS\r\nBEGIN\r\n",
        nul + "AUTH EXTERNAL " + other_uid + "\r\nBEGIN\r\n",
        nul + "AUTH COOKIE_SHA1 30\r\nBEGIN\r\n", nul + "HELO\r\n",
        nul + std::string(100'000, 'A'), std::string(100'000, '\0')}) {
    SCOPED_TRACE(words.substr(0, 40));
    RawSocket socket(server().socket());
    socket.Write(words + MarshalCall(1, "ListAllocations"));
    std::optional<std::string> line = socket.ReadLine();
    while (line) {
      EXPECT_FALSE(line->starts_with("OK")) << *line;
      line = socket.ReadLine();
    }
    EXPECT_TRUE(socket.AwaitClosed());
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

TEST_F(Peers, ADeadlineOfTheHandshakeEndsWithIt) {
  HandshakeSoonOver();
  Begin();
  // Silent ones that came later are gone: the witness's own time is over, too.
  RawSocket later(server().socket());
  ASSERT_TRUE(later.AwaitClosed());
  EXPECT_TRUE(witness_->Call("ListAllocations", "a{sv}", 0).ok());
}

TEST_F(Peers, EverythingInOneWriteIsAnswered) {
  Begin();
  RawSocket socket(server().socket());
  std::string all = kHandshake;
  constexpr std::uint32_t kCalls = 20;
  const std::string no_options(8, '\0');
  for (std::uint32_t serial = 1; serial <= kCalls; ++serial) {
    all += MarshalCall(serial, "ListAllocations", "a{sv}", no_options);
  }
  ASSERT_TRUE(socket.Write(all));
  for (int line = 0; line < 3; ++line) {
    ASSERT_TRUE(socket.ReadLine());
  }
  for (std::uint32_t reply = 0; reply < kCalls; ++reply) {
    const std::optional<std::string> message = socket.ReadMessage();
    ASSERT_TRUE(message) << reply;
    EXPECT_EQ(message->at(1), 2) << "not a method return";
  }
}

// All of it may come in one read, and nothing more after it.
TEST_F(Peers, TheFirstCallInTheHandshakesWriteIsAnswered) {
  Begin();
  const std::string call =
      MarshalCall(1, "ListAllocations", "a{sv}", std::string(8, '\0'));
  for (const bool with_fds : {true, false}) {
    std::string words = kHandshake;
    if (!with_fds) {
      words = std::string(1, '\0') + "AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n";
    }
    RawSocket socket(server().socket());
    ASSERT_TRUE(socket.Write(words + call));
    for (int line = 0; line < (with_fds ? 3 : 2); ++line) {
      ASSERT_TRUE(socket.ReadLine());
    }
    const std::optional<std::string> message = socket.ReadMessage();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->at(1), 2) << "not a method return";
  }
}

// ---- How many ----

TEST_F(Peers, ConnectionsOfAUserAreBounded) {
  options_.config.limits.peers_per_uid = 3;
  Begin();
  const auto second = ConnectPeer();
  RawSocket silent(server().socket());
  ASSERT_TRUE(Eventually([&] { return server().peer_count() == 3; }));
  RawSocket refused(server().socket());
  EXPECT_TRUE(refused.AwaitClosed());
  EXPECT_EQ(server().peer_count(), 3U);
  silent.Close();
  EXPECT_TRUE(Eventually([&] { return ConnectPeer() != nullptr; }));
}

TEST_F(Peers, AnotherUsersConnectionsAreAnother) {
  if (!IsRoot()) {
    GTEST_SKIP() << "only root can connect as other users";
  }
  options_.config.limits.peers_per_uid = 2;
  Begin();
  const auto second = ConnectPeer();
  RawSocket refused(server().socket());
  EXPECT_TRUE(refused.AwaitClosed());
  const auto alice = ConnectPeer(kAlice);
  ASSERT_NE(alice, nullptr);
  EXPECT_TRUE(alice->Call("ListAllocations", "a{sv}", 0).ok());
}

TEST_F(Peers, ConnectionsOfAllAreBounded) {
  options_.peers.max_peers = 3;
  Begin();
  RawSocket first(server().socket());
  RawSocket second(server().socket());
  ASSERT_TRUE(Eventually([&] { return server().peer_count() == 3; }));
  RawSocket refused(server().socket());
  EXPECT_TRUE(refused.AwaitClosed());
  EXPECT_TRUE(witness_->Call("ListAllocations", "a{sv}", 0).ok());
}

TEST_F(Peers, ComingAndGoingLeavesNothing) {
  Begin();
  const std::size_t before = OpenFds();
  for (int i = 0; i < 100; ++i) {
    const auto client = ConnectPeer();
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->Call("ListAllocations", "a{sv}", 0).ok());
    RawSocket half(server().socket());
    half.Write(kHandshake.substr(0, static_cast<std::size_t>(i) % 48));
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }));
}

// ---- Floods ----

TEST_F(Peers, AFloodOfOperationsIsNotOthersProblem) {
  if (!IsRoot()) {
    GTEST_SKIP() << "only root can connect as other users";
  }
  Begin();
  const auto alice = ConnectPeer(kAlice);
  const auto bob = ConnectPeer(kBob);
  ASSERT_NE(alice, nullptr);
  ASSERT_NE(bob, nullptr);
  executor().script().Block("PrepareAllocation");
  std::vector<std::uint64_t> calls;
  for (int i = 0; i < 500; ++i) {
    calls.push_back(alice->Send("PrepareAllocation", "sa{sv}",
                                ("a" + std::to_string(i)).c_str(), 0));
  }
  alice->Fence();
  EXPECT_EQ(server().running(), options_.config.limits.operations_per_uid);
  EXPECT_TRUE(bob->Call("ListAllocations", "a{sv}", 0).ok());
  executor().script().UnblockAll();
  std::size_t refused = 0;
  for (const std::uint64_t call : calls) {
    const Answer answer = alice->Await(call);
    if (!answer.ok()) {
      EXPECT_EQ(answer.error, "org.mountd1.Error.ResourceExhausted");
      ++refused;
    }
  }
  EXPECT_EQ(refused, calls.size() - options_.config.limits.operations_per_uid);
}

TEST_F(Peers, WhoNeverReadsIsDroppedAndCostsLittle) {
  Begin();
  const std::size_t before = ResidentMiB();
  RawSocket deaf = ShakenHands();
  std::size_t peak = before;
  std::size_t offset = 0;
  const std::string calls = ManyCalls(1000);
  const auto written_until_dropped = [&] {
    const auto written = deaf.WriteSome(calls.substr(offset));
    offset = (offset + written.value_or(0)) % calls.size();
    peak = std::max(peak, ResidentMiB());
    return !written;
  };
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(witness_->Call("ListAllocations", "a{sv}", 0).ok());
    return written_until_dropped();
  }));
  EXPECT_LT(peak - before, 256U);
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

TEST_F(Peers, TheServerEndsAlthoughSomebodyNeverReads) {
  options_.peers.stall_check = std::chrono::hours(1);
  Begin();
  RawSocket deaf = ShakenHands();
  // Taken in by the server but for what the socket holds: far more answers
  // than the socket takes wait for being read.
  ASSERT_TRUE(deaf.Write(ManyCalls(10'000)));
  EXPECT_TRUE(witness_->Call("ListAllocations", "a{sv}", 0).ok());
  Stop();
  EXPECT_TRUE(deaf.AwaitClosed());
  EXPECT_TRUE(witness_->AwaitDisconnect());
}

// ---- Messages ----

TEST_F(Peers, HalfAMessageAndAHangUp) {
  Begin();
  const std::string body = MarshalText("web") + std::string(8, '\0');
  const std::string call = MarshalCall(1, "PrepareAllocation", "sa{sv}", body);
  for (std::size_t size = 1; size < call.size(); size += 7) {
    RawSocket socket = ShakenHands();
    EXPECT_TRUE(socket.Write(call.substr(0, size)));
    socket.Close();
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  EXPECT_EQ(server().Records(), "");
  ExpectServed();
}

TEST_F(Peers, AMessageTooLargeToBeOneIsRefused) {
  Begin();
  const std::size_t before = ResidentMiB();
  for (const std::uint32_t size : {0xffffffffU, 0x7fffffffU, 0x08000001U}) {
    SCOPED_TRACE(size);
    RawSocket socket = ShakenHands();
    EXPECT_TRUE(
        socket.Write(MarshalCall(1, "PrepareAllocation", "s", "", size)));
    EXPECT_TRUE(socket.AwaitClosed());
  }
  EXPECT_LT(ResidentMiB(), before + 64);
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

TEST_F(Peers, BytesThatAreNoMessageAreRefused) {
  Begin();
  const std::string call =
      MarshalCall(1, "ListAllocations", "a{sv}", std::string(8, '\0'));
  for (const std::size_t at : {0U, 3U, 12U, 16U}) {
    SCOPED_TRACE(at);
    std::string broken = call;
    broken.at(at) = '\x7f';
    RawSocket socket = ShakenHands();
    EXPECT_TRUE(socket.Write(broken + std::string(100'000, '\x7f')));
    EXPECT_TRUE(socket.AwaitClosed());
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

TEST_F(Peers, TextThatIsNotUtf8OrHoldsANulIsRefused) {
  Begin();
  const std::size_t plans = executor().plans().size();
  for (const std::string& name :
       {std::string("w\xff\xfe"), std::string("a\0b", 3),
        std::string("\xc0\xaf")}) {
    std::string body = MarshalText(name);
    body.resize((body.size() + 3) / 4 * 4, '\0');
    body += std::string(4, '\0');
    body.resize((body.size() + 7) / 8 * 8, '\0');
    RawSocket socket = ShakenHands();
    EXPECT_TRUE(
        socket.Write(MarshalCall(1, "PrepareAllocation", "sa{sv}", body)));
    const std::optional<std::string> answer = socket.ReadMessage();
    EXPECT_TRUE(!answer || answer->at(1) == 3) << "not an error";
  }
  EXPECT_EQ(server().Records(), "");
  EXPECT_EQ(executor().plans().size(), plans);
  ExpectServed();
}

// ---- File descriptors ----

TEST_F(Peers, FdsThatNobodyAskedForAreClosed) {
  Begin();
  const std::size_t before = OpenFds();
  {
    const auto client = ConnectPeer();
    const UniqueFd memfd(::memfd_create("test", MFD_CLOEXEC));
    for (int i = 0; i < 50; ++i) {
      EXPECT_FALSE(
          client
              ->Call("ListAllocations", "a{sv}", 1, "secrets", "h", memfd.get())
              .ok());
      EXPECT_FALSE(client->Call("NoSuchMethod", "h", memfd.get()).ok());
    }
  }
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }));
}

// Sends what `send` writes, with an fd beside it, as one client after another;
// nothing of it may be open in the end.
class StrayFds : public Peers {
 protected:
  void ExpectClosed(const std::function<void(int)>& send) {
    Begin();
    const std::size_t before = OpenFds();
    for (int i = 0; i < 20; ++i) {
      const UniqueFd memfd(::memfd_create("test", MFD_CLOEXEC));
      send(memfd.get());
      ASSERT_TRUE(OnlyTheWitnessIsLeft());
    }
    EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }))
        << OpenFds() - before << " are left";
    ExpectServed();
  }
  const std::string call_ =
      MarshalCall(1, "ListAllocations", "a{sv}", std::string(8, '\0'));
};

TEST_F(StrayFds, DuringTheHandshake) {
  ExpectClosed([this](int fd) {
    RawSocket socket(server().socket());
    EXPECT_TRUE(socket.WriteWithFd(kHandshake, fd));
    EXPECT_TRUE(socket.AwaitClosed());
  });
}

TEST_F(StrayFds, BesideHalfAMessage) {
  ExpectClosed([this](int fd) {
    RawSocket socket = ShakenHands();
    EXPECT_TRUE(socket.WriteWithFd(call_.substr(0, 20), fd));
  });
}

TEST_F(Peers, SecretsAreClosedOnceTheyAreHandedOver) {
  Begin();
  ASSERT_TRUE(
      witness_->Call("RegisterPlugin", "sssa{sv}", "csi", "node", "", 0).ok());
  ASSERT_TRUE(Eventually([&] {
    return witness_->Call("GetPlugin", "sa{sv}", "csi", 0).values["state"] ==
           "\"healthy\"";
  }));
  ASSERT_TRUE(witness_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  const std::size_t before = OpenFds();
  const auto publish = [&](int secrets) {
    return witness_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web",
                          "data", "vol", "csi", 0, 0, 0, 1, "secrets", "h",
                          secrets);
  };
  {
    const UniqueFd secrets = csi::EncodeSecrets({{"key", "value"}}).value();
    csi().FailNext("NodeStageVolume", csi::RpcCode::kInvalidArgument);
    EXPECT_FALSE(publish(secrets.get()).ok());
    EXPECT_TRUE(publish(secrets.get()).ok());
    EXPECT_TRUE(csi().last_had_secrets());
  }
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }));
}

}  // namespace
}  // namespace mountd::test
