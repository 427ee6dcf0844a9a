// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/framing.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "tests/support/raw_socket.h"

namespace mountd::dbus {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string Messages() {
  return test::MarshalIntrospect(1) +
         test::MarshalCall(2, "ListOwed", "s", test::MarshalText("abc")) +
         test::MarshalIntrospect(3);
}

TEST(Framing, IsTheSameHoweverTheBytesCome) {
  const std::string all = test::kHandshake + Messages();
  for (std::size_t step = 1; step <= all.size(); ++step) {
    Framing framing;
    for (std::size_t at = 0; at < all.size(); at += step) {
      framing.Add(Bytes(all.substr(at, step)));
    }
    EXPECT_EQ(framing.complete(), 3U) << step;
    EXPECT_FALSE(framing.IsInMessage()) << step;
  }
}

TEST(Framing, KnowsOfAMessageThatIsNotWhole) {
  const std::string message = test::MarshalIntrospect(1);
  for (std::size_t size = 1; size < message.size(); ++size) {
    Framing framing;
    framing.Add(Bytes(test::kHandshake));
    EXPECT_FALSE(framing.IsInMessage());
    framing.Add(Bytes(message.substr(0, size)));
    EXPECT_TRUE(framing.IsInMessage()) << size;
    EXPECT_EQ(framing.complete(), 0U);
  }
}

// A line that only ends in BEGIN does not end the handshake, for sd-bus
// neither.
TEST(Framing, OnlyTheLineBeginEndsTheHandshake) {
  Framing framing;
  framing.Add(Bytes("AUTH BEGIN\r\nNOT BEGIN\r\nBEGINS\r\n" +
                    test::MarshalIntrospect(1)));
  EXPECT_EQ(framing.complete(), 0U);
}

TEST(Framing, ReadsTheLengthsOfBothOrders) {
  std::string big(16, '\0');
  big[0] = 'B';
  big[7] = 4;    // the body's size
  big[15] = 12;  // the fields' size, padded to 16
  Framing framing;
  framing.Add(Bytes("BEGIN\r\n" + big + std::string(19, 'x')));
  EXPECT_TRUE(framing.IsInMessage());
  framing.Add(Bytes("x"));
  EXPECT_EQ(framing.complete(), 1U);
}

}  // namespace
}  // namespace mountd::dbus
