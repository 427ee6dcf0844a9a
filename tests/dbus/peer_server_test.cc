// SPDX-License-Identifier: LGPL-2.1-or-later
//
//
// The peer-to-peer socket against clients that misbehave: mountd drops them,
// keeps nothing of them, and serves the others meanwhile.
#include <fcntl.h>
#include <sys/mman.h>

#include "csi-node/types/secrets.h"
#include "tests/dbus/peers_test.h"

namespace mountd::test {
namespace {

// The sanitizers need memory themselves: AddressSanitizer keeps 256 MiB of
// freed memory, ThreadSanitizer several bytes for each byte.
#ifdef MOUNTD_SANITIZED
constexpr std::size_t kMostMiB = 384;
#else
constexpr std::size_t kMostMiB = 64;
#endif

// Returns many small calls, each with an answer of many KiB.
std::string ManyCalls(std::uint32_t count) {
  std::string calls;
  for (std::uint32_t serial = 1; serial <= count; ++serial) {
    calls += MarshalIntrospect(serial);
  }
  return calls;
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
  options_.peers.stall_check = std::chrono::hours(1);
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
  EXPECT_LT(peak - before, kMostMiB);
  EXPECT_TRUE(OnlyTheWitnessIsLeft());
  ExpectServed();
}

// The subscriber makes no further call, so only a timer finds it.
TEST_F(Peers, ASubscriberThatNeverReadsIsDropped) {
  Begin();
  RawSocket deaf = DeafSubscriber();
  EXPECT_TRUE(Eventually([this] {
    EmitSignals(1000);
    return server().peer_count() == 1;
  }));
  ExpectServed();
}

TEST_F(Peers, TheServerEndsAlthoughSomebodyNeverReads) {
  options_.peers.stall_check = std::chrono::hours(1);
  Begin();
  RawSocket deaf = DeafSubscriber();
  // The signals are far more than the socket takes.
  EmitSignals(100'000);
  EXPECT_EQ(server().peer_count(), 2U);
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

// Sends the bytes of `send` with an fd, as one client after another. None of
// these fds may be open at the end.
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
    // Before mountd accepts the connection the kernel refuses fds, if it can
    // (Linux 6.16).
    EXPECT_TRUE(Eventually([&] { return socket.WriteWithFd(kHandshake, fd); }));
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
