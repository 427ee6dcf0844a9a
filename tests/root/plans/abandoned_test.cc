// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "mountd/exec/server.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/eventually.h"

// The executor undoes plans that mountd has given up waiting for and has no
// record of.
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Request;
using exec::ToWire;

class Abandoned : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      PrepareBase();
      before_ = Inventory::Take();
    }
  }

  template <typename Fill>
  static Request Make(PlanKind kind, const Fill& fill) {
    Request request;
    request.kind = kind;
    fill(&request.body);
    return request;
  }
  static Request Plugin(PlanKind kind) {
    return Make(kind, [](PlanBody* body) { body->plugin = {ToWire("csi")}; });
  }
  static Request VolumeDir(exec::VolumeArea area) {
    return Make(PlanKind::kPrepareVolumeDir, [&](PlanBody* body) {
      body->volume_dir = exec::VolumeDirPlan{};
      body->volume_dir.plugin = ToWire("csi");
      body->volume_dir.area = area;
      body->volume_dir.allocation = ToWire("web");
      body->volume_dir.volume.fill('a');
    });
  }
  static Request Network(PlanKind kind) {
    return Make(kind, [](PlanBody* body) {
      body->network = exec::NetworkPlan{};
      body->network.allocation = ToWire("web");
      body->network.network = ToWire("default");
      body->network.interface = {"eth0"};
      body->network.ipv4 = {10, 88, 0, 2};
      body->network.port_count = 1;
      body->network.ports[0] = {18080, 80, exec::kTcp, 0};
    });
  }

  // Returns what carrying out `request` leaves if its answer cannot be sent.
  std::string LeftBy(const Request& request) {
    const Inventory before = Inventory::Take();
    int sends = 0;
    const Result<void> outcome = dispatcher_->Handle(
        std::as_bytes(std::span(&request, 1)), fds_,
        [&](const exec::Dispatcher::Answer& answer) -> Result<void> {
          ++sends;
          EXPECT_EQ(ErrorOf(answer.reply), "");
          return ErrnoError(EPIPE, "sendmsg", "reply");
        });
    EXPECT_FALSE(outcome.has_value());
    EXPECT_EQ(sends, 1);
    return DifferenceWithin(before, 20);
  }

  Inventory before_;
};

TEST_F(Abandoned, WhatCouldNotBeToldIsUndone) {
  EXPECT_EQ(LeftBy(Make(PlanKind::kPrepareAllocation,
                        [](PlanBody* body) {
                          body->allocation = {ToWire("db"), 77};
                        })),
            "");
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    EXPECT_EQ(LeftBy(AttachRequest("data", mode)), "");
  }
  EXPECT_EQ(LeftBy(TmpfsRequest()), "");
  MakeImage("/run/host/image");
  config_.filesystems["image"] = {"ext4", "/run/host/image"};
  EXPECT_EQ(LeftBy(FilesystemRequest("image")), "");
  EXPECT_EQ(LeftBy(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(ErrorOf(Send(Plugin(PlanKind::kPreparePlugin))), "");
  EXPECT_EQ(LeftBy(VolumeDir(exec::VolumeArea::kStaging)), "");
  EXPECT_EQ(LeftBy(VolumeDir(exec::VolumeArea::kPublish)), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  EXPECT_EQ(LeftBy(Network(PlanKind::kCreateNetwork)), "");
}

TEST_F(Abandoned, WhatWasThereBeforeIsNotUndone) {
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  ASSERT_EQ(ErrorOf(Send(Plugin(PlanKind::kPreparePlugin))), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  ASSERT_EQ(ErrorOf(Send(Network(PlanKind::kCreateNetwork))), "");
  EXPECT_EQ(LeftBy(AttachRequest("data", Propagation::kPrivate)), "");
  EXPECT_EQ(LeftBy(Plugin(PlanKind::kPreparePlugin)), "");
  EXPECT_EQ(LeftBy(Network(PlanKind::kCreateNetwork)), "");
}

// mountd has detached the plan's mount and attached another one. The executor
// must not undo the second mount, even if both have the same id.
TEST_F(Abandoned, TheNextMountAtTheTargetIsNotUndone) {
  kernel_.HideUniqueMountIds();
  dispatcher_.emplace(kernel_, config_);
  const Request request = AttachRequest("data", Propagation::kPrivate);
  const Result<void> outcome =
      dispatcher_->Handle(std::as_bytes(std::span(&request, 1)), fds_,
                          [&](const exec::Dispatcher::Answer&) -> Result<void> {
                            Unmount(kTarget);
                            MountTmpfs(kTarget);
                            return ErrnoError(EPIPE, "sendmsg", "reply");
                          });
  EXPECT_FALSE(outcome.has_value());
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
}

TEST_F(Abandoned, APlanWhoseSenderHangsUpMeanwhileIsUndone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const Request request = AttachRequest("data", Propagation::kPrivate);
  ASSERT_EQ(::send(theirs.get(), &request, sizeof(request), 0),
            static_cast<ssize_t>(sizeof(request)));
  bool attached = false;
  kernel_.Before([&](const std::string& call) {
    attached = attached || call == "AttachTree";
    if (attached) {
      theirs.reset();
    }
  });
  EXPECT_FALSE(exec::Serve(ours.get(), &*dispatcher_).has_value());
  EXPECT_TRUE(attached);
  kernel_.Before(nullptr);
  ours.reset();
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Abandoned, APlanWhoseSenderHasHungUpIsNotBegun) {
  std::array<int, 2> ends{};
  ASSERT_EQ(
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const Request request = Plugin(PlanKind::kPreparePlugin);
  ASSERT_EQ(::send(theirs.get(), &request, sizeof(request), 0),
            static_cast<ssize_t>(sizeof(request)));
  theirs.reset();
  kernel_.FailAt(0, 0);
  EXPECT_TRUE(exec::Serve(ours.get(), &*dispatcher_).has_value());
  EXPECT_TRUE(kernel_.calls().empty());
}

// The plan waited for its turn, and another mountd has meanwhile made the
// plan's object again. A late deletion would remove the new object.
TEST_F(Abandoned, APlanWhoseSenderIsGoneByItsTurnDoesNothing) {
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  ASSERT_EQ(ErrorOf(Send(Network(PlanKind::kCreateNetwork))), "");
  const Inventory made = Inventory::Take();
  std::array<int, 2> ends{};
  ASSERT_EQ(
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  exec::RealKernel real(ours.get());
  exec::InjectingKernel kernel(real);
  bool locked = false;
  kernel.Before([&](const std::string& call) {
    if (call == "Lock") {
      locked = true;
      theirs.reset();
    }
  });
  exec::Dispatcher dispatcher(kernel, config_);
  const Request request = Network(PlanKind::kDeleteNetwork);
  ASSERT_EQ(::send(theirs.get(), &request, sizeof(request), 0),
            static_cast<ssize_t>(sizeof(request)));
  EXPECT_FALSE(exec::Serve(ours.get(), &dispatcher).has_value());
  EXPECT_TRUE(locked);
  ours.reset();
  EXPECT_EQ(Difference(made, Inventory::Take()), "");
}

// A process may be stopped between a request and the limit that it sets for the
// request. NodeStuck met that after some hundred runs.
TEST_F(Abandoned, OneThatIsStoppedWithoutARequestEndsToo) {
  std::array<int, 2> ends{};
  ASSERT_EQ(
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    theirs.reset();
    const std::chrono::seconds limit(1);
    const bool well = exec::Serve(ours.get(), &*dispatcher_,
                                  {.plan = limit, .cni = limit, .idle = limit})
                          .has_value();
    ::_exit(well ? 0 : 1);
  }
  ours.reset();
  Request hello;
  hello.kind = PlanKind::kHello;
  exec::Reply reply;
  ASSERT_EQ(::send(theirs.get(), &hello, sizeof(hello), 0),
            static_cast<ssize_t>(sizeof(hello)));
  ASSERT_EQ(::recv(theirs.get(), &reply, sizeof(reply), 0),
            static_cast<ssize_t>(sizeof(reply)));
  ::kill(child, SIGSTOP);
  int status = 0;
  EXPECT_TRUE(Eventually([&] {
    return ::waitpid(child, &status, WNOHANG) == child && WIFSIGNALED(status);
  }));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  ::kill(child, SIGKILL);
}

TEST_F(Abandoned, OneThatIsStuckMakesOthersBusyNotStuck) {
  const UniqueFd held(
      ::open("/run/mountd/base/p", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(CodeOf(Send(Plugin(PlanKind::kPreparePlugin))), "Busy");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

TEST_F(Abandoned, OneThatEndsInTimeIsWaitedFor) {
  UniqueFd held(
      ::open("/run/mountd/base/p", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.reset();
  });
  EXPECT_EQ(ErrorOf(Send(Plugin(PlanKind::kPreparePlugin))), "");
  holder.join();
}

}  // namespace
}  // namespace mountd::testing
