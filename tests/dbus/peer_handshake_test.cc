// SPDX-License-Identifier: LGPL-2.1-or-later
// Clients that get a connection to the peer-to-peer socket, and clients that do
// not.
#include "tests/dbus/peers_test.h"

namespace mountd::test {
namespace {

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
  // Later silent clients are gone, so the witness's own time would be over,
  // too.
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

// ---- Numbers of connections ----

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

}  // namespace
}  // namespace mountd::test
