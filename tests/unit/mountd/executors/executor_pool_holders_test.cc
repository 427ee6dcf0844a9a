// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A plan that hangs delays plans on the same object, and no others.
#include <algorithm>
#include <functional>

#include "tests/unit/mountd/executors/executor_pool_fixture.h"

namespace mountd::exec {
namespace {

TEST_F(ExecutorPoolTest, WhatIsStuckHoldsAllThatIsDoneToTheSame) {
  using Plan = std::function<std::string()>;
  ExecutorPool pool = Make(8, milliseconds(300));
  const auto volume = [](const char* id) {
    VolumeDirPlan plan;
    plan.plugin = ToWire("nfs");
    const std::string key = VolumeKey::Derive("nfs", id).str();
    std::copy(key.begin(), key.end(), plan.volume.begin());
    return plan;
  };
  const auto attach = [](SourceKind kind, const VolumeDirPlan& of) {
    AttachPlan plan;
    plan.target = Target("web", "app", "data");
    plan.source.kind = kind;
    plan.source.filesystem = ToWire("scratch");
    plan.source.plugin = of.plugin;
    plan.source.volume = of.volume;
    return plan;
  };
  const PluginPlan nfs{ToWire("nfs")};
  const PluginSocketPlan socket{ToWire("nfs"), {}, 0};
  const TargetPlan target = Target("web", "app", "data");
  struct Row {
    const char* kind;  // of the plan that hangs
    Plan hangs;
    std::vector<Plan> held;
    Plan free;  // a plan on another object
  };
  const Row rows[] = {
      {"20",
       [&] { return Outcome(pool.PreparePlugin(nfs)); },
       {[&] { return Outcome(pool.RemovePlugin(nfs)); },
        [&] { return Outcome(pool.StartPlugin(nfs)); },
        [&] { return Outcome(pool.StopPlugin(nfs)); },
        [&] { return Outcome(pool.ConnectPlugin(socket)); },
        [&] { return Outcome(pool.InspectPluginSocket(socket)); },
        [&] { return Outcome(pool.RemovePluginSocket(socket)); }},
       [&] { return Outcome(pool.RemovePlugin({ToWire("local")})); }},
      {"23",
       [&] { return Outcome(pool.PrepareVolumeDir(volume("v1"))); },
       {[&] { return Outcome(pool.InspectVolumeDir(volume("v1"))); },
        [&] { return Outcome(pool.RemoveVolumeDir(volume("v1"))); },
        [&] {
          return Outcome(pool.Attach(
              attach(SourceKind::kPublishedVolume, volume("v1")), -1));
        }},
       [&] { return Outcome(pool.RemoveVolumeDir(volume("v2"))); }},
      {kAttach,
       [&] {
         return Outcome(pool.Attach(attach(SourceKind::kFilesystem, {}), -1));
       },
       {[&] {
         return Outcome(pool.ReleaseAnchor(
             {SourceKind::kFilesystem, ToWire("scratch"), 0}));
       }},
       [&] {
         return Outcome(pool.ReleaseAnchor(
             {SourceKind::kHostVolume, ToWire("scratch"), 0}));
       }},
      {"14",
       [&] {
         return Outcome(pool.Detach({target, 1}));
       },
       {[&] { return Outcome(pool.InspectTarget(target)); }},
       [&] {
         return Outcome(pool.InspectTarget(Target("web", "app", "logs")));
       }},
      {"12",
       [&] { return Outcome(pool.RemoveAllocation(Allocation("web"))); },
       {[&] { return Outcome(pool.RemoveAllocation(Allocation("web"))); }},
       [&] { return Outcome(pool.PrepareAllocation(Allocation("web"))); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.kind);
    executors_.script().Block(row.kind);
    EXPECT_EQ(row.hangs(), "DeadlineExceeded");
    for (const Plan& plan : row.held) {
      EXPECT_EQ(plan(), "Unavailable");
    }
    EXPECT_EQ(row.free(), "Ok");
    executors_.script().Unblock(row.kind);
    EXPECT_TRUE(Await([&] { return pool.stuck() == 0; }));
    EXPECT_EQ(row.hangs(), "Ok");
  }
}

// CNI plans have a deadline of their own, and no ADD delays a DEL.
TEST_F(ExecutorPoolTest, ACniNetworkThatHangsHoldsItsOwn) {
  ExecutorPool pool(executors_.connector(), {.deadline = milliseconds(60'000),
                                             .slow = milliseconds(60'000),
                                             .cni_deadline = milliseconds(300),
                                             .cni_lanes = 1});
  const auto run = [&](CniVerb verb, const char* network) {
    CniPlan plan;
    plan.verb = verb;
    plan.network = ToWire(network);
    return Outcome(pool.RunCni(plan, STDIN_FILENO));
  };
  executors_.script().Block("38");
  EXPECT_EQ(run(CniVerb::kAdd, "bridge"), "DeadlineExceeded");
  EXPECT_EQ(run(CniVerb::kDel, "bridge"), "Unavailable");
  executors_.script().Unblock("38");
  // The call fails because the fake has no answer to hand over.
  EXPECT_EQ(run(CniVerb::kDel, "macvlan"), "Internal");
}

}  // namespace
}  // namespace mountd::exec
