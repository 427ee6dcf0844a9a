// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/types.h"

// The calls of a soak, as a function of its seed alone, and what should exist
// after them. Never talks to a node.
namespace mountd::testing {

struct SoakMount {
  agent::SourceType type = agent::SourceType::kHostVolume;
  std::string source;  // a host volume, or an alias; "" for a tmpfs
  bool read_only = false;
  agent::Propagation propagation = agent::Propagation::kPrivate;
  friend bool operator==(const SoakMount&, const SoakMount&) = default;
};

struct SoakNetwork {
  std::string mode = "bridge";
  std::string network;
  std::vector<std::uint16_t> ports;  // on the host, for TCP
};

struct SoakAllocation {
  std::map<std::string, std::string> volumes;  // by alias
  std::map<std::pair<std::string, std::string>, SoakMount>
      mounts;                                   // task, name
  std::map<std::string, SoakNetwork> networks;  // by interface
  std::set<std::string> inboxes;                // tasks
};

// Allocations by id.
using SoakModel = std::map<std::string, SoakAllocation>;

enum class SoakKind {
  kPrepare,
  kRelease,
  kPublish,
  kUnpublish,
  kBind,
  kReplace,
  kUnmount,
  kPrepareInbox,
  kRemoveInbox,
  kSetup,
  kTeardown,
};

// One call, and the outcome that it must have.
struct SoakOperation {
  SoakKind kind = SoakKind::kPrepare;
  std::string allocation;
  std::string task;  // or an alias, or an interface
  std::string name;  // or a volume
  SoakMount mount;
  SoakNetwork network;
  std::string outcome = "Ok";
};

// Returns the operation as text.
std::string TextOf(const SoakOperation& operation);

// The trouble while a round is under way.
enum class SoakTrouble {
  kNone,
  kKillMountd,
  kKillExecutors,
  kKillCsi,
  kRestartPlugin,
  kPluginFails,    // in one call, before or after its effect
  kStopExecutors,  // SIGSTOP, and SIGCONT a little later
  kClientDies,     // during its call
  kCancel,         // the agent gives up waiting
};
const char* NameOf(SoakTrouble trouble);

// Calls for different allocations, made at the same time.
struct SoakRound {
  std::vector<SoakOperation> operations;
  SoakTrouble trouble = SoakTrouble::kNone;
  int after_us = 0;  // after the round's start
};

// Makes the rounds of a seed, one after the other. The same seed and the same
// calls of its methods give the same rounds on every machine.
class SoakScript {
 public:
  explicit SoakScript(std::uint32_t seed) : engine_(seed) {}

  // With `stormy`, processes of mountd are killed, too.
  SoakRound Next(bool stormy);
  // Returns rounds that end all allocations.
  std::vector<SoakRound> ReleaseAll();
  // Returns the state after all rounds so far.
  const SoakModel& model() const { return model_; }

 private:
  int Below(int end);
  bool Percent(int percent) { return Below(100) < percent; }
  template <typename Container>
  const typename Container::value_type& AnyOf(const Container& all);

  SoakOperation Any(const std::string& id);
  SoakOperation AnyOfPrepared(const std::string& id,
                              const SoakAllocation& allocation);
  SoakOperation Wrong(const std::string& id, const SoakAllocation& allocation);
  SoakOperation Bind(const std::string& id, const SoakAllocation& allocation);
  SoakOperation SetUpNetwork(const std::string& id,
                             const SoakAllocation& allocation);
  SoakMount AnyMount(const SoakAllocation& allocation);
  SoakTrouble AnyTrouble(bool stormy, std::size_t operations);
  void Apply(const SoakOperation& operation);

  std::mt19937 engine_;
  SoakModel model_;
};

}  // namespace mountd::testing
