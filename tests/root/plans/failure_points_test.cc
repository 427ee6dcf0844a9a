// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "netns/address/address.h"
#include "tests/root/executor_fixture.h"

// Each kernel call of each plan fails once. Then nothing may be left, and the
// same plan must succeed.
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;
using exec::ToWire;

class FailurePoints : public ExecutorFixture {
 protected:
  Reply Network(PlanKind kind) {
    return Call(kind, [](PlanBody* body) {
      body->network = exec::NetworkPlan{};
      body->network.allocation = ToWire("web");
      body->network.network = ToWire("default");
      body->network.interface = {"eth0"};
      body->network.ipv4 = {10, 88, 0, 2};
      body->network.ipv6 = netns::ParseIpv6("fd88::2").value();
      body->network.port_count = 1;
      body->network.ports[0] = {18080, 80, exec::kTcp, 0};
    });
  }

  // Kills the executor at each kernel call of `try_plan`. After each kill
  // `undo` must leave nothing.
  template <typename Try, typename Undo>
  void KillAtEach(const Try& try_plan, const Undo& undo) {
    const Inventory before = Inventory::Take();
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      kernel_.DieAt(k);
      try_plan();
      reached = kernel_.calls().size() >= k;
      const std::string call = reached ? kernel_.calls()[k - 1] : "";
      kernel_.FailAt(0, 0);
      undo();
      ASSERT_EQ(DifferenceWithin(before, 20), "")
          << "killed at call " << k << ": " << call;
    }
  }

  // Makes each call of `try_plan` fail; `undo` undoes the finished plan. A try
  // succeeds despite its failed call if that call was a best effort.
  template <typename Try, typename Undo>
  void FailEach(const Try& try_plan, const Undo& undo) {
    const Reply first = try_plan();
    ASSERT_EQ(ErrorOf(first), "");
    undo(first);
    const Inventory before = Inventory::Take();
    kernel_.FailAt(0, 0);
    const Reply counted = try_plan();
    const std::vector<std::string> calls = kernel_.calls();
    undo(counted);
    ASSERT_EQ(DifferenceWithin(before, 20), "");
    for (std::size_t k = 1; k <= calls.size(); ++k) {
      for (const int error : exec::kErrorsOfAnyCall) {
        SCOPED_TRACE("call " + std::to_string(k) + " of " +
                     std::to_string(calls.size()) + ": " + calls[k - 1] +
                     ", errno " + std::to_string(error));
        kernel_.FailAt(k, error);
        Reply reply = try_plan();
        kernel_.FailAt(0, 0);
        if (reply.code != 0) {
          ASSERT_EQ(DifferenceWithin(before, 20), "");
          reply = try_plan();
          ASSERT_EQ(ErrorOf(reply), "");
        }
        undo(reply);
        ASSERT_EQ(DifferenceWithin(before, 20), "");
      }
    }
  }

  // `at(k, error)` makes a plan whose k-th call fails, and returns whether
  // there was such a call.
  template <typename At>
  void AtEachCall(const At& at) {
    for (const int error : exec::kErrorsOfAnyCall) {
      bool reached = true;
      for (std::size_t k = 1; reached && !HasFatalFailure(); ++k) {
        SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                     std::to_string(error));
        reached = at(k, error);
      }
    }
  }
};

TEST_F(FailurePoints, OfAttachAndItsAnchor) {
  PrepareBase();
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    FailEach([&] { return Attach("data", mode); },
             [&](const Reply& reply) {
               ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
               ASSERT_EQ(ErrorOf(ReleaseHostVolume("data",
                                                   reply.body.mount.anchor_id)),
                         "");
             });
  }
}

// The base has a copy in another mount namespace. The kernel would make the new
// mount a slave of its copy there, so the attach needs JoinGroup.
TEST_F(FailurePoints, OfAttachBesideACopyOfTheBase) {
  PrepareBase();
  const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  const UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  FailEach([&] { return Attach("data", Propagation::kHostToTask); },
           [&](const Reply& reply) {
             ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
             ASSERT_EQ(
                 ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)),
                 "");
           });
  ExpectFailed({"JoinGroup"});
}

TEST_F(FailurePoints, OfAttachOfAFile) {
  PrepareBase();
  FailEach([&] { return Attach("file", Propagation::kPrivate); },
           [&](const Reply& reply) {
             ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
           });
}

TEST_F(FailurePoints, OfAttachOfATmpfs) {
  PrepareBase();
  Request request = TmpfsRequest();
  request.body.attach.source.tmpfs.no_swap = 1;
  if (const Reply whole = Send(request); CodeOf(whole) == "NotSupported") {
    request.body.attach.source.tmpfs.no_swap = 0;  // not before Linux 6.4
  } else {
    ASSERT_EQ(ErrorOf(Detach(whole.body.mount.mount_id)), "");
  }
  FailEach([&] { return Send(request); },
           [&](const Reply& reply) {
             ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
           });
}

TEST_F(FailurePoints, OfAttachWithAMapOfIds) {
  MoveHostToExt4();
  PrepareBase();
  config_.rules[0].ids = {{1000, 1000}};
  Request request = AttachRequest("file", Propagation::kPrivate);
  request.body.attach.ids.count = 1;
  request.body.attach.ids.extents[0] = {1000, 2000, 1};
  FailEach([&] { return Send(request); },
           [&](const Reply& reply) {
             ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
           });
}

TEST_F(FailurePoints, OfAttachWithRootAsTheCaller) {
  MoveHostToExt4();
  ASSERT_EQ(::mount(nullptr, "/run/host", nullptr,
                    MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, nullptr),
            0);
  PrepareBase();
  config_.rules[0].uids = {1234};
  config_.rules[0].host_volumes = {"data"};
  config_.rules[0].root_as_caller = true;
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.caller.uid = 1234;
  request.body.attach.caller.gid_count = 1;
  request.body.attach.caller.gids[0] = 1234;
  request.body.attach.ids.count = 1;
  request.body.attach.ids.extents[0] = {0, 1234, 1};
  FailEach([&] { return Send(request); },
           [&](const Reply& reply) {
             ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
             ASSERT_EQ(
                 ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)),
                 "");
           });
}

TEST_F(FailurePoints, OfAttachOfAFilesystem) {
  PrepareBase();
  MakeImage("/run/host/image");
  config_.filesystems["image"] = {"ext4", "/run/host/image"};
  const auto release = [&] {
    ASSERT_EQ(ErrorOf(ReleaseFilesystem("image", 0)), "");
  };
  const auto attach = [&] { return Send(FilesystemRequest("image")); };
  FailEach(attach, [&](const Reply& reply) {
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    release();
  });
  // The executor is also killed at each call. The next plan finds the rest, and
  // removes it as mountd does.
  KillAtEach(attach, [&] {
    const Reply left = Call(PlanKind::kInspectTarget, [](PlanBody* body) {
      body->target = exec::Target("web", "app", "data");
    });
    ASSERT_EQ(ErrorOf(Detach(left.body.mount.mount_id)), "");
    const Reply reply = attach();
    ASSERT_EQ(ErrorOf(reply), "");
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    release();
  });
}

TEST_F(FailurePoints, OfPreparingTheBase) {
  const auto prepare = [&] { return Call(PlanKind::kPrepareBase); };
  FailEach(prepare, [&](const Reply& /*reply*/) {
    ASSERT_EQ(::umount2("/run/mountd/base", 0), 0);
    ASSERT_TRUE(real_.RemoveDirectory(-1, "/run/mountd/base").has_value());
  });
}

TEST_F(FailurePoints, OfPreparingAPlugin) {
  PrepareBase();
  const auto plugin = [&](PlanKind kind) {
    return Call(kind, [](PlanBody* body) { body->plugin = {ToWire("csi")}; });
  };
  FailEach([&] { return plugin(PlanKind::kPreparePlugin); },
           [&](const Reply& /*reply*/) {
             ASSERT_EQ(ErrorOf(plugin(PlanKind::kRemovePlugin)), "");
           });
}

TEST_F(FailurePoints, OfPreparingAnAllocation) {
  PrepareBase();
  const auto allocation = [&](PlanKind kind) {
    return Call(kind, [](PlanBody* body) {
      body->allocation = {ToWire("db"), 77};
    });
  };
  FailEach([&] { return allocation(PlanKind::kPrepareAllocation); },
           [&](const Reply& /*reply*/) {
             ASSERT_EQ(ErrorOf(allocation(PlanKind::kRemoveAllocation)), "");
           });
}

TEST_F(FailurePoints, OfCreatingANetwork) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  const auto remove = [&](const Reply& /*reply*/) {
    ASSERT_EQ(ErrorOf(Network(PlanKind::kDeleteNetwork)), "");
    // The second plan removes the link now, before its namespace ends.
    ASSERT_EQ(ErrorOf(Network(PlanKind::kDeleteNetwork)), "");
  };
  FailEach([&] { return Network(PlanKind::kCreateNetwork); }, remove);
}

TEST_F(FailurePoints, AKillWithinAPreparationIsFinishedByTheNextTry) {
  PrepareBase();
  const auto allocation = [&](PlanKind kind) {
    return Call(kind, [](PlanBody* body) {
      body->allocation = {ToWire("db"), 77};
    });
  };
  KillAtEach([&] { allocation(PlanKind::kPrepareAllocation); },
             [&] {
               ASSERT_EQ(ErrorOf(allocation(PlanKind::kPrepareAllocation)), "");
               ASSERT_EQ(ErrorOf(allocation(PlanKind::kRemoveAllocation)), "");
             });
  const auto plugin = [&](PlanKind kind) {
    return Call(kind, [](PlanBody* body) { body->plugin = {ToWire("csi")}; });
  };
  KillAtEach([&] { plugin(PlanKind::kPreparePlugin); },
             [&] {
               ASSERT_EQ(ErrorOf(plugin(PlanKind::kPreparePlugin)), "");
               ASSERT_EQ(ErrorOf(plugin(PlanKind::kRemovePlugin)), "");
             });
}

TEST_F(FailurePoints, AKillWithinANetworksPlansIsCleanedByTheNextDelete) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  const auto remove = [&] {
    ASSERT_EQ(ErrorOf(Network(PlanKind::kDeleteNetwork)), "");
    // The second plan removes the link now, before its namespace ends.
    ASSERT_EQ(ErrorOf(Network(PlanKind::kDeleteNetwork)), "");
  };
  KillAtEach([&] { Network(PlanKind::kCreateNetwork); }, remove);
  const Inventory before = Inventory::Take();
  bool reached = true;
  for (std::size_t k = 1; reached; ++k) {
    ASSERT_EQ(ErrorOf(Network(PlanKind::kCreateNetwork)), "");
    kernel_.DieAt(k);
    Network(PlanKind::kDeleteNetwork);
    reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    remove();
    ASSERT_EQ(DifferenceWithin(before, 20), "") << k;
  }
}

// A tear-down that failed half way is finished by the same plan.
TEST_F(FailurePoints, OfDetachAreFinishedByTheNextTry) {
  PrepareBase();
  const Reply kept = Attach("data", Propagation::kPrivate, "kept");
  ASSERT_EQ(ErrorOf(kept), "");
  const Inventory before = Inventory::Take();
  AtEachCall([&](std::size_t k, int error) {
    const Reply reply = Attach("data", Propagation::kHostToTask);
    EXPECT_EQ(ErrorOf(reply), "");
    MountTmpfs("/run/host/data/sub");
    kernel_.FailAt(k, error);
    const Reply detached = Detach(reply.body.mount.mount_id);
    const bool reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    if (detached.code != 0) {
      EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    }
    Unmount("/run/host/data/sub");
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
    return reached && !HasFailure();
  });
}

// A replacement that was interrupted anywhere is finished by the same plan, or
// undone by the plan that unmounts.
TEST_F(FailurePoints, OfASwapAreFinishedOrUndoneByTheNextPlan) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  PrepareBase();
  const Reply kept = Attach("data", Propagation::kPrivate, "kept");
  ASSERT_EQ(ErrorOf(kept), "");
  const Inventory before = Inventory::Take();
  // Interrupts the swap at its k-th call; `error` 0 kills the executor there.
  const auto cut_off = [&](std::size_t k, int error, const Request& swap) {
    error == 0 ? kernel_.DieAt(k) : kernel_.FailAt(k, error);
    Send(swap);
    const bool reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    return reached;
  };
  const auto mount_at_target = [&] {
    return Call(PlanKind::kInspectTarget,
                [](PlanBody* body) {
                  body->target = exec::Target("web", "app", "data");
                })
        .body.mount.mount_id;
  };
  for (const int error : {EIO, ENOMEM, EACCES, 0}) {
    for (const bool finish : {false, true}) {
      bool reached = true;
      for (std::size_t k = 1; reached; ++k) {
        SCOPED_TRACE(k);
        const Reply old = Attach("data", Propagation::kHostToTask);
        Request swap = AttachRequest("data", Propagation::kHostToTask);
        swap.body.attach.replaces = old.body.mount.mount_id;
        swap.body.attach.attributes = exec::kReadOnly;
        reached = cut_off(k, error, swap);
        if (finish) {
          ASSERT_EQ(ErrorOf(Send(swap)), "");
        }
        ASSERT_EQ(ErrorOf(Detach(mount_at_target())), "");
        ASSERT_EQ(Difference(before, Inventory::Take()), "");
      }
    }
  }
}

TEST_F(FailurePoints, AKillWithinASwapIsSweptWithTheAllocation) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  PrepareBase();
  const Inventory before = Inventory::Take();
  bool reached = true;
  for (std::size_t k = 1; reached; ++k) {
    SCOPED_TRACE(k);
    const Reply old = Attach("data", Propagation::kHostToTask);
    ASSERT_EQ(ErrorOf(old), "");
    Request swap = AttachRequest("data", Propagation::kPrivate);
    swap.body.attach.replaces = old.body.mount.mount_id;
    kernel_.DieAt(k);
    Send(swap);
    reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    for (const PlanKind kind :
         {PlanKind::kRemoveAllocation, PlanKind::kPrepareAllocation}) {
      ASSERT_EQ(ErrorOf(Call(kind,
                             [](PlanBody* body) {
                               body->allocation = {ToWire("web"), 1234};
                             })),
                "");
    }
    ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
    ASSERT_EQ(Difference(before, Inventory::Take()), "");
  }
}

TEST_F(FailurePoints, OfPreparingAnInbox) {
  PrepareBase();
  const auto inbox = [&](PlanKind kind) {
    return Call(kind, [](PlanBody* body) {
      body->task = {ToWire("web"), ToWire("app")};
    });
  };
  const auto remove = [&] {
    ASSERT_EQ(ErrorOf(inbox(PlanKind::kRemoveInbox)), "");
  };
  FailEach([&] { return inbox(PlanKind::kPrepareInbox); },
           [&](const Reply& /*reply*/) { remove(); });
  KillAtEach([&] { inbox(PlanKind::kPrepareInbox); }, remove);
}

TEST_F(FailurePoints, OfDeletingANetworkAreFinishedByTheNextTry) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  const Inventory before = Inventory::Take();
  AtEachCall([&](std::size_t k, int error) {
    EXPECT_EQ(ErrorOf(Network(PlanKind::kCreateNetwork)), "");
    kernel_.FailAt(k, error);
    const Reply reply = Network(PlanKind::kDeleteNetwork);
    const bool reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    if (reply.code != 0) {
      EXPECT_EQ(ErrorOf(Network(PlanKind::kDeleteNetwork)), "");
    }
    EXPECT_EQ(ErrorOf(Network(PlanKind::kDeleteNetwork)), "");
    EXPECT_EQ(DifferenceWithin(before, 20), "");
    return reached && !HasFailure();
  });
}

}  // namespace
}  // namespace mountd::testing
