// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/soak/soak_model.h"

#include <algorithm>
#include <iterator>

namespace mountd::testing {
namespace {

constexpr int kModelAllocations = 8;
constexpr int kMostMounts = 6;
constexpr int kPortsOfEach = 8;
constexpr int kFirstPort = 20'000;

const char* NameOf(SoakKind kind) {
  switch (kind) {
    case SoakKind::kPrepare:
      return "PrepareAllocation";
    case SoakKind::kRelease:
      return "ReleaseAllocation";
    case SoakKind::kPublish:
      return "PublishVolume";
    case SoakKind::kUnpublish:
      return "UnpublishVolume";
    case SoakKind::kBind:
      return "BindMount";
    case SoakKind::kReplace:
      return "ReplaceMount";
    case SoakKind::kUnmount:
      return "Unmount";
    case SoakKind::kPrepareInbox:
      return "PrepareInbox";
    case SoakKind::kRemoveInbox:
      return "RemoveInbox";
    case SoakKind::kSetup:
      return "SetupNetwork";
    case SoakKind::kTeardown:
      break;
  }
  return "TeardownNetwork";
}

bool IsBound(const SoakAllocation& allocation, const std::string& alias) {
  return std::any_of(allocation.mounts.begin(), allocation.mounts.end(),
                     [&](const auto& mount) {
                       return mount.second.type == agent::SourceType::kVolume &&
                              mount.second.source == alias;
                     });
}

bool HasMounts(const SoakAllocation& allocation, const std::string& task) {
  return std::any_of(
      allocation.mounts.begin(), allocation.mounts.end(),
      [&](const auto& mount) { return mount.first.first == task; });
}

SoakOperation Of(SoakKind kind, const std::string& id, std::string task = {},
                 std::string name = {}) {
  SoakOperation operation;
  operation.kind = kind;
  operation.allocation = id;
  operation.task = std::move(task);
  operation.name = std::move(name);
  return operation;
}

SoakOperation Ending(SoakOperation operation, std::string outcome) {
  operation.outcome = std::move(outcome);
  return operation;
}

}  // namespace

const char* NameOf(SoakTrouble trouble) {
  switch (trouble) {
    case SoakTrouble::kNone:
      return "";
    case SoakTrouble::kKillMountd:
      return "mountd is killed";
    case SoakTrouble::kKillExecutors:
      return "the executors are killed";
    case SoakTrouble::kKillCsi:
      return "mountd-csi is killed";
    case SoakTrouble::kRestartPlugin:
      return "the plugin is killed";
    case SoakTrouble::kPluginFails:
      return "a call of the plugin fails";
    case SoakTrouble::kStopExecutors:
      return "the executors stand still";
    case SoakTrouble::kClientDies:
      return "its client is killed";
    case SoakTrouble::kCancel:
      break;
  }
  return "its client gives up";
}

std::string TextOf(const SoakOperation& operation) {
  std::string text = std::string(NameOf(operation.kind)) + " " +
                     operation.allocation + " " + operation.task + " " +
                     operation.name;
  if (operation.kind == SoakKind::kBind ||
      operation.kind == SoakKind::kReplace) {
    text += " " + std::string(agent::SourceTypeName(operation.mount.type)) +
            ":" + operation.mount.source +
            (operation.mount.read_only ? " ro" : " rw") + " propagation " +
            std::to_string(static_cast<int>(operation.mount.propagation));
  }
  if (operation.kind == SoakKind::kSetup) {
    text += " " + operation.network.mode + " " + operation.network.network;
    for (const std::uint16_t port : operation.network.ports) {
      text += " " + std::to_string(port);
    }
  }
  return text + " -> " + operation.outcome;
}

// std::uniform_int_distribution differs between libraries, so it is not used.
int SoakScript::Below(int end) {
  return static_cast<int>(engine_() % static_cast<std::uint32_t>(end));
}

template <typename Container>
const typename Container::value_type& SoakScript::AnyOf(const Container& all) {
  return *std::next(all.begin(), Below(static_cast<int>(all.size())));
}

SoakRound SoakScript::Next(bool stormy) {
  SoakRound round;
  std::set<std::string> ids;
  for (int i = Percent(50) ? 1 : 1 + Below(4); i > 0; --i) {
    const std::string id = "a" + std::to_string(Below(kModelAllocations));
    if (ids.insert(id).second) {
      round.operations.push_back(Any(id));
      Apply(round.operations.back());
    }
  }
  round.trouble = AnyTrouble(stormy, round.operations.size());
  // Most calls take from half a millisecond to ten.
  round.after_us = Percent(70) ? Below(1500) : Below(12'000);
  return round;
}

std::vector<SoakRound> SoakScript::ReleaseAll() {
  std::vector<SoakRound> rounds;
  while (!model_.empty()) {
    SoakRound round;
    round.operations.push_back(Of(SoakKind::kRelease, model_.begin()->first));
    Apply(round.operations.back());
    rounds.push_back(std::move(round));
  }
  return rounds;
}

SoakTrouble SoakScript::AnyTrouble(bool stormy, std::size_t operations) {
  constexpr SoakTrouble kKills[] = {
      SoakTrouble::kKillMountd, SoakTrouble::kKillMountd,
      SoakTrouble::kKillExecutors, SoakTrouble::kKillExecutors,
      SoakTrouble::kKillCsi};
  constexpr SoakTrouble kOthers[] = {SoakTrouble::kPluginFails,
                                     SoakTrouble::kStopExecutors,
                                     SoakTrouble::kRestartPlugin};
  constexpr SoakTrouble kOfOneCall[] = {SoakTrouble::kClientDies,
                                        SoakTrouble::kCancel};
  const int which = Below(100);
  if (stormy && which < 12) {
    return kKills[Below(std::size(kKills))];
  }
  if (which >= 90) {
    return kOthers[Below(std::size(kOthers))];
  }
  return which >= 80 && operations == 1
             ? kOfOneCall[Below(std::size(kOfOneCall))]
             : SoakTrouble::kNone;
}

SoakOperation SoakScript::Any(const std::string& id) {
  const auto found = model_.find(id);
  if (found != model_.end()) {
    return AnyOfPrepared(id, found->second);
  }
  if (Percent(85)) {
    return Of(SoakKind::kPrepare, id);
  }
  SoakOperation bind = Of(SoakKind::kBind, id, "app", "m0");
  bind.mount.source = "own";
  return Ending(std::move(bind), "NotFound");
}

SoakOperation SoakScript::AnyOfPrepared(const std::string& id,
                                        const SoakAllocation& allocation) {
  for (;;) {
    const int what = Below(100);
    if (what < 30 && allocation.mounts.size() < kMostMounts) {
      return Bind(id, allocation);
    }
    if (what < 38 && !allocation.mounts.empty()) {
      const auto& [key, old] = AnyOf(allocation.mounts);
      SoakOperation replace = Of(SoakKind::kReplace, id, key.first, key.second);
      replace.mount = AnyMount(allocation);
      if (replace.mount.type == agent::SourceType::kTmpfs) {
        // A replacement tmpfs would begin empty.
        replace.outcome = "NotSupported";
      }
      return replace;
    }
    if (what < 52 && !allocation.mounts.empty()) {
      const auto& key = AnyOf(allocation.mounts).first;
      return Of(SoakKind::kUnmount, id, key.first, key.second);
    }
    if (what < 64 && allocation.volumes.size() < 2) {
      const std::string alias =
          allocation.volumes.contains("data") ? "more" : "data";
      // Some volumes belong to one allocation, some to several.
      return Of(SoakKind::kPublish, id, alias,
                Percent(50) ? "v-" + id + "-" + alias
                            : "shared-" + alias + std::to_string(Below(2)));
    }
    if (what < 71 && !allocation.volumes.empty()) {
      const std::string alias = AnyOf(allocation.volumes).first;
      return Ending(Of(SoakKind::kUnpublish, id, alias),
                    IsBound(allocation, alias) ? "Busy" : "Ok");
    }
    if (what < 80 && allocation.networks.size() < 2) {
      return SetUpNetwork(id, allocation);
    }
    if (what < 85 && !allocation.networks.empty()) {
      return Of(SoakKind::kTeardown, id, AnyOf(allocation.networks).first);
    }
    if (what < 88) {
      return Of(SoakKind::kPrepareInbox, id, Percent(50) ? "app" : "side");
    }
    if (what < 90 && !allocation.inboxes.empty()) {
      const std::string task = AnyOf(allocation.inboxes);
      return Ending(Of(SoakKind::kRemoveInbox, id, task),
                    HasMounts(allocation, task) ? "Busy" : "Ok");
    }
    if (what < 94) {
      return Wrong(id, allocation);
    }
    if (what >= 94) {
      return Of(Percent(40) ? SoakKind::kPrepare : SoakKind::kRelease, id);
    }
  }
}

SoakMount SoakScript::AnyMount(const SoakAllocation& allocation) {
  SoakMount mount;
  const int what = Below(10);
  if (what == 0) {
    mount.type = agent::SourceType::kTmpfs;
    return mount;
  }
  if (what < 5 && !allocation.volumes.empty()) {
    mount.type = agent::SourceType::kVolume;
    mount.source = AnyOf(allocation.volumes).first;
  } else {
    mount.source = Percent(50) ? "own" : "plain";
  }
  mount.read_only = Percent(30);
  constexpr agent::Propagation kPropagations[] = {
      agent::Propagation::kPrivate, agent::Propagation::kHostToTask,
      agent::Propagation::kBidirectional};
  mount.propagation = kPropagations[Below(mount.read_only ? 1 : 3)];
  return mount;
}

SoakOperation SoakScript::Bind(const std::string& id,
                               const SoakAllocation& allocation) {
  SoakOperation bind = Of(SoakKind::kBind, id, Percent(60) ? "app" : "side",
                          "m" + std::to_string(Below(4)));
  bind.mount = AnyMount(allocation);
  const auto there = allocation.mounts.find({bind.task, bind.name});
  if (there != allocation.mounts.end() && there->second != bind.mount) {
    bind.outcome = "AlreadyExists";
  }
  return bind;
}

SoakOperation SoakScript::SetUpNetwork(const std::string& id,
                                       const SoakAllocation& allocation) {
  const bool first = !allocation.networks.contains("eth0");
  SoakOperation setup = Of(SoakKind::kSetup, id, first ? "eth0" : "eth1");
  setup.network.network = first ? "default" : "second";
  const int own = kFirstPort + std::stoi(id.substr(1)) * 2 * kPortsOfEach +
                  (first ? 0 : kPortsOfEach);
  for (int i = Below(5); i > 0; --i) {
    setup.network.ports.push_back(static_cast<std::uint16_t>(own + i));
  }
  return setup;
}

// Returns a call that no agent should make, and that must do no harm.
SoakOperation SoakScript::Wrong(const std::string& id,
                                const SoakAllocation& allocation) {
  SoakOperation bind = Of(SoakKind::kBind, id, "app", "wrong");
  bind.mount.source = "own";
  switch (Below(6)) {
    case 0:
      bind.mount.source = "undeclared";
      return Ending(std::move(bind), "NotFound");
    case 1:
      bind.name = "../../escape";
      return Ending(std::move(bind), "InvalidArgument");
    case 2:
      bind.mount.read_only = true;
      bind.mount.propagation = agent::Propagation::kBidirectional;
      return Ending(std::move(bind), "FailedPrecondition");
    case 3:
      bind.mount.type = agent::SourceType::kVolume;
      bind.mount.source = "unpublished";
      return Ending(std::move(bind), "NotFound");
    case 4: {
      SoakOperation setup = Of(SoakKind::kSetup, id, "eth9");
      setup.network.network = "undeclared";
      return Ending(std::move(setup), "NotFound");
    }
    default:
      break;
  }
  // Unmounting a mount that is not there succeeds.
  return allocation.mounts.contains({"app", "none"})
             ? Of(SoakKind::kPrepare, id)
             : Of(SoakKind::kUnmount, id, "app", "none");
}

void SoakScript::Apply(const SoakOperation& operation) {
  if (operation.outcome != "Ok") {
    return;
  }
  const std::string& id = operation.allocation;
  switch (operation.kind) {
    case SoakKind::kPrepare:
      model_.try_emplace(id);
      return;
    case SoakKind::kRelease:
      model_.erase(id);
      return;
    case SoakKind::kPublish:
      model_[id].volumes[operation.task] = operation.name;
      return;
    case SoakKind::kUnpublish:
      model_[id].volumes.erase(operation.task);
      return;
    case SoakKind::kBind:
    case SoakKind::kReplace:
      model_[id].mounts[{operation.task, operation.name}] = operation.mount;
      return;
    case SoakKind::kUnmount:
      model_[id].mounts.erase({operation.task, operation.name});
      return;
    case SoakKind::kPrepareInbox:
      model_[id].inboxes.insert(operation.task);
      return;
    case SoakKind::kRemoveInbox:
      model_[id].inboxes.erase(operation.task);
      return;
    case SoakKind::kSetup:
      model_[id].networks[operation.task] = operation.network;
      return;
    case SoakKind::kTeardown:
      model_[id].networks.erase(operation.task);
      return;
  }
}

}  // namespace mountd::testing
