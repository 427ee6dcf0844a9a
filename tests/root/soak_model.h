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

// What a soak does, as a function of a seed alone, and what should be there
// after it. Nothing here knows of a node.
namespace mountd::testing {

struct SoakMount {
  agent::SourceType type = agent::SourceType::kHostVolume;
  std::string source;  // a host volume, or an alias; "" of a tmpfs
  bool read_only = false;
  agent::Propagation propagation = agent::Propagation::kPrivate;
  friend bool operator==(const SoakMount&, const SoakMount&) = default;
};

struct SoakNetwork {
  std::string mode = "bridge";
  std::string network;
  std::vector<std::uint16_t> ports;  // of the host, for TCP
};

struct SoakAllocation {
  std::map<std::string, std::string> volumes;  // by alias
  std::map<std::pair<std::string, std::string>, SoakMount>
      mounts;                                   // task, name
  std::map<std::string, SoakNetwork> networks;  // by interface
  std::set<std::string> inboxes;                // tasks
};

// By the allocations' ids.
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

// One call, and how it has to end.
struct SoakOperation {
  SoakKind kind = SoakKind::kPrepare;
  std::string allocation;
  std::string task;  // or an alias, or an interface
  std::string name;  // or a volume
  SoakMount mount;
  SoakNetwork network;
  std::string outcome = "Ok";
};

// To be read, and compared.
std::string TextOf(const SoakOperation& operation);

// What happens while a round is under way.
enum class SoakTrouble {
  kNone,
  kKillMountd,
  kKillExecutors,
  kKillCsi,
  kRestartPlugin,
  kPluginFails,    // one call of it, after it has done it or before
  kStopExecutors,  // SIGSTOP, and SIGCONT a little later
  kClientDies,     // in the middle of its call
  kCancel,         // the agent gives up waiting
};
const char* NameOf(SoakTrouble trouble);

// Calls for different allocations, made at the same time.
struct SoakRound {
  std::vector<SoakOperation> operations;
  SoakTrouble trouble = SoakTrouble::kNone;
  int after_us = 0;  // of its beginning
};

// The rounds of a seed, one after the other. The same seed and the same calls
// of its methods are the same rounds, on every machine.
class SoakScript {
 public:
  explicit SoakScript(std::uint32_t seed) : engine_(seed) {}

  // `stormy`: with processes of mountd's that are killed, too.
  SoakRound Next(bool stormy);
  // Ends all that is there.
  std::vector<SoakRound> ReleaseAll();
  // After all of the rounds so far.
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
