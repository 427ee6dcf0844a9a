// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/services.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/matchers.h"
#include "tests/support/naive.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class ServiceTest : public CoreFixture {
 protected:
  Result<std::string> Prepare(const std::string& allocation,
                              std::uint32_t uid = Core::kAgent) {
    return services().allocations.PrepareAllocation(
        Core::By(uid), NameOf(allocation), "scope");
  }
  static BindMountRequest HostVolume(const std::string& volume,
                                     std::uint32_t attributes = 0) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = "d";
    spec.wish.source = volume;
    spec.wish.attributes = attributes;
    return spec;
  }
  // Returns a bind mount of the published volume "alias".
  static BindMountRequest Volume(std::uint32_t attributes = 0) {
    BindMountRequest spec = HostVolume("alias", attributes);
    spec.wish.source_kind = exec::SourceKind::kPublishedVolume;
    return spec;
  }
  static BindMountRequest Tmpfs() {
    BindMountRequest spec = HostVolume("");
    spec.wish.source_kind = exec::SourceKind::kTmpfs;
    spec.wish.tmpfs = {65536, 0, 0700, exec::kNoId, exec::kNoId, 0};
    return spec;
  }
  Result<csi::PublishedVolume> Publish(bool read_only = false,
                                       std::uint32_t uid = Core::kAgent) {
    csi::PublishSpec spec;
    spec.allocation = "web";
    spec.alias = "alias";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    spec.read_only = read_only;
    return services().volumes.PublishVolume(Core::By(uid), spec, UniqueFd());
  }
  Result<MountConfig> Bind(const BindMountRequest& spec,
                           std::uint32_t uid = Core::kAgent) {
    return services().mounts.BindMount(Core::By(uid), spec);
  }
};

TEST_F(ServiceTest, ATmpfsIsItsAllocationsOwners) {
  ASSERT_THAT(Prepare("web"), IsOk());
  ASSERT_THAT(Bind(Tmpfs(), Core::kAdmin), IsOk());
  exec::TmpfsPlan plan = executor().plans().back().body.attach.source.tmpfs;
  EXPECT_EQ(plan,
            (exec::TmpfsPlan{65536, 64, 0700, Core::kAgent, Core::kAgent, 0}));
  BindMountRequest spec = Tmpfs();
  spec.name = "other";
  spec.wish.tmpfs = {65536, 9, 01777, 5, 6, 1};
  ASSERT_THAT(Bind(spec), IsOk());
  EXPECT_EQ(executor().plans().back().body.attach.source.tmpfs,
            spec.wish.tmpfs);
}

TEST_F(ServiceTest, ATmpfsThatMakesNoSenseIsInvalid) {
  ASSERT_THAT(Prepare("web"), IsOk());
  const auto with = [&](auto change) {
    BindMountRequest spec = Tmpfs();
    change(spec);
    return Outcome(Bind(spec));
  };
  constexpr char kInvalid[] = "InvalidArgument";
  EXPECT_EQ(with([](auto& s) { s.wish.source = "data"; }), kInvalid);
  EXPECT_EQ(with([](auto& s) { s.wish.attributes = exec::kReadOnly; }),
            kInvalid);
  EXPECT_EQ(with([](auto& s) {
              s.wish.propagation = exec::Propagation::kHostToTask;
            }),
            kInvalid);
  EXPECT_EQ(with([](auto& s) { s.wish.tmpfs.bytes = 4095; }), kInvalid);
  EXPECT_EQ(with([](auto& s) { s.wish.tmpfs.inodes = 65; }), kInvalid);
  EXPECT_EQ(with([](auto& s) { s.wish.tmpfs.mode = 04755; }), kInvalid);
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_F(ServiceTest, PreparingMakesTheDirectoryForItsOwner) {
  EXPECT_EQ(Prepare("web").value(), "/run/mountd/base/a/web");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
  EXPECT_EQ(executor().plans().back().body.allocation.uid, Core::kAgent);
  const auto status = services().allocations.GetAllocation(
      Core::By(Core::kAgent), NameOf("web"));
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(status->record.uid, Core::kAgent);
  EXPECT_EQ(status->record.scope, "scope");
  EXPECT_EQ(status->host_path, "/run/mountd/base/a/web");
  EXPECT_TRUE(status->networks.empty());
}

// Knows allocations by their ids, as a naive service does, and not by their
// owners.
class NaiveIds {
 public:
  Result<std::string> PrepareAllocation(const CallContext& /*call*/,
                                        const Name& allocation,
                                        const std::string& /*scope*/) {
    ids_.insert(allocation.str());
    return "/run/mountd/base/a/" + allocation.str();
  }
  Result<void> ReleaseAllocation(const CallContext& /*call*/,
                                 const Name& allocation) {
    if (ids_.erase(allocation.str()) == 0) {
      return MakeError(Code::kNotFound, "find", allocation.str());
    }
    return Ok();
  }

 private:
  std::set<std::string> ids_;
};

// Takes the id of an allocation before its user does, and releases the
// allocation as soon as that user has it. True if all of that succeeds.
template <typename Ids>
bool TakesAnIdAndWhatComesThere(Ids& ids) {
  const CallContext attacker = Core::By(Core::kOther);
  const auto taken = ids.PrepareAllocation(attacker, NameOf("web"), "scope");
  const auto used =
      ids.PrepareAllocation(Core::By(Core::kAgent), NameOf("web"), "scope");
  return taken && used && *used == *taken &&
         ids.ReleaseAllocation(attacker, NameOf("web"));
}

// SECURITY.md says that ids belong to the node. A user who takes another user's
// id first keeps it until its release, by an administrator if necessary, and
// then the id is the name of a receipt.
TEST_F(ServiceTest, AnIdIsWhoseTheFirstCallIs) {
  NaiveIds naive;
  EXPECT_NAIVE(TakesAnIdAndWhatComesThere(naive));
  EXPECT_FALSE(TakesAnIdAndWhatComesThere(services().allocations));
  ASSERT_THAT(Prepare("web", Core::kOther), IsOk());
  const auto refused = Prepare("web");
  EXPECT_THAT(refused, IsErr(Code::kPermissionDenied));
  // The error does not name the owner.
  EXPECT_EQ(MessageOf(refused).find(std::to_string(Core::kOther)),
            std::string::npos);
  EXPECT_THAT(services().allocations.ReleaseAllocation(Core::By(Core::kAgent),
                                                       NameOf("web")),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().allocations.ReleaseAllocation(Core::By(Core::kAdmin),
                                                       NameOf("web")),
              IsOk());
  EXPECT_THAT(Prepare("web"), IsErr(Code::kAlreadyExists));
  EXPECT_THAT(Prepare("web", Core::kOther), IsOk());
}

TEST_F(ServiceTest, PreparingAgainAnswersTheSame) {
  const auto first = Prepare("web");
  const auto second = Prepare("web");
  EXPECT_EQ(second.value(), first.value());
  EXPECT_EQ(core_.state->allocations.ListAllocations()->size(), 1U);
}

TEST_F(ServiceTest, AnothersAllocationIsPermissionDenied) {
  ASSERT_THAT(Prepare("web"), IsOk());
  const CallContext other = Core::By(Core::kOther);
  EXPECT_THAT(Prepare("web", Core::kOther), IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().allocations.GetAllocation(other, NameOf("web")),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().networks.SetupNetwork(other, NameOf("web"), {}),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().networks.TeardownNetwork(other, NameOf("web")),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(Bind(HostVolume("data"), Core::kOther),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(Publish(false, Core::kOther), IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().allocations.ReleaseAllocation(other, NameOf("web")),
              IsErr(Code::kPermissionDenied));
  EXPECT_TRUE(services().allocations.ListAllocations(other)->empty());
  EXPECT_EQ(
      services().allocations.ListAllocations(Core::By(Core::kAgent))->size(),
      1U);
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_F(ServiceTest, AnAdministratorSeesAndUndoesOthersThings) {
  ASSERT_THAT(Prepare("web"), IsOk());
  const CallContext admin = Core::By(Core::kAdmin);
  EXPECT_EQ(services().allocations.ListAllocations(admin)->size(), 1U);
  EXPECT_THAT(services().allocations.ReleaseAllocation(admin, NameOf("web")),
              IsOk());
}

TEST_F(ServiceTest, WithoutARuleNothingIsPrepared) {
  EXPECT_THAT(Prepare("web", Core::kNobody), IsErr(Code::kPermissionDenied));
  EXPECT_TRUE(core_.state->allocations.ListAllocations()->empty());
  EXPECT_TRUE(executor().plans().empty());
}

TEST_F(ServiceTest, APrepareThatFailsLeavesNoAllocation) {
  executor().FailNext("PrepareAllocation", Code::kDeadlineExceeded,
                      FailWhen::kAfter);
  EXPECT_THAT(Prepare("web"), IsErr(Code::kDeadlineExceeded));
  EXPECT_TRUE(core_.state->allocations.ListAllocations()->empty());
  EXPECT_TRUE(executor().Existing().empty());
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_THAT(Prepare("web"), IsOk());
}

// All executors are killed, so neither the call nor its undoing gets through.
TEST_F(ServiceTest, APrepareThatCouldNotBeUndoneIsMadeAgain) {
  for (const FailWhen when : {FailWhen::kBefore, FailWhen::kAfter}) {
    executor().FailNext("PrepareAllocation", Code::kUnavailable, when);
    executor().FailNext("RemoveAllocation", Code::kUnavailable, when, 2);
    EXPECT_THAT(Prepare("web"), IsErr(Code::kUnavailable));
    EXPECT_THAT(Prepare("web", Core::kOther), IsErr(Code::kPermissionDenied));
    // The error is that of the release, and no other one.
    EXPECT_THAT(Prepare("web"), IsErr(Code::kUnavailable));
    EXPECT_EQ(services().node.ListOwed(CallContext{})->size(), 1U);
    EXPECT_THAT(Prepare("web"), IsOk());
    EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
    EXPECT_EQ(executor().Existing(),
              std::vector<std::string>{"allocation web"});
    EXPECT_THAT(services().allocations.ReleaseAllocation(Core::By(Core::kAgent),
                                                         NameOf("web")),
                IsOk());
  }
}

TEST(ServiceLimitTest, OneMoreThanTheLimitIsResourceExhausted) {
  Config config = Core::DefaultConfig();
  config.limits.allocations_per_uid = 1;
  Core core(config);
  const auto prepare = [&](const char* name, std::uint32_t uid) {
    return Outcome(core.services->allocations.PrepareAllocation(
        Core::By(uid), NameOf(name), ""));
  };
  EXPECT_EQ(prepare("a", Core::kAgent), "Ok");
  EXPECT_EQ(prepare("b", Core::kAgent), "ResourceExhausted");
  EXPECT_EQ(prepare("a", Core::kAgent), "Ok");
  EXPECT_EQ(prepare("b", Core::kOther), "Ok");
}

TEST_F(ServiceTest, NothingIsMadeForAnUnknownAllocation) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  const CallContext call = Core::By(Core::kAgent);
  EXPECT_THAT(Bind(HostVolume("data")), IsErr(Code::kNotFound));
  EXPECT_THAT(Publish(), IsErr(Code::kNotFound));
  EXPECT_THAT(services().networks.SetupNetwork(call, NameOf("web"), {}),
              IsErr(Code::kNotFound));
  EXPECT_THAT(services().mounts.Unmount(call, NameOf("web"), NameOf("task"),
                                        NameOf("d")),
              IsErr(Code::kNotFound));
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"plugin nfs"});
}

TEST_F(ServiceTest, TheRulesAreAskedForNetworksAndPorts) {
  ASSERT_THAT(Prepare("web"), IsOk());
  const CallContext call = Core::By(Core::kAgent);
  NetworkRequest spec;
  spec.ports.push_back({"ssh", 22, 22, exec::kTcp});
  EXPECT_THAT(services().networks.SetupNetwork(call, NameOf("web"), spec),
              IsErr(Code::kPermissionDenied));
  spec.ports[0].host_port = 20022;
  ASSERT_THAT(services().networks.SetupNetwork(call, NameOf("web"), spec),
              IsOk());
  const auto status = services().allocations.GetAllocation(call, NameOf("web"));
  ASSERT_EQ(status->networks.size(), 1U);
  EXPECT_EQ(status->networks[0].ports[0].host_port, 20022);
  EXPECT_THAT(services().networks.TeardownNetwork(call, NameOf("web")), IsOk());
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_F(ServiceTest, TheRulesAreAskedForHostVolumes) {
  ASSERT_THAT(Prepare("web"), IsOk());
  EXPECT_THAT(Bind(HostVolume("nowhere")), IsErr(Code::kNotFound));
  EXPECT_THAT(Bind(HostVolume("logs")), IsErr(Code::kPermissionDenied));
  EXPECT_THAT(Bind(HostVolume("logs", exec::kReadOnly)), IsOk());
}

TEST_F(ServiceTest, TheExecutorIsToldWhoseIdsAreMapped) {
  ASSERT_THAT(Prepare("web"), IsOk());
  BindMountRequest spec = HostVolume("data");
  spec.wish.ids.count = 1;
  spec.wish.ids.extents[0] = {Core::kOther, 100999, 1};
  EXPECT_THAT(Bind(spec), IsErr(Code::kPermissionDenied));
  spec.wish.ids.extents[0] = {Core::kAgent, 100999, 1};
  ASSERT_THAT(Bind(spec), IsOk());
  const exec::CallerPlan caller = executor().plans().back().body.attach.caller;
  EXPECT_EQ(caller.uid, Core::kAgent);
  ASSERT_EQ(caller.gid_count, 1U);
  EXPECT_EQ(caller.gids[0], Core::kAgent);
}

TEST_F(ServiceTest, RootsFilesShowOnlyByARuleAndInPrivate) {
  ASSERT_THAT(Prepare("web"), IsOk());
  BindMountRequest spec = HostVolume("data");
  spec.wish.ids.count = 1;
  spec.wish.ids.extents[0] = {0, Core::kAgent, 1};
  EXPECT_THAT(Bind(spec), IsErr(Code::kPermissionDenied));
  spec.wish.propagation = exec::Propagation::kHostToTask;
  EXPECT_THAT(Bind(spec), IsErr(Code::kInvalidArgument));
}

TEST_F(ServiceTest, BidirectionalNeedsWriteAccess) {
  ASSERT_THAT(Prepare("web"), IsOk());
  BindMountRequest spec = HostVolume("data", exec::kReadOnly);
  spec.wish.propagation = exec::Propagation::kBidirectional;
  EXPECT_THAT(Bind(spec), IsErr(Code::kFailedPrecondition));
  spec.wish.attributes = 0;
  EXPECT_THAT(Bind(spec), IsOk());
}

TEST_F(ServiceTest, AVolumeIsBoundFromWhereItIsPublished) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("web"), IsOk());
  EXPECT_THAT(Bind(Volume()), IsErr(Code::kNotFound));
  ASSERT_THAT(Publish(), IsOk());
  ASSERT_THAT(Bind(Volume()), IsOk());
  const exec::SourcePlan source = executor().plans().back().body.attach.source;
  EXPECT_EQ(source.kind, exec::SourceKind::kPublishedVolume);
  EXPECT_EQ(source.plugin.view(), "nfs");
  EXPECT_EQ(source.volume, VolumeKey::Derive("nfs", "v1").hex());

  const auto status = services().allocations.GetAllocation(
      Core::By(Core::kAgent), NameOf("web"));
  ASSERT_EQ(status->volumes.size(), 1U);
  EXPECT_EQ(status->volumes[0].plugin, "nfs");
  EXPECT_EQ(status->volumes[0].volume_id, "v1");
  ASSERT_EQ(status->mounts.size(), 1U);
  EXPECT_EQ(status->mounts[0].record.wish.source, "alias");
}

TEST_F(ServiceTest, AReadOnlyVolumeIsBoundForReadingOnly) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("web"), IsOk());
  ASSERT_THAT(Publish(true), IsOk());
  EXPECT_THAT(Bind(Volume()), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(Bind(Volume(exec::kReadOnly)), IsOk());
}

TEST_F(ServiceTest, AVolumeInDoubtIsNotBound) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("web"), IsOk());
  core_.client->FailNext("NodePublishVolume", csi::RpcCode::kUnavailable,
                         FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  EXPECT_THAT(Publish(), IsErr(Code::kUnavailable));
  core_.client->script().Clear();
  EXPECT_THAT(Bind(Volume()), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(Publish(), IsOk());
  EXPECT_THAT(Bind(Volume()), IsOk());
}

TEST_F(ServiceTest, ABoundVolumeIsNotUnpublished) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("web"), IsOk());
  ASSERT_THAT(Publish(), IsOk());
  ASSERT_THAT(Bind(Volume()), IsOk());
  const CallContext call = Core::By(Core::kAgent);
  const auto unpublish = [&] {
    return services().volumes.UnpublishVolume(call, NameOf("web"),
                                              NameOf("alias"));
  };
  const auto refused = unpublish();
  EXPECT_THAT(refused, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(refused).find("task/d"), std::string::npos);
  EXPECT_EQ(core_.client->Published().size(), 1U);
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  ASSERT_THAT(services().mounts.Unmount(call, NameOf("web"), NameOf("task"),
                                        NameOf("d")),
              IsOk());
  EXPECT_THAT(unpublish(), IsOk());
  EXPECT_TRUE(core_.client->Published().empty());
  EXPECT_TRUE(core_.client->Staged().empty());
}

TEST_F(ServiceTest, VolumesAreListedToTheirUsers) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("web"), IsOk());
  ASSERT_THAT(Publish(), IsOk());
  const auto own = services().volumes.ListVolumes(Core::By(Core::kAgent));
  ASSERT_EQ(own->size(), 1U);
  EXPECT_EQ(own->at(0).record.volume_id, "v1");
  ASSERT_EQ(own->at(0).users.size(), 1U);
  EXPECT_EQ(own->at(0).users[0].allocation, "web");
  EXPECT_TRUE(services().volumes.ListVolumes(Core::By(Core::kOther))->empty());
  EXPECT_EQ(services().volumes.ListVolumes(Core::By(Core::kAdmin))->size(), 1U);
}

TEST_F(ServiceTest, APluginIsItsRegistrantsAndItsUsers) {
  const CallContext agent = Core::By(Core::kAgent);
  const PluginRecord record{"nfs", "node", 0, "", ""};
  EXPECT_THAT(
      services().plugins.RegisterPlugin(Core::By(Core::kNobody), record),
      IsErr(Code::kPermissionDenied));
  ASSERT_THAT(services().plugins.RegisterPlugin(agent, record), IsOk());
  EXPECT_EQ(services().plugins.GetPlugin(agent, NameOf("nfs"))->record.uid,
            Core::kAgent);
  EXPECT_THAT(services().plugins.RegisterPlugin(Core::By(Core::kOther), record),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().plugins.UnregisterPlugin(Core::By(Core::kOther),
                                                  NameOf("nfs")),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(
      services().plugins.GetPlugin(Core::By(Core::kNobody), NameOf("nfs")),
      IsErr(Code::kPermissionDenied));
  EXPECT_THAT(services().plugins.GetPlugin(agent, NameOf("ebs")),
              IsErr(Code::kNotFound));
  EXPECT_EQ(services().plugins.ListPlugins(Core::By(Core::kOther))->size(), 1U);
  EXPECT_TRUE(services().plugins.ListPlugins(Core::By(Core::kNobody))->empty());
  EXPECT_THAT(services().plugins.UnregisterPlugin(agent, NameOf("nfs")),
              IsOk());
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(ServiceTest, APluginsAllocationMustBePrepared) {
  const CallContext agent = Core::By(Core::kAgent);
  const PluginRecord record{"nfs", "node", 0, "web", ""};
  EXPECT_THAT(services().plugins.RegisterPlugin(agent, record),
              IsErr(Code::kNotFound));
  ASSERT_THAT(Prepare("web"), IsOk());
  EXPECT_THAT(services().plugins.RegisterPlugin(agent, record), IsOk());
}

TEST_F(ServiceTest, APluginEndsWithItsAllocation) {
  const CallContext agent = Core::By(Core::kAgent);
  const auto release = [&](const char* allocation) {
    return Outcome(
        services().allocations.ReleaseAllocation(agent, NameOf(allocation)));
  };
  for (const char* allocation : {"plugin", "web"}) {
    ASSERT_THAT(Prepare(allocation), IsOk());
  }
  ASSERT_THAT(services().plugins.RegisterPlugin(
                  agent, {"nfs", "node", 0, "plugin", ""}),
              IsOk());
  const std::vector<std::string> before = executor().Existing();
  const PublicationRecord publication = AddUsedVolume(core_, "data");
  EXPECT_EQ(release("plugin"), "Busy");
  // Nothing has gone, and the release is retried.
  EXPECT_EQ(executor().Existing(), before);
  ASSERT_EQ(services().node.ListOwed(agent)->size(), 1U);
  ASSERT_THAT(core_.state->volumes.RemovePublication(publication, true),
              IsOk());
  EXPECT_THAT(
      services().node.RetryOwed(services().node.ListOwed(agent)->front()),
      IsOk());
  EXPECT_TRUE(services().plugins.ListPlugins(agent)->empty());
  EXPECT_THAT(services().allocations.GetReceipt(agent, NameOf("plugin")),
              IsOk());
  EXPECT_EQ(release("web"), "Ok");
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(ServiceTest, PluginsOfAUserAreBounded) {
  Config config = Core::DefaultConfig();
  config.limits.plugins_per_uid = 1;
  Core core(config);
  const auto add = [&](const char* id, std::uint32_t uid) {
    return Outcome(core.services->plugins.RegisterPlugin(
        Core::By(uid), {id, "node", 0, "", ""}));
  };
  EXPECT_EQ(add("a", Core::kAgent), "Ok");
  EXPECT_EQ(add("b", Core::kAgent), "ResourceExhausted");
  EXPECT_EQ(add("a", Core::kAgent), "Ok");
  EXPECT_EQ(add("b", Core::kOther), "Ok");
}

TEST_F(ServiceTest, TheHostsLastMountsAreKept) {
  ASSERT_THAT(Prepare("web"), IsOk());
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Bind(HostVolume("data")), IsOk());
  core_.room.Set(95, 100);
  BindMountRequest more = HostVolume("data");
  more.name = "more";
  EXPECT_THAT(Bind(more), IsErr(Code::kResourceExhausted));
  EXPECT_THAT(Publish(), IsErr(Code::kResourceExhausted));
  // A call for an object that exists is answered all the same.
  EXPECT_THAT(Bind(HostVolume("data")), IsOk());
  core_.room.SetCount(80);
  EXPECT_THAT(Bind(more), IsOk());
  ASSERT_THAT(Publish(), IsOk());
  core_.room.SetCount(95);
  EXPECT_THAT(Publish(), IsOk());
}

TEST_F(ServiceTest, CapabilitiesNameTheNetworksThatOneMayBeIn) {
  executor().PutCniNetwork("net", "");
  executor().PutCniNetwork("bad", "no such plugin");
  const auto capabilities =
      services().capabilities.GetCapabilities(Core::By(Core::kAgent));
  ASSERT_THAT(capabilities, IsOk());
  EXPECT_EQ(capabilities->network_modes.back(), "cni/net");
  EXPECT_EQ(capabilities->missing.at("cni/bad"), "no such plugin");
  const auto admins =
      services().capabilities.GetCapabilities(Core::By(Core::kAdmin));
  ASSERT_THAT(admins, IsOk());
  EXPECT_EQ(admins->network_modes.back(), "driver") << "no rule names any";
  EXPECT_FALSE(admins->features.at("cni"));
}

TEST_F(ServiceTest, CapabilitiesAreTheExecutors) {
  executor().FailNext("Hello", Code::kUnavailable);
  EXPECT_THAT(services().capabilities.GetCapabilities(Core::By(Core::kAgent)),
              IsErr(Code::kUnavailable));
  executor().SetStuck(3);
  const auto capabilities =
      services().capabilities.GetCapabilities(Core::By(Core::kAgent));
  ASSERT_THAT(capabilities, IsOk());
  EXPECT_TRUE(capabilities->features.at("unique-mount-ids"));
  EXPECT_TRUE(capabilities->features.at("bridge"));
  EXPECT_TRUE(capabilities->features.at("cni"));
  EXPECT_TRUE(capabilities->missing.empty());
  ASSERT_FALSE(capabilities->host_ports.empty());
  EXPECT_EQ(capabilities->host_ports[0].free,
            capabilities->host_ports[0].range.last -
                capabilities->host_ports[0].range.first + 1U);
  EXPECT_EQ(capabilities->networks.at("default").capacity, 5U);
  EXPECT_EQ(capabilities->executor_capabilities, 0x200000U);
  EXPECT_EQ(capabilities->stuck_executors, 3U);
}

}  // namespace
}  // namespace mountd
