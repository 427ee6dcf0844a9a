// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "dbus/methods/event.h"
#include "tests/dbus/api_test.h"
#include "tests/support/raw_socket.h"

namespace mountd::test {

// Return values of this process, which is the server's and the clients'.
std::size_t OpenFds();
std::size_t ResidentMiB();

// Has the peer-to-peer socket, and one client that behaves. mountd must serve
// that client whatever the others do.
class Peers : public ApiTest {
 protected:
  void SetUp() override {
    options_.config = DefaultConfig();
    options_.peers.stall_check = std::chrono::milliseconds(20);
  }
  // Makes mountd drop clients soon that do not finish their handshake.
  void HandshakeSoonOver() {
    options_.peers.handshake = std::chrono::milliseconds(100);
  }
  // Starts the server, with one client that mountd must serve throughout.
  void Begin() {
    Start(options_);
    witness_ = ConnectPeer();
    ASSERT_NE(witness_, nullptr);
    // An answer means that the server also has all that a connection takes.
    const Answer answer = witness_->Call("ListAllocations", "a{sv}", 0);
    // InProgress is an answer, too, where the patience is short.
    ASSERT_TRUE(answer.ok() || answer.error == "org.mountd1.Error.InProgress")
        << answer.error << ": " << answer.message;
  }
  void ExpectServed() {
    const Answer answer = witness_->Call("ListAllocations", "a{sv}", 0);
    EXPECT_TRUE(answer.ok()) << answer.error << ": " << answer.message;
    const auto newcomer = ConnectPeer();
    ASSERT_NE(newcomer, nullptr);
    const Answer first = newcomer->Call("ListAllocations", "a{sv}", 0);
    EXPECT_TRUE(first.ok()) << first.error << ": " << first.message;
  }
  // Returns a client that has subscribed, and reads nothing from then on.
  RawSocket DeafSubscriber() {
    RawSocket deaf = ShakenHands();
    EXPECT_TRUE(
        deaf.Write(MarshalCall(1, "Subscribe", "a{sv}", std::string(8, '\0'))));
    EXPECT_TRUE(deaf.ReadMessage());
    return deaf;
  }
  void EmitSignals(int times) {
    server().OnLoop([&] {
      for (int i = 0; i < times; ++i) {
        server().Send(dbus::OwedChanged(1));
      }
    });
  }
  // True once only the witness is left.
  bool OnlyTheWitnessIsLeft() {
    return Eventually([this] { return server().peer_count() == 1; });
  }
  // Returns a raw client that has finished its handshake.
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

}  // namespace mountd::test
