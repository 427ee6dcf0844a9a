// SPDX-License-Identifier: LGPL-2.1-or-later
// The fixed bytes are protoc's for the same messages of csi.proto.
#include "agent/mountctl/output/snapshot_message.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd::agent::test {
namespace {

std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string Bytes(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

constexpr char kCreated[] =
    "0a240880808080041206736e61702d311a05766f6c2d31220b0880e2cfaa061080e59a77"
    "2801";
constexpr char kListed[] =
    "0a2e0a2c08ac021206736e61702d311a05766f6c2d3122060880e2cfaa0628013201673a"
    "0b0a090a047a6f6e65120161"
    "0a1e0a1c1206736e61702d321a05766f6c2d32220b08ffffffffffffffffff01"
    "120132";

TEST(SnapshotMessage, RequestsAreTheBytesThatProtocMakes) {
  EXPECT_EQ(
      Hex(EncodeCreateSnapshot({"vol-1", "nightly", {{"a", "1"}, {"b", ""}}})),
      "0a05766f6c2d3112076e696768746c7922060a016112013122050a01621200");
  EXPECT_EQ(Hex(EncodeDeleteSnapshot("snap-1")), "0a06736e61702d31");
  EXPECT_EQ(Hex(EncodeListSnapshots({300, "2", "vol-1", "snap-1"})),
            "08ac021201321a05766f6c2d312206736e61702d31");
}

TEST(SnapshotMessage, WhatIsNotSaidIsNotSent) {
  EXPECT_EQ(EncodeCreateSnapshot({}), "");
  EXPECT_EQ(EncodeDeleteSnapshot(""), "");
  EXPECT_EQ(EncodeListSnapshots({}), "");
}

TEST(SnapshotMessage, ALongTextHasALengthOfSeveralBytes) {
  const std::string id(300, 'x');
  EXPECT_EQ(EncodeDeleteSnapshot(id), "\x0a\xac\x02" + id);
}

TEST(SnapshotMessage, ANegativeNumberHasTenBytes) {
  EXPECT_EQ(Hex(EncodeListSnapshots({.max_entries = -1})),
            "08ffffffffffffffffff01");
}

TEST(SnapshotMessage, ACreatedOneIsReadWhole) {
  const Snapshot snapshot = DecodeCreateSnapshot(Bytes(kCreated)).value();
  EXPECT_EQ(snapshot.snapshot, "snap-1");
  EXPECT_EQ(snapshot.source_volume, "vol-1");
  EXPECT_EQ(snapshot.size_bytes, 1'073'741'824);
  EXPECT_EQ(snapshot.creation_time.value().time_since_epoch().count(),
            1'700'000'000'250'000);
  EXPECT_TRUE(snapshot.ready_to_use);
  EXPECT_EQ(snapshot.group_snapshot, "");
}

TEST(SnapshotMessage, AListIsReadWhole) {
  const SnapshotPage page = DecodeListSnapshots(Bytes(kListed)).value();
  EXPECT_EQ(page.next_token, "2");
  ASSERT_EQ(page.snapshots.size(), 2U);
  EXPECT_EQ(page.snapshots[0].snapshot, "snap-1");
  EXPECT_EQ(page.snapshots[0].size_bytes, 300);
  EXPECT_EQ(page.snapshots[0].group_snapshot, "g");
  EXPECT_EQ(page.snapshots[1].source_volume, "vol-2");
  EXPECT_FALSE(page.snapshots[1].ready_to_use);
  EXPECT_EQ(page.snapshots[1].creation_time.value().time_since_epoch().count(),
            -1'000'000)
      << "before 1970";
}

TEST(SnapshotMessage, AnEmptyAnswerIsAnEmptySnapshotOrList) {
  EXPECT_EQ(DecodeCreateSnapshot("").value().snapshot, "");
  EXPECT_TRUE(DecodeListSnapshots("").value().snapshots.empty());
}

TEST(SnapshotMessage, OtherFieldsAndTypesArePassedOver) {
  // The bytes have field 99 as varint, 64 bits, bytes and 32 bits, then a
  // number in the snapshot's place, and a next_token.
  const std::string others =
      "980601"
      "99060102030405060708"
      "9a060178"
      "9d0601020304"
      "0805"
      "120132";
  const SnapshotPage page = DecodeListSnapshots(Bytes(others)).value();
  EXPECT_TRUE(page.snapshots.empty());
  EXPECT_EQ(page.next_token, "2");
}

TEST(SnapshotMessage, ATimeThatIsNoneCountsAsNotTold) {
  // The times are 10000-01-01, 1,000,000,000 ns and -1 ns.
  for (const char* time :
       {"088083d1ffaf07", "108094ebdc03", "10ffffffffffffffffff01"}) {
    const std::string inner = Bytes(time);
    const std::string snapshot =
        "\x22" + std::string(1, static_cast<char>(inner.size())) + inner;
    const std::string response =
        "\x0a" + std::string(1, static_cast<char>(snapshot.size())) + snapshot;
    const Result<Snapshot> read = DecodeCreateSnapshot(response);
    ASSERT_TRUE(read) << time;
    EXPECT_FALSE(read->creation_time.has_value()) << time;
  }
}

TEST(SnapshotMessage, WhatIsNoProtobufIsInternal) {
  const std::vector<std::string> broken{
      "0a",                        // no length
      "0a02",                      // no content
      "0a0208",                    // a content of one byte of two
      "0affffffffffffffffff01",    // longer than anything
      "0affffffffffffffffffff01",  // a length of eleven bytes
      "0002",                      // field 0
      "0b0c",                      // a group
      "0f",                        // type 7
      "99060102",                  // 64 bits of which two bytes are there
      "0a01ff",                    // broken within the nested message
  };
  for (const std::string& hex : broken) {
    const Result<SnapshotPage> page = DecodeListSnapshots(Bytes(hex));
    ASSERT_FALSE(page) << hex;
    EXPECT_EQ(page.error().code, Code::kInternal) << hex;
    EXPECT_FALSE(DecodeCreateSnapshot(Bytes(hex))) << hex;
  }
}

TEST(SnapshotMessage, EveryCutOfAnAnswerEndsWithoutReadingBeyondIt) {
  const std::string whole = Bytes(kListed);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    const Result<SnapshotPage> page = DecodeListSnapshots(cut);
    if (page) {
      EXPECT_TRUE(page->next_token.empty()) << size;
    }
  }
}

}  // namespace
}  // namespace mountd::agent::test
