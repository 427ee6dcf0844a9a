// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/schedule/calls.h"

#include <algorithm>
#include <set>

#include "mountd/service/teardowns.h"
#include "tests/support/outcome.h"

namespace mountd::testing {

const std::vector<std::string> kAllocations = {"web", "db", "api"};

namespace {

constexpr char kTask[] = "task";
constexpr char kAlias[] = "x";

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed);

  std::size_t Below(std::size_t end) { return random_() % end; }
  bool OneOf(std::size_t many) { return Below(many) == 0; }
  template <typename T>
  T From(const std::vector<T>& all) {
    return all[Below(all.size())];
  }

  PlannedCall Any(Kinds kinds);
  PlannedCall Prepare(const std::string& allocation);
  PlannedCall Publish(const std::string& allocation);
  PlannedCall Unpublish(const std::string& allocation);
  PlannedCall Bind(const std::string& allocation) {
    return Mount(allocation, false);
  }
  PlannedCall Replace(const std::string& allocation) {
    return Mount(allocation, true);
  }
  PlannedCall Unmount(const std::string& allocation);
  PlannedCall SetupNetwork(const std::string& allocation);
  PlannedCall TeardownNetwork(const std::string& allocation);
  PlannedCall Release(const std::string& allocation);
  PlannedCall Reconcile();

 private:
  // Returns a call, mostly by the allocation's owner.
  PlannedCall Of(const std::string& method, const std::string& allocation,
                 const std::string& rest = "");
  PlannedCall Mount(const std::string& allocation, bool replace);

  std::mt19937_64 random_;
  std::size_t theme_ = 0;
};

template <typename T>
Result<std::string> Answered(const Result<T>& result,
                             const std::string& text = "") {
  if (!result) {
    return result.error();
  }
  return text;
}

PlannedCall Drawing::Of(const std::string& method,
                        const std::string& allocation,
                        const std::string& rest) {
  PlannedCall call;
  call.method = method;
  call.uid = OwnerOf(allocation);
  if (OneOf(12)) {
    call.uid = call.uid == Core::kAgent ? Core::kOther : Core::kAgent;
  }
  call.arguments = allocation + (rest.empty() ? "" : " " + rest) + " by " +
                   std::to_string(call.uid);
  call.strand = AllocationStrand(allocation);
  return call;
}

PlannedCall Drawing::Prepare(const std::string& allocation) {
  PlannedCall call = Of("PrepareAllocation", allocation);
  call.work = [allocation](Core& core, const CallContext& context, Strands&) {
    return core.services->allocations.PrepareAllocation(
        context, NameOf(allocation), "s");
  };
  return call;
}

PlannedCall Drawing::Publish(const std::string& allocation) {
  const std::string volume = OneOf(6) ? "v2" : "v1";
  const bool read_only = OneOf(10);
  PlannedCall call =
      Of("PublishVolume", allocation, volume + (read_only ? " ro" : ""));
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    csi::PublishSpec spec;
    spec.allocation = allocation;
    spec.alias = kAlias;
    spec.plugin = "nfs";
    spec.volume_id = volume;
    spec.read_only = read_only;
    spec.capability.access_mode = csi::AccessMode::kMultiNodeMultiWriter;
    const auto published =
        core.services->volumes.PublishVolume(context, spec, UniqueFd());
    return Answered(published, published ? published->host_path : "");
  };
  return call;
}

PlannedCall Drawing::Unpublish(const std::string& allocation) {
  PlannedCall call = Of("UnpublishVolume", allocation);
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    return Answered(core.services->volumes.UnpublishVolume(
        context, NameOf(allocation), NameOf(kAlias)));
  };
  return call;
}

PlannedCall Drawing::Mount(const std::string& allocation, bool replace) {
  BindMountRequest spec;
  spec.allocation = allocation;
  spec.task = kTask;
  spec.name = From<std::string>({"d", "e"});
  spec.wish.source = From<std::string>({"data", "data", "logs"});
  spec.wish.attributes = spec.wish.source == "logs" ? +exec::kReadOnly : 0U;
  if (OneOf(3)) {
    spec.wish.source_kind = exec::SourceKind::kPublishedVolume;
    spec.wish.source = kAlias;
    spec.wish.attributes = 0;
  }
  PlannedCall call = Of(replace ? "ReplaceMount" : "BindMount", allocation,
                        spec.name + " of " + spec.wish.source);
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    return replace ? Answered(core.services->mounts.ReplaceMount(context, spec))
                   : Answered(core.services->mounts.BindMount(context, spec));
  };
  return call;
}

PlannedCall Drawing::Unmount(const std::string& allocation) {
  const std::string name = From<std::string>({"d", "e"});
  PlannedCall call = Of("Unmount", allocation, name);
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    return Answered(core.services->mounts.Unmount(context, NameOf(allocation),
                                                  NameOf(kTask), NameOf(name)));
  };
  return call;
}

PlannedCall Drawing::SetupNetwork(const std::string& allocation) {
  PlannedCall call = Of("SetupNetwork", allocation);
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    NetworkRequest spec;
    spec.ports = {{"web", 20080, 80, exec::kTcp}};
    return Answered(core.services->networks.SetupNetwork(
        context, NameOf(allocation), spec));
  };
  return call;
}

PlannedCall Drawing::TeardownNetwork(const std::string& allocation) {
  PlannedCall call = Of("TeardownNetwork", allocation);
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    return Answered(
        core.services->networks.TeardownNetwork(context, NameOf(allocation)));
  };
  return call;
}

PlannedCall Drawing::Release(const std::string& allocation) {
  PlannedCall call = Of("ReleaseAllocation", allocation);
  call.work = [=](Core& core, const CallContext& context, Strands&) {
    const auto receipt = core.services->allocations.ReleaseAllocation(
        context, NameOf(allocation));
    std::string volumes;
    if (receipt) {
      for (const ReceiptRecord::Volume& volume : receipt->volumes) {
        volumes += volume.volume_id + " ";
      }
    }
    return Answered(receipt, volumes);
  };
  return call;
}

PlannedCall Drawing::Reconcile() {
  ReconcileSpec spec;
  spec.scope = "s";
  spec.epoch = 1 + Below(2);
  spec.dry_run = OneOf(6);
  PlannedCall call;
  call.method = "Reconcile";
  call.uid = From<std::uint32_t>({Core::kAgent, Core::kAgent, Core::kOther});
  call.arguments = "by " + std::to_string(call.uid) + " in epoch " +
                   std::to_string(spec.epoch) + (spec.dry_run ? " dry" : "");
  for (const std::string& allocation : kAllocations) {
    if (OneOf(3)) {
      spec.wanted.insert(allocation);
      call.arguments += " " + allocation;
    }
  }
  call.strand = "reconcile " + std::to_string(call.uid);
  call.work = [=](Core& core, const CallContext& context, Strands& strands) {
    return Answered(
        core.services->reconciler.Reconcile(context, spec, strands));
  };
  return call;
}

// The pools that calls are drawn from. In most sets the calls meet at the same
// objects.
using Draw = PlannedCall (Drawing::*)(const std::string&);

const std::vector<std::vector<Draw>>& Themes() {
  static const std::vector<std::vector<Draw>> kThemes = {
      {&Drawing::Publish, &Drawing::Unpublish},
      {&Drawing::Publish, &Drawing::Publish, &Drawing::Unpublish,
       &Drawing::Bind, &Drawing::Unmount, &Drawing::Release},
      {&Drawing::Bind, &Drawing::Unmount, &Drawing::Replace, &Drawing::Release},
      {&Drawing::SetupNetwork, &Drawing::TeardownNetwork, &Drawing::Release},
      {&Drawing::Prepare, &Drawing::Publish, &Drawing::Publish,
       &Drawing::Unpublish, &Drawing::Bind, &Drawing::Replace,
       &Drawing::Unmount, &Drawing::SetupNetwork, &Drawing::TeardownNetwork,
       &Drawing::Release}};
  return kThemes;
}

PlannedCall Drawing::Any(Kinds kinds) {
  if (kinds == Kinds::kAll && OneOf(6)) {
    return Reconcile();
  }
  const Draw draw = From(Themes().at(theme_));
  return (this->*draw)(From(kAllocations));
}

Drawing::Drawing(std::uint64_t seed)
    : random_(seed), theme_(Below(Themes().size())) {}

CallContext ContextOf(const PlannedCall& call) { return Core::By(call.uid); }

std::vector<std::string> MountsThere(Core& core) {
  std::vector<std::string> there;
  for (const std::string& one : core.executor->Existing()) {
    if (one.starts_with("mount ")) {
      there.push_back(one);
    }
  }
  return there;
}

// Returns a copy, because a loop needs its rows to last.
template <typename T>
std::vector<T> Rows(Result<std::vector<T>> rows) {
  return std::move(rows).value();
}

std::string MountText(const MountRecord& record) {
  return "mount " + Described(record);
}

}  // namespace

std::uint32_t OwnerOf(const std::string& allocation) {
  return allocation == "api" ? Core::kOther : Core::kAgent;
}

CallSet CallSet::Draw(std::uint64_t seed, Kinds kinds) {
  Drawing drawing(seed);
  CallSet set;
  for (const std::string& allocation : kAllocations) {
    if (!drawing.OneOf(8)) {
      set.before.push_back(drawing.Prepare(allocation));
      set.before.back().uid = OwnerOf(allocation);
    }
    for (const auto& call :
         {drawing.Publish(allocation), drawing.Bind(allocation),
          drawing.SetupNetwork(allocation)}) {
      if (drawing.OneOf(2)) {
        set.before.push_back(call);
      }
    }
  }
  for (std::size_t count = 3 + drawing.Below(4); count > 0; --count) {
    set.at_once.push_back(drawing.OneOf(6) && !set.at_once.empty()
                              ? drawing.From(set.at_once)
                              : drawing.Any(kinds));
  }
  return set;
}

std::string CallSet::Text() const {
  std::string text;
  for (const PlannedCall& call : before) {
    text += "before:  " + call.Text() + "\n";
  }
  for (const PlannedCall& call : at_once) {
    text += "at once: " + call.Text() + "\n";
  }
  return text;
}

std::unique_ptr<Core> CoreAfter(const CallSet& set, Steps* steps) {
  Config config = Core::DefaultConfig();
  config.timeouts.probe_ready = std::chrono::hours(1);
  auto core = std::make_unique<Core>(config, steps);
  if (!core->AddPlugin("nfs")) {
    return nullptr;
  }
  WorkerPool pool(8);
  Strands strands(pool);
  for (const PlannedCall& call : set.before) {
    IgnoreBecauseBestEffort(call.work(*core, ContextOf(call), strands));
  }
  return core;
}

std::string AnswerOf(const Result<std::string>& result) {
  return result ? "Ok " + *result : Outcome(result);
}

std::string StateOf(Core& core) {
  std::multiset<std::string> lines;
  for (const std::string& one : core.executor->Existing()) {
    lines.insert(one.starts_with("link ") ? "link" : one);
  }
  for (const std::string& one : core.client->Staged()) {
    lines.insert("staged " + one);
  }
  for (const std::string& one : core.client->Published()) {
    lines.insert("published " + one);
  }
  for (const AllocationRecord& record :
       Rows(core.state->allocations.ListAllocations())) {
    lines.insert("record of " + record.id + " " + std::to_string(record.uid) +
                 (record.state == AllocationState::kPrepared ? "" : " leaves"));
  }
  for (const PublicationRecord& record :
       Rows(core.state->volumes.ListPublications())) {
    lines.insert("record of volume " + record.allocation + "/" + record.alias +
                 " " + std::string(csi::PublicationStateName(record.state)));
  }
  for (const std::string& allocation : kAllocations) {
    for (const MountRecord& record :
         Rows(core.boot->mounts.MountsOf(allocation))) {
      lines.insert("record of " + MountText(record) + " of " +
                   record.wish.source + " " +
                   std::to_string(static_cast<int>(record.state)));
    }
    for (const NetworkRecord& record :
         Rows(core.boot->networks.NetworksOf(allocation))) {
      lines.insert("record of network " + allocation + "/" + record.interface +
                   " " + std::to_string(static_cast<int>(record.state)));
    }
  }
  for (const OwedRecord& owed : Rows(core.state->owed.ListOwed())) {
    lines.insert("owed " + std::string(OwedKindName(owed.kind)) + " " +
                 owed.object);
  }
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

std::string Contradiction(Core& core) {
  std::multiset<std::string> recorded;
  std::string text;
  for (const std::string& allocation : kAllocations) {
    for (const MountRecord& record :
         Rows(core.boot->mounts.MountsOf(allocation))) {
      recorded.insert(MountText(record));
    }
  }
  const std::vector<std::string> there = MountsThere(core);
  for (const std::string& one : there) {
    if (recorded.erase(one) != 1) {
      text += one + " is not recorded; ";
    }
  }
  // A record of a mount that is not there is an intent that could not be
  // undone, so its tear-down must be pending.
  if (!recorded.empty() && core.state->owed.ListOwed()->empty()) {
    text += *recorded.begin() + " is recorded and not there; ";
  }
  return text;
}

std::string LeftAfterRelease(Core& core) {
  std::string text;
  // The list includes the plugin's calls for a departed user.
  const std::vector<OwedRecord> before = Rows(core.state->owed.ListOwed());
  for (const OwedRecord& owed : before) {
    if (const auto done = core.services->node.RetryOwed(owed); !done) {
      text += "owed: " + done.error().Message() + "; ";
    }
  }
  for (const std::string& allocation : kAllocations) {
    const auto released = core.services->allocations.ReleaseAllocation(
        Core::By(Core::kAdmin), NameOf(allocation));
    if (!released && released.error().code != Code::kNotFound) {
      text += "release: " + released.error().Message() + "; ";
    }
  }
  if (core.mounts->HasLeftAnchors()) {
    core.mounts->ReleaseLeftAnchors();
  }
  const std::string left = StateOf(core);
  return text + (left == "plugin nfs\n" ? "" : left);
}

}  // namespace mountd::testing
