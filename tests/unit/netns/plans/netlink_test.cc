// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The outcomes of a netlink channel, also for answers that the kernel loses or
// cuts short; tests/root has the real kernel.
#include "netns/plans/netlink.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <deque>
#include <vector>

#include "tests/fuzz/refusing_kernel.h"
#include "tests/support/netlink_messages.h"

namespace mountd::netns {
namespace {

using Bytes = std::vector<std::byte>;

// Answers each recv(2) with the next of `answers`, and EAGAIN after the last.
class AnsweringKernel final : public fuzz::RefusingKernel {
 public:
  exec::Sys<void> Send(int /*socket*/,
                       std::span<const std::byte> /*bytes*/) override {
    ++sends;
    return {};
  }
  exec::Sys<std::size_t> Receive(int /*socket*/,
                                 std::span<std::byte> into) override {
    if (answers.empty()) {
      return EAGAIN;
    }
    const Bytes next = std::move(answers.front());
    answers.pop_front();
    std::memcpy(into.data(), next.data(), next.size());
    return next.size();
  }

  std::deque<Bytes> answers;
  int sends = 0;
};

class NetlinkChannel : public ::testing::Test {
 protected:
  static Bytes With(const NetlinkMessage& message, std::uint32_t sequence,
                    std::uint16_t flags = 0) {
    Bytes bytes = message.Bytes();
    auto header = nlmsghdr{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.nlmsg_seq = sequence;
    header.nlmsg_flags = flags;
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
  }
  void AnswerErrno(std::uint32_t sequence, int err) {
    nlmsgerr error{};
    error.error = -err;
    kernel_.answers.push_back(
        With(NetlinkMessage(NLMSG_ERROR, error), sequence));
  }
  void AnswerLink(std::uint32_t sequence, std::uint16_t flags = 0) {
    kernel_.answers.push_back(
        With(NetlinkMessage(RTM_NEWLINK, ifinfomsg{}), sequence, flags));
  }
  void AnswerDone(std::uint32_t sequence, std::uint16_t flags = 0) {
    kernel_.answers.push_back(
        With(NetlinkMessage(NLMSG_DONE, int{0}), sequence, flags));
  }

  static std::vector<Message> Requests(std::size_t count) {
    std::vector<Message> messages;
    for (std::size_t i = 0; i < count; ++i) {
      messages.emplace_back(RTM_GETLINK, 0, ifinfomsg{});
    }
    return messages;
  }
  // Returns the errno of an exchange of three requests; 0 if it succeeds.
  int ExchangeOfThree() {
    const auto answers = channel_.Exchange(Requests(3), 2);
    return answers ? 0 : answers.error().sys_errno;
  }
  // Returns the errno with which a batch of four messages was refused; -1 if
  // the outcome is unknown.
  int TransactFour() {
    const auto outcome = channel_.Transact(Requests(4));
    return outcome ? *outcome : -1;
  }

  AnsweringKernel kernel_;
  Channel channel_ = Channel(kernel_, UniqueFd());
};

// A list that any client of an allocation makes longer must not fill memory.
TEST_F(NetlinkChannel, AStreamGivesEachAnswerBeforeTheNextRead) {
  constexpr std::size_t kCount = 1000;
  for (std::size_t i = 0; i < kCount; ++i) {
    AnswerLink(1);
  }
  AnswerDone(1);
  std::size_t given = 0;
  const Result<void> streamed =
      channel_.Stream(Message(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{}),
                      "RTM_GETLINK", "links", [&](const Answer& answer) {
                        ++given;
                        EXPECT_EQ(answer.type, RTM_NEWLINK);
                        EXPECT_EQ(kernel_.answers.size(), kCount + 1 - given);
                      });
  EXPECT_TRUE(streamed) << streamed.error().Message();
  EXPECT_EQ(given, kCount);
}

TEST_F(NetlinkChannel, AStreamFailsWithTheDumpsErrno) {
  AnswerLink(1);
  AnswerErrno(1, EPERM);
  const Result<void> streamed =
      channel_.Stream(Message(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{}),
                      "RTM_GETLINK", "links", [](const Answer&) {});
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().sys_errno, EPERM);
}

TEST_F(NetlinkChannel, AnExchangeEndsWithTheLastAcknowledgement) {
  AnswerLink(1);
  AnswerErrno(2, ENOENT);
  AnswerErrno(3, 0);
  const auto answers = channel_.Exchange(Requests(3), 2);
  ASSERT_TRUE(answers) << answers.error().Message();
  ASSERT_EQ(answers->size(), 3U);
  EXPECT_EQ((*answers)[1].err, ENOENT);
}

// A lost answer tells nothing about the object, neither that a link exists nor
// that it does not.
TEST_F(NetlinkChannel, AnAnswerThatIsLostIsAnError) {
  EXPECT_EQ(ExchangeOfThree(), EAGAIN);
  AnswerLink(4);
  EXPECT_EQ(ExchangeOfThree(), EAGAIN);
  AnswerErrno(7, ENOENT);
  AnswerLink(8);
  EXPECT_EQ(ExchangeOfThree(), EAGAIN);
}

TEST_F(NetlinkChannel, ABatchIsDoneWithItsAcknowledgementAlone) {
  AnswerErrno(3, 0);
  EXPECT_EQ(TransactFour(), 0);
  EXPECT_EQ(TransactFour(), -1);
}

// nfnetlink reports want of memory, and a failed commit, at the batch's first
// message, and may acknowledge no other.
TEST_F(NetlinkChannel, ABatchThatIsRefusedAsAWholeIsNotDone) {
  AnswerErrno(1, ENOMEM);
  EXPECT_EQ(TransactFour(), ENOMEM);
  AnswerErrno(6, EEXIST);
  AnswerErrno(7, 0);
  EXPECT_EQ(TransactFour(), EEXIST);
}

TEST_F(NetlinkChannel, AnswersToAnEarlierBatchArePassedOver) {
  AnswerErrno(1, EBUSY);
  AnswerErrno(3, 0);
  EXPECT_EQ(TransactFour(), EBUSY);
  AnswerErrno(7, ENOENT);
  EXPECT_EQ(TransactFour(), ENOENT);
}

TEST_F(NetlinkChannel, AnInterruptedDumpIsReadAgain) {
  AnswerLink(1);
  AnswerDone(1, NLM_F_DUMP_INTR);
  AnswerLink(2, NLM_F_DUMP_INTR);
  AnswerDone(2);
  AnswerLink(3);
  AnswerLink(3);
  AnswerDone(3);
  const auto links = channel_.Exchange(Requests(1), 0);
  ASSERT_TRUE(links) << links.error().Message();
  EXPECT_EQ(links->size(), 2U);
  EXPECT_EQ(kernel_.sends, 3);
}

// The kernel marks dumps of nf_tables also for changes of other tables.
TEST_F(NetlinkChannel, ADumpIsSentOnceAndGivenAlthoughInterrupted) {
  AnswerLink(1);
  AnswerLink(1, NLM_F_DUMP_INTR);
  AnswerDone(1, NLM_F_DUMP_INTR);
  const auto links =
      channel_.Dump(Message(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{}));
  ASSERT_TRUE(links) << links.error().Message();
  EXPECT_EQ(links->front().type, RTM_NEWLINK);
  EXPECT_TRUE(links->back().is_interrupted);
  EXPECT_TRUE(links->back().payload.empty());
  EXPECT_EQ(kernel_.sends, 1);
}

TEST_F(NetlinkChannel, ADumpThatNeverHoldsStillIsUnavailable) {
  for (std::uint32_t i = 1; i <= 100; ++i) {
    AnswerDone(i, NLM_F_DUMP_INTR);
  }
  const auto links = channel_.Exchange(Requests(1), 0);
  ASSERT_FALSE(links);
  EXPECT_EQ(links.error().code, Code::kUnavailable);
  EXPECT_LT(kernel_.sends, 100);
}

}  // namespace
}  // namespace mountd::netns
