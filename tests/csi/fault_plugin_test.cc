// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/csi/csi_channel.h"

// The plugin fails as its file `faults` says.
namespace mountd::csi {
namespace {

class FaultPlugin : public CsiChannel {
 protected:
  void SetUp() override {
    CsiChannel::SetUp();
    if (!IsSkipped()) {
      plugin_ = Process();
      Restart();
    }
  }
  void Restart() {
    fs::remove(root() + "/fault.sock");
    fault_plugin_ =
        Process({FAULT_PLUGIN, root() + "/fault.sock", root() + "/fault"});
    ++fault_.generation;
    ASSERT_EQ(RpcCode::kOk,
              CodeOf(client_->Open(fault_,
                                   ConnectWithin(root() + "/fault.sock", 20))));
  }
  void TearDown() override {
    fault_plugin_ = Process();
    CsiChannel::TearDown();
  }
  void Tell(const std::string& faults) {
    std::ofstream(root() + "/fault/faults") << faults;
  }
  RpcCode StageIt() {
    return CodeOf(
        client_->NodeStageVolume(fault_, Stage(), UniqueFd(), Soon()));
  }
  int Staged() const { return testing::MountsAt(root() + "/staging/v"); }

  ChannelRef fault_{"fault", 0};
  Process fault_plugin_;
};

TEST_F(FaultPlugin, DoesAllOfItUntilItIsTold) {
  ASSERT_EQ(RpcCode::kOk, StageIt());
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->NodePublishVolume(
                              fault_, Publish(), UniqueFd(), Soon())));
  EXPECT_EQ(1, testing::MountsAt(root() + "/publish/a"));
  UndoAll(fault_);
  EXPECT_EQ(0, Staged());
}

TEST_F(FaultPlugin, FailsAtTheCallItWasTold) {
  Tell("NodeStageVolume 1 code 10\nNodeStageVolume 2 code-after 14\n");
  EXPECT_EQ(RpcCode::kAborted, StageIt());
  EXPECT_EQ(0, Staged());
  EXPECT_EQ(RpcCode::kUnavailable, StageIt());
  EXPECT_EQ(1, Staged());
  EXPECT_EQ(RpcCode::kOk, StageIt());
  UndoAll(fault_);
  std::ifstream calls(root() + "/fault/calls");
  std::string first;
  std::getline(calls, first);
  EXPECT_EQ(
      "{\"rpc\": \"NodeStageVolume\", \"n\": 1, \"volume\": \"v\", "
      "\"path\": \"" +
          root() + "/staging/v\", \"secrets\": 0}",
      first);
}

TEST_F(FaultPlugin, DiesAndCountsOn) {
  Tell("NodeStageVolume 1 die-after\nNodeStageVolume 2+ lie\n");
  EXPECT_EQ(RpcCode::kUnavailable, StageIt());
  EXPECT_EQ(1, Staged());
  Restart();
  UndoAll(fault_);
  EXPECT_EQ(RpcCode::kOk, StageIt());  // the second call
  EXPECT_EQ(0, Staged());
}

}  // namespace
}  // namespace mountd::csi
