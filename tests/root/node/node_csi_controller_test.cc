// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Each call of a controller with each fault of its plugin: what mountd answers,
// and that the same call succeeds afterwards.
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "tests/root/node/node_csi_fixture.h"

namespace mountd::testing {
namespace {

class NodeCsiController : public NodeCsi {
 protected:
  struct Call {
    const char* rpc;
    std::function<std::string()> make;
    bool takes_away;  // an absent object counts as done
    bool (*is_done)();
  };

  std::string Create() {
    agent::VolumeCreation creation;
    creation.plugin = "fault";
    creation.name = "v";
    return Outcome(client_->CreateVolume(creation));
  }
  static std::string Attach(agent::Client& client) {
    agent::ControllerPublishSpec spec;
    spec.plugin = "fault";
    spec.volume = "v";
    spec.node_id = "elsewhere";
    return Outcome(client.ControllerPublishVolume(spec));
  }
  // True if the plugin has such an object; ids are in hex.
  static bool Exists(const char* name) {
    return std::filesystem::exists(std::filesystem::path(kFaults) / name);
  }
  std::vector<Call> Calls() {
    return {{"CreateVolume", [this] { return Create(); }, false,
             [] { return Exists("data/76"); }},
            {"ControllerPublishVolume", [this] { return Attach(*client_); },
             false, [] { return Exists("attached/76.elsewhere"); }},
            {"ControllerUnpublishVolume",
             [this] {
               return Outcome(client_->ControllerUnpublishVolume("fault", "v",
                                                                 "elsewhere"));
             },
             true, [] { return !Exists("attached/76.elsewhere"); }},
            {"DeleteVolume",
             [this] { return Outcome(client_->DeleteVolume("fault", "v")); },
             true, [] { return !Exists("data/76"); }}};
  }
};

TEST_F(NodeCsiController, EachCode) {
  for (const Call& call : Calls()) {
    for (const char* action : {"code ", "code-after "}) {
      for (const CodeRow& row : kCodes) {
        SCOPED_TRACE(std::string(call.rpc) + " " + action +
                     std::to_string(row.code));
        ASSERT_EQ(Create(), "Ok");
        ASSERT_EQ(Attach(*client_), "Ok");
        Tell(call.rpc, action + std::to_string(row.code));
        EXPECT_EQ(call.make(),
                  call.takes_away && row.code == 5 ? "Ok" : row.told);
        Tell("", "");
        EXPECT_EQ(call.make(), "Ok");
        EXPECT_EQ(call.is_done(), true);
      }
    }
  }
}

TEST_F(NodeCsiController, OneThatHangsOrDies) {
  for (const Call& call : Calls()) {
    SCOPED_TRACE(call.rpc);
    Tell(call.rpc, "hang");
    EXPECT_EQ(call.make(), "DeadlineExceeded");
    for (const char* action : {"die", "die-after"}) {
      SCOPED_TRACE(action);
      Tell(call.rpc, action);
      EXPECT_EQ(call.make(), "Unavailable");
      Tell("", "");
      StartPlugin();
      // mountd may see only now that the last plugin has ended.
      std::string told;
      EXPECT_TRUE(Eventually([&] { return (told = call.make()) == "Ok"; }))
          << told;
    }
  }
}

TEST_F(NodeCsiController, AnAnswerThatIsTooLargeIsRefused) {
  for (const char* rpc : {"CreateVolume", "ControllerPublishVolume"}) {
    SCOPED_TRACE(rpc);
    Tell(rpc, "huge");
    const std::string told =
        std::string(rpc) == "CreateVolume" ? Create() : Attach(*client_);
    EXPECT_EQ(told, "Internal");
    Tell("", "");
    EXPECT_EQ(Create(), "Ok");
    EXPECT_EQ(Attach(*client_), "Ok");
  }
  // The large answer has affected no other call.
  EXPECT_EQ(Publish(), "Ok");
  ExpectReleased();
}

TEST_F(NodeCsiController, MountdCsisEndIsTheCallsAlone) {
  Tell("ControllerPublishVolume", "delay 400");
  auto other = node_->Connect();
  ASSERT_TRUE(other) << other.error().Message();
  auto told = std::async(std::launch::async, [&] { return Attach(*other); });
  EXPECT_TRUE(Eventually([] { return Asked("ControllerPublishVolume") > 0; }));
  Node::Kill(Node::Processes("mountd-csi"));
  const std::string outcome = told.get();
  EXPECT_TRUE(outcome == "Ok" || outcome == "Unavailable") << outcome;
  Tell("", "");
  // The plugin may be healthy still, or already again.
  EXPECT_TRUE(Eventually([&] { return Attach(*client_) == "Ok"; }));
}

// mountd refuses without asking the plugin.
TEST_F(NodeCsiController, AVolumeThatIsInUseIsNotTakenAway) {
  ASSERT_EQ(Publish(), "Ok");
  EXPECT_EQ(Outcome(client_->DeleteVolume("fault", "v")), "Busy");
  EXPECT_EQ(Outcome(client_->ControllerUnpublishVolume("fault", "v", "node-1")),
            "Busy");
  EXPECT_EQ(Asked("DeleteVolume") + Asked("ControllerUnpublishVolume"), 0U);
  ExpectReleased();
  EXPECT_EQ(Outcome(client_->DeleteVolume("fault", "v")), "Ok");
}

}  // namespace
}  // namespace mountd::testing
