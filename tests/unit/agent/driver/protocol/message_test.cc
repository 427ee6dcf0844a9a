// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The bytes of each message. A shim of an older release is still there after an
// upgrade, so a line of these may be added, and never changes.
#include "agent/driver/protocol/message.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "mountd/base/error.h"

namespace mountd::shim {
namespace {

std::string Hex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    const auto number = static_cast<unsigned char>(byte);
    hex += kDigits[number >> 4U];
    hex += kDigits[number & 15U];
  }
  return hex;
}

std::string HeadOf(Kind kind) { return Hex(Message(kind).bytes()); }

TEST(ShimMessage, HasAHeaderOfEachKind) {
  EXPECT_EQ(HeadOf(Kind::kCreate), "4d54534801000100");
  EXPECT_EQ(HeadOf(Kind::kAwaitCreated), "4d54534801001000");
  EXPECT_EQ(HeadOf(Kind::kStart), "4d54534801001100");
  EXPECT_EQ(HeadOf(Kind::kWait), "4d54534801001200");
  EXPECT_EQ(HeadOf(Kind::kSignal), "4d54534801001300");
  EXPECT_EQ(HeadOf(Kind::kStop), "4d54534801001400");
  EXPECT_EQ(HeadOf(Kind::kGetStatus), "4d54534801001500");
  EXPECT_EQ(HeadOf(Kind::kExec), "4d54534801001600");
  EXPECT_EQ(HeadOf(Kind::kDelete), "4d54534801001700");
  EXPECT_EQ(HeadOf(Kind::kDone), "4d54534801004000");
  EXPECT_EQ(HeadOf(Kind::kFailed), "4d54534801004100");
  EXPECT_EQ(HeadOf(Kind::kStatus), "4d54534801004200");
  EXPECT_EQ(HeadOf(Kind::kExited), "4d54534801004300");
  EXPECT_EQ(HeadOf(Kind::kExecStarted), "4d54534801004400");
}

// Returns the bytes of a field "x" with the tag.
std::string TextField(Tag tag) {
  return Hex(Message(Kind::kDone).Add(tag, "x").bytes()).substr(16);
}

std::string NumberField(Tag tag) {
  return Hex(Message(Kind::kDone).Add(tag, std::uint64_t{0x0102}).bytes())
      .substr(16);
}

TEST(ShimMessage, HasEachTextAsItsBytes) {
  EXPECT_EQ(TextField(Tag::kContainer), "010000000100000078");
  EXPECT_EQ(TextField(Tag::kRuntime), "020000000100000078");
  EXPECT_EQ(TextField(Tag::kRuntimeRoot), "030000000100000078");
  EXPECT_EQ(TextField(Tag::kBundle), "040000000100000078");
  EXPECT_EQ(TextField(Tag::kMountType), "060000000100000078");
  EXPECT_EQ(TextField(Tag::kMountSource), "070000000100000078");
  EXPECT_EQ(TextField(Tag::kMountTarget), "080000000100000078");
  EXPECT_EQ(TextField(Tag::kMountOptions), "090000000100000078");
  EXPECT_EQ(TextField(Tag::kStdoutPath), "0c0000000100000078");
  EXPECT_EQ(TextField(Tag::kStderrPath), "0d0000000100000078");
  EXPECT_EQ(TextField(Tag::kOperation), "420000000100000078");
  EXPECT_EQ(TextField(Tag::kObject), "430000000100000078");
  EXPECT_EQ(TextField(Tag::kDetail), "440000000100000078");
}

TEST(ShimMessage, HasEachNumberInEightBytes) {
  const std::string number = "00000008000000" + std::string("0201000000000000");
  EXPECT_EQ(NumberField(Tag::kPassedFds), "05" + number);
  EXPECT_EQ(NumberField(Tag::kStdoutSink), "0a" + number);
  EXPECT_EQ(NumberField(Tag::kStderrSink), "0b" + number);
  EXPECT_EQ(NumberField(Tag::kLogFileBytes), "0e" + number);
  EXPECT_EQ(NumberField(Tag::kLogFiles), "0f" + number);
  EXPECT_EQ(NumberField(Tag::kRuntimeJoins), "10" + number);
  EXPECT_EQ(NumberField(Tag::kSignalNumber), "20" + number);
  EXPECT_EQ(NumberField(Tag::kTimeoutMs), "21" + number);
  EXPECT_EQ(NumberField(Tag::kForce), "22" + number);
  EXPECT_EQ(NumberField(Tag::kConsole), "23" + number);
  EXPECT_EQ(NumberField(Tag::kCode), "40" + number);
  EXPECT_EQ(NumberField(Tag::kErrno), "41" + number);
  EXPECT_EQ(NumberField(Tag::kState), "45" + number);
  EXPECT_EQ(NumberField(Tag::kPid), "46" + number);
  EXPECT_EQ(NumberField(Tag::kExitCode), "47" + number);
  EXPECT_EQ(NumberField(Tag::kExitSignal), "48" + number);
  EXPECT_EQ(NumberField(Tag::kOomKilled), "49" + number);
  EXPECT_EQ(NumberField(Tag::kStdoutDropped), "4a" + number);
  EXPECT_EQ(NumberField(Tag::kStderrDropped), "4b" + number);
}

TEST(ShimMessage, KeepsTheNumbersOfSinksAndStates) {
  EXPECT_EQ(static_cast<int>(Sink::kNone), 0);
  EXPECT_EQ(static_cast<int>(Sink::kPassed), 1);
  EXPECT_EQ(static_cast<int>(Sink::kFiles), 2);
  EXPECT_EQ(static_cast<int>(Sink::kFifo), 3);
  EXPECT_EQ(static_cast<int>(State::kCreating), 0);
  EXPECT_EQ(static_cast<int>(State::kCreated), 1);
  EXPECT_EQ(static_cast<int>(State::kRunning), 2);
  EXPECT_EQ(static_cast<int>(State::kExited), 3);
}

TEST(ShimMessage, ReadsWhatItHasWritten) {
  Message message(Kind::kCreate);
  message.Add(Tag::kRuntime, "crun")
      .Add(Tag::kRuntime, "--debug")
      .Add(Tag::kLogFiles, ~std::uint64_t{0})
      .Add(Tag::kBundle, "");
  const auto parsed = Message::Parse(message.bytes());
  ASSERT_TRUE(parsed) << parsed.error().Message();
  EXPECT_EQ(parsed->kind(), Kind::kCreate);
  EXPECT_EQ(parsed->Texts(Tag::kRuntime),
            (std::vector<std::string>{"crun", "--debug"}));
  EXPECT_EQ(parsed->Text(Tag::kRuntime), "crun");
  EXPECT_EQ(parsed->Number(Tag::kLogFiles), ~std::uint64_t{0});
  EXPECT_EQ(parsed->Text(Tag::kBundle), "");
  EXPECT_EQ(parsed->Number(Tag::kPid), 0U);
  // A text is no number.
  EXPECT_EQ(parsed->Number(Tag::kRuntime), 0U);
}

TEST(ShimMessage, CarriesAnError) {
  const Error error = ErrnoError(ENOENT, "create", "web", "no config.json");
  const auto parsed = Message::Parse(Message::Failed(error).bytes());
  ASSERT_TRUE(parsed) << parsed.error().Message();
  EXPECT_EQ(parsed->ToError().Message(), error.Message());
  EXPECT_EQ(parsed->ToError().code, Code::kNotFound);
  // A newer shim may have a code that this driver does not know.
  EXPECT_EQ(
      Message(Kind::kFailed).Add(Tag::kCode, std::uint64_t{200}).ToError().code,
      Code::kInternal);
}

TEST(ShimMessage, IgnoresAFieldOfANewerRelease) {
  Message message(Kind::kStart);
  message.Add(static_cast<Tag>(kMustUnderstand - 1), "new");
  EXPECT_TRUE(Message::Parse(message.bytes()));
}

TEST(ShimMessage, RefusesAFieldThatItMustUnderstand) {
  Message message(Kind::kStart);
  message.Add(static_cast<Tag>(kMustUnderstand), "new");
  EXPECT_EQ(Message::Parse(message.bytes()).error().code, Code::kNotSupported);
}

TEST(ShimMessage, RefusesAnotherVersion) {
  std::string bytes = Message(Kind::kStart).bytes();
  bytes[4] = 2;
  EXPECT_EQ(Message::Parse(bytes).error().code, Code::kNotSupported);
}

TEST(ShimMessage, RefusesEachBeginningOfAMessage) {
  Message message(Kind::kStop);
  message.Add(Tag::kSignalNumber, std::uint64_t{15});
  const std::string& bytes = message.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const bool is_header_alone = size == 8;
    EXPECT_EQ(bool(Message::Parse(bytes.substr(0, size))), is_header_alone)
        << size;
  }
}

TEST(ShimMessage, RefusesSizesBeyondTheMessage) {
  for (const char* size : {"\xff\xff\xff\xff", "\x02\x00\x00\x80"}) {
    std::string bytes = Message(Kind::kStart).Add(Tag::kBundle, "x").bytes();
    bytes.replace(12, 4, std::string(size, 4));
    EXPECT_EQ(Message::Parse(bytes).error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace mountd::shim
