// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The names of a call on their way through all processes of a node.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/subscriber.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

constexpr char kConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
[network.default]
ipv4 = "10.88.0.0/24"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
networks = ["*"]
)";

constexpr char kSampled[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr char kTraceId[] = " trace_id=0af7651916cd43dd8448eb211c80319c ";

class NodeTraces : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeHostVolumes();
    StartNode(kConfig);
  }
  // Subscribes as the agent, whom the signals are for.
  static Result<agent::Subscriber> Subscribe(agent::SignalHandlers handlers) {
    std::optional<Result<agent::Subscriber>> started;
    std::thread([&] {
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      started = agent::Subscriber::Start({}, std::move(handlers));
    }).join();
    return *std::move(started);
  }
  bool IsLogged(const std::string& text) {
    return Eventually([&] { return node_->Told(text) > 0; });
  }
};

TEST_F(NodeTraces, ACallsNamesAreInEachLogAndInTheReceipt) {
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  client_->SetNames({.traceparent = kSampled, .request_id = "r1"});
  ASSERT_EQ(MessageOf(client_->BindMount("web", HostVolumeSpec("data", "a"))),
            "Ok");
  ASSERT_EQ(MessageOf(client_->SetupNetwork("web", {})), "Ok");
  EXPECT_TRUE(IsLogged("BindMount allocation web uid="));
  EXPECT_TRUE(IsLogged(std::string(kTraceId) + "request_id=r1 ok"));
  EXPECT_TRUE(IsLogged("mountd-exec: plan Attach" + std::string(kTraceId)));
  EXPECT_TRUE(
      IsLogged("mountd-exec: plan CreateNetwork" + std::string(kTraceId)));
  // The plans of the call before are in no trace.
  EXPECT_EQ(node_->Told("mountd-exec: plan PrepareAllocation"), 0U);
  client_->SetNames({.traceparent = kSampled, .request_id = "r2"});
  const auto receipt = client_->ReleaseAllocation("web");
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_EQ(receipt->traceparent, kSampled);
  EXPECT_EQ(receipt->request_id, "r2");
  // The receipt outlives mountd, and a later call does not rename it.
  Node::KillAll();
  Connect();
  client_->SetNames({.request_id = "r3"});
  const auto later = client_->GetReceipt("web");
  ASSERT_EQ(MessageOf(later), "Ok");
  EXPECT_EQ(later->traceparent, kSampled);
  EXPECT_EQ(later->request_id, "r2");
}

// Nobody calls a fence, so its steps are in the trace of the call that acquired
// the lease, also after a restart of mountd.
TEST_F(NodeTraces, AFencesPlansLogAndReceiptHaveTheNamesOfItsLease) {
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  ASSERT_EQ(MessageOf(client_->BindMount("web", HostVolumeSpec("data", "a"))),
            "Ok");
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  agent::LeaseSpec spec;
  spec.allocation = "web";
  spec.pipe = reading.get();
  client_->SetNames({.traceparent = kSampled, .request_id = "lease-1"});
  ASSERT_EQ(MessageOf(client_->AcquireLease("agent", spec)), "Ok");
  Node::KillAll();
  Connect();
  client_->SetNames({.request_id = "lease-2"});
  const auto leases = client_->ListLeases();
  ASSERT_EQ(MessageOf(leases), "Ok");
  ASSERT_EQ(leases->size(), 1U);
  EXPECT_EQ(leases->front().traceparent, kSampled);
  EXPECT_EQ(leases->front().request_id, "lease-1");
  client_->SetNames({.traceparent = kSampled, .request_id = "lease-3"});
  ASSERT_EQ(MessageOf(client_->AcquireLease("agent", spec)), "Ok");
  client_->SetNames({});
  writing.reset();
  EXPECT_TRUE(IsLogged("fence of allocation web is done" +
                       std::string(kTraceId) + "request_id=lease-3"));
  EXPECT_TRUE(
      IsLogged("mountd-exec: plan RemoveAllocation" + std::string(kTraceId)));
  const auto fence = client_->GetFence("web");
  ASSERT_EQ(MessageOf(fence), "Ok");
  EXPECT_EQ(fence->traceparent, kSampled);
  EXPECT_EQ(fence->request_id, "lease-3");
  const auto receipt = client_->GetReceipt("web");
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_EQ(receipt->request_id, "lease-3");
}

TEST_F(NodeTraces, ASampledCallsSpansReachItsSubscriber) {
  std::vector<agent::OperationSpan> spans;
  std::atomic<bool> ended = false;
  agent::SignalHandlers handlers;
  handlers.operation_step = [&](const agent::OperationStatus& operation) {
    if (operation.method == "BindMount" && !operation.spans.empty()) {
      spans = operation.spans;
      ended = true;
    }
  };
  const auto subscriber = Subscribe(std::move(handlers));
  ASSERT_EQ(MessageOf(subscriber), "Ok");
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  client_->SetNames({.traceparent = kSampled});
  ASSERT_EQ(MessageOf(client_->BindMount("web", HostVolumeSpec("data", "a"))),
            "Ok");
  ASSERT_TRUE(Eventually([&] { return ended.load(); }));
  EXPECT_EQ(spans.at(0).name, "BindMount");
  EXPECT_EQ(spans.at(0).parent_span_id, "b7ad6b7169203331");
  bool has_plan = false;
  for (const agent::OperationSpan& span : spans) {
    EXPECT_LE(spans[0].start_ns, span.start_ns) << span.name;
    EXPECT_LE(span.start_ns, span.end_ns) << span.name;
    EXPECT_LE(span.end_ns, spans[0].end_ns) << span.name;
    if (span.name == "Attach") {
      has_plan = true;
      EXPECT_EQ(span.parent_span_id, spans[0].span_id);
      EXPECT_TRUE(IsLogged("span_id=" + span.span_id + " ok"));
    }
  }
  EXPECT_TRUE(has_plan);
}

}  // namespace
}  // namespace mountd::testing
