// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Each call of a node service with each fault of its plugin: what mountd
// answers, what it records, and that a retry or the release leaves nothing.
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>

#include "tests/root/node/node_csi_fixture.h"

namespace mountd::testing {
namespace {

TEST_F(NodeCsi, EachCodeOnTheWayUp) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    const bool stage = std::strcmp(rpc, "NodeStageVolume") == 0;
    for (const char* action : {"code ", "code-after "}) {
      for (const CodeRow& row : kCodes) {
        SCOPED_TRACE(std::string(rpc) + " " + action +
                     std::to_string(row.code));
        Tell(rpc, action + std::to_string(row.code));
        EXPECT_EQ(Publish(), row.told);
        const bool done = std::strcmp(action, "code-after ") == 0;
        // With code-after the plugin has mounted, although it reports a
        // failure.
        const std::string expected = !row.final && stage ? "uncertain uncertain"
                                     : row.final && (stage || !done)
                                         ? " "
                                         : "staged uncertain";
        // mountd also retries by itself, and records that meanwhile.
        EXPECT_TRUE(Eventually([&] { return Recorded() == expected; }))
            << Recorded() << ", not " << expected;
        ExpectAGoodEnd();
      }
    }
  }
}

TEST_F(NodeCsi, EachCodeOnTheWayDown) {
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    for (const char* action : {"code ", "code-after "}) {
      for (const CodeRow& row : kCodes) {
        SCOPED_TRACE(std::string(rpc) + " " + action +
                     std::to_string(row.code));
        ASSERT_EQ(Publish(), "Ok");
        const bool done = std::strcmp(action, "code-after ") == 0;
        Tell(rpc, action + std::to_string(row.code));
        if (row.code == 5) {
          // NotFound means that the volume is gone. A mount that is there all
          // the same makes it no success.
          EXPECT_EQ(Unpublish(), done ? "Ok" : "Busy");
        } else {
          EXPECT_EQ(Unpublish(), row.told);
          EXPECT_EQ(Recorded().substr(Recorded().find(' ') + 1),
                    "unpublishing");
          EXPECT_EQ(client_->ListOwed()->size(), 1U);
        }
        Tell("", "");
        ExpectReleased();
      }
    }
  }
}

TEST_F(NodeCsi, OneThatHangsOrDies) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    SCOPED_TRACE(rpc);
    Tell(rpc, "hang");
    EXPECT_EQ(Publish(), "DeadlineExceeded");
    ExpectAGoodEnd();
    for (const char* action : {"die", "die-after"}) {
      SCOPED_TRACE(action);
      Tell(rpc, action);
      EXPECT_EQ(Publish(), "Unavailable");
      Tell("", "");
      StartPlugin();
      ExpectAGoodEnd();
    }
  }
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    SCOPED_TRACE(rpc);
    ASSERT_EQ(Publish(), "Ok");
    Tell(rpc, "hang");
    EXPECT_EQ(Unpublish(), "DeadlineExceeded");
    EXPECT_EQ(client_->ListOwed()->size(), 1U);
    Tell("", "");
    ExpectReleased();
  }
}

TEST_F(NodeCsi, APluginThatDiesFirstKeepsNoAllocation) {
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    for (const char* action : {"die", "die-after"}) {
      SCOPED_TRACE(std::string(rpc) + " " + action);
      ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
      ASSERT_EQ(Publish(), "Ok");
      Tell(rpc, action);
      // The call succeeds once mountd knows that the plugin is away; before
      // that the unpublish is pending, too.
      EXPECT_TRUE(Eventually([&] { return Unpublish() == "Ok"; }));
      const auto receipt = client_->ReleaseAllocation("web");
      ASSERT_EQ(MessageOf(receipt), "Ok");
      ASSERT_EQ(receipt->owed.size(), 1U);
      EXPECT_FALSE(receipt->node_detached);
      ASSERT_EQ(client_->ListOwed()->size(), 1U);
      EXPECT_EQ(client_->ListOwed()->front().kind, "unstage");
      Tell("", "");
      StartPlugin();
      EXPECT_TRUE(Eventually([&] {
        const auto later = client_->GetReceipt("web");
        return later && later->node_detached && later->owed.empty();
      }));
      EXPECT_TRUE(client_->ListOwed()->empty());
      EXPECT_EQ(MountPointsUnder(kFaultDirectory).size(), 1U);
    }
  }
}

TEST_F(NodeCsi, OneThatLies) {
  Tell("NodePublishVolume", "lie");
  EXPECT_EQ(Publish(), "Internal");
  EXPECT_EQ(Recorded(), "staged uncertain");
  ExpectAGoodEnd();
  for (const char* rpc : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    SCOPED_TRACE(rpc);
    ASSERT_EQ(Publish(), "Ok");
    Tell(rpc, "lie");
    EXPECT_EQ(Unpublish(), "Busy");
    EXPECT_EQ(client_->ListOwed()->size(), 1U);
    Tell("", "");
    ExpectReleased();
  }
}

// A mount at another place does not belong to the volume. It goes with the last
// volume that the plugin has published there.
TEST_F(NodeCsi, OneThatMountsElsewhere) {
  Tell("NodePublishVolume", "elsewhere");
  EXPECT_EQ(Publish(), "Internal");
  EXPECT_EQ(Recorded(), "staged uncertain");
  EXPECT_EQ(MountPointsUnder(kFaultDirectory).size(), 3U);
  ExpectAGoodEnd();
}

TEST_F(NodeCsi, ACancelledWaiterIsToldSoAndTheWorkIsRecorded) {
  auto hasty =
      node_->Connect({.patience = std::chrono::milliseconds(1), .join = false});
  ASSERT_TRUE(hasty) << hasty.error().Message();
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    SCOPED_TRACE(rpc);
    // No event says that the waiter has joined, and on a busy machine it may
    // join after the work is done. The test then tries again.
    std::string outcome;
    for (int tries = 0; tries < 20 && outcome != "Aborted"; ++tries) {
      Tell(rpc, "delay 500");
      const auto told = hasty->PublishVolume("web", Volume());
      ASSERT_EQ(Outcome(told), "InProgress");
      auto waiter = std::async(std::launch::async, [&] { return Publish(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_EQ(MessageOf(hasty->Cancel(told.error().detail)), "Ok");
      outcome = waiter.get();
      Tell("", "");
      EXPECT_TRUE(Eventually([&] { return Recorded() == "staged published"; }))
          << Recorded();
      ExpectReleased();
    }
    EXPECT_EQ(outcome, "Aborted");
  }
}

TEST_F(NodeCsi, WhatGotNoAnswerIsSettledWithoutItsAgent) {
  Tell("NodePublishVolume", "code-after 14");
  EXPECT_EQ(Publish(), "Unavailable");
  Tell("", "");
  EXPECT_TRUE(Eventually([&] { return Recorded() == "staged published"; }));
  ExpectReleased();
}

TEST_F(NodeCsi, MountdCsisEndOnlyDelays) {
  Tell("NodeStageVolume", "delay 300");
  auto other = node_->Connect();
  ASSERT_TRUE(other) << other.error().Message();
  auto told = std::async(std::launch::async, [&] {
    return Outcome(other->PublishVolume("web", Volume()));
  });
  EXPECT_TRUE(Eventually([&] { return Recorded() == "staging publishing"; }));
  Node::Kill(Node::Processes("mountd-csi"));
  const std::string outcome = told.get();
  EXPECT_TRUE(outcome == "Ok" || outcome == "Unavailable") << outcome;
  ASSERT_TRUE(AwaitPlugin("healthy"));
  ExpectAGoodEnd();
}

}  // namespace
}  // namespace mountd::testing
