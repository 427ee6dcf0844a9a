// SPDX-License-Identifier: LGPL-2.1-or-later
//
//
// The number of other peers' calls that begin between two calls of one peer.
// The test counts operations, which are numbered as the loop begins them and
// whose number is in InProgress, so the machine's speed does not matter.
#include <algorithm>
#include <regex>
#include <vector>

#include "tests/dbus/peers_test.h"

namespace mountd::test {
namespace {

// ARCHITECTURE.md has this number, for each other connection.
constexpr std::uint64_t kOfEachOther = 2;
constexpr std::uint32_t kMine = 8;

class PeerTurns : public Peers {
 protected:
  void SetUp() override {
    Peers::SetUp();
    options_.config.timeouts.patience = std::chrono::milliseconds(1);
    options_.config.limits.operations_per_uid = 100'000;
    options_.config.limits.peers_per_uid = 64;
  }

  static std::string CallFor(std::uint32_t serial, const std::string& method,
                             const std::string& allocation) {
    std::string body = MarshalText(allocation);
    body.resize((body.size() + 3) / 4 * 4, '\0');
    body += std::string(4, '\0');
    body.resize((body.size() + 7) / 8 * 8, '\0');
    return MarshalCall(serial, method, "sa{sv}", body);
  }
  // Returns calls that are different operations.
  static std::string Flood(int peer, std::uint32_t calls) {
    std::string all;
    for (std::uint32_t serial = 1; serial <= calls; ++serial) {
      all += CallFor(serial, "GetReceipt",
                     "f" + std::to_string(peer) + "-" + std::to_string(serial));
    }
    return all;
  }
  // Writes while the loop does nothing else: `others` first, then calls of a
  // peer that waits for none of them. Returns how many other calls began before
  // each of the peer's calls, since the one before.
  std::vector<std::uint64_t> BetweenMine(const std::function<void()>& others) {
    executor().script().Block("PrepareAllocation");
    RawSocket mine = ShakenHands();
    EXPECT_TRUE(mine.Write(CallFor(1, "PrepareAllocation", "first")));
    std::uint64_t last = NumberIn(mine.ReadMessage());
    std::string calls;
    for (std::uint32_t serial = 0; serial < kMine; ++serial) {
      calls += CallFor(2 + serial, "PrepareAllocation",
                       "mine-" + std::to_string(serial));
    }
    server().OnLoop([&] {
      others();
      EXPECT_EQ(mine.WriteSome(calls), calls.size());
    });
    std::vector<std::uint64_t> numbers;
    for (std::uint32_t i = 0; i < kMine; ++i) {
      numbers.push_back(NumberIn(mine.ReadMessage()));
    }
    // All calls have the same patience, so their answers may come in any order.
    std::sort(numbers.begin(), numbers.end());
    std::vector<std::uint64_t> between;
    for (const std::uint64_t number : numbers) {
      between.push_back(number - last - 1);
      last = number;
    }
    return between;
  }
  static void ExpectAtMost(const std::vector<std::uint64_t>& between,
                           std::uint64_t most) {
    for (std::size_t i = 0; i < between.size(); ++i) {
      EXPECT_LE(between[i], most) << "before call " << i;
    }
  }

 private:
  // Returns the number of the operation in such an answer.
  static std::uint64_t NumberIn(const std::optional<std::string>& message) {
    const std::regex id(std::to_string(::getpid()) + R"(\.([0-9]+))");
    std::smatch found;
    if (!message || !std::regex_search(*message, found, id)) {
      ADD_FAILURE() << "not answered InProgress: " << message.value_or("");
      return 0;
    }
    return std::stoull(found[1]);
  }
};

TEST_F(PeerTurns, FloodsWaitForTheirTurns) {
  constexpr int kOthers = 8;
  Begin();
  std::vector<RawSocket> others;
  for (int i = 0; i < kOthers; ++i) {
    others.push_back(ShakenHands());
  }
  const auto between = BetweenMine([&] {
    for (int i = 0; i < kOthers; ++i) {
      const std::string calls = Flood(i, 200);
      EXPECT_EQ(others[static_cast<std::size_t>(i)].WriteSome(calls),
                calls.size());
    }
  });
  ExpectAtMost(between, kOfEachOther * kOthers);
  // The peer's own calls did not all come first.
  EXPECT_GT(between.back(), 0U);
}

// mountd reads at once what comes with the handshake, but does not serve it at
// once.
TEST_F(PeerTurns, AFloodInTheHandshakesWriteWaitsForItsTurns) {
  constexpr int kOthers = 8;
  Begin();
  std::vector<RawSocket> others;
  const auto between = BetweenMine([&] {
    for (int i = 0; i < kOthers; ++i) {
      const std::string all = kHandshake + Flood(i, 200);
      others.emplace_back(server().socket());
      EXPECT_EQ(others.back().WriteSome(all), all.size());
    }
  });
  ExpectAtMost(between, kOfEachOther * kOthers);
  EXPECT_GT(between.back(), 0U);
}

TEST_F(PeerTurns, WhoConnectsWaitsForItsTurn) {
  constexpr int kOthers = 32;
  Begin();
  std::vector<RawSocket> others;
  const auto between = BetweenMine([&] {
    for (int i = 0; i < kOthers; ++i) {
      const std::string all = kHandshake + Flood(i, 1);
      others.emplace_back(server().socket());
      EXPECT_EQ(others.back().WriteSome(all), all.size());
    }
  });
  // mountd accepts one connection in a turn, and begins its call.
  ExpectAtMost(between, kOfEachOther);
  EXPECT_GT(between.back(), 0U);
}

// mountd begins none of their calls, so the peer's calls follow one another.
TEST_F(PeerTurns, HalvesTakeNobodysTurn) {
  Begin();
  std::vector<RawSocket> others;
  for (int i = 0; i < 8; ++i) {
    others.push_back(ShakenHands());
  }
  const std::string call = CallFor(1, "GetReceipt", "half");
  const auto between = BetweenMine([&] {
    for (RawSocket& half : others) {
      EXPECT_TRUE(half.WriteSome(call.substr(0, call.size() / 2)));
    }
    for (int i = 0; i < 8; ++i) {
      others.emplace_back(server().socket());
      EXPECT_TRUE(others.back().WriteSome(kHandshake.substr(0, 20)));
    }
  });
  ExpectAtMost(between, 0);
}

}  // namespace
}  // namespace mountd::test
