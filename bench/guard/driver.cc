// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-guard PROGRAMS OUT ROUNDS: makes each operation ROUNDS times,
// and leaves the counts of the wrappers of the daemons in PROGRAMS in OUT: a
// section for the start, some without a call, and one for each call; "sections"
// has the sections' names. Runs as root in a mount, network and pid namespace
// of its own (bench/guard/run).
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/client.h"
#include "bench/guard/daemons.h"
#include "bench/mountd_network.h"
#include "bench/raw_netlink.h"
#include "bench/world.h"
#include "mountd/base/number.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// Waits so long after each call that all of its work is done before the next
// call: mountd makes namespaces ahead 4 ms after an answer, and reads the
// kernel's reports on mounts and rules 50 ms after that.
constexpr milliseconds kAfterCall(100);
constexpr int kWarmUp = 3;
constexpr int kIdle =
    5;  // sections without a call: what a section itself takes
// mountd closes executors that only the start needed within two of its rounds.
constexpr milliseconds kAfterWarmUp(4500);

class Calls {
 public:
  Calls(agent::Client& client, LinkWatch& links)
      : client_(client), links_(links) {}

  Result<void> Prepare(int rounds) {
    MOUNTD_TRY(client_.PrepareAllocation("bench"));
    for (int i = 0; i < rounds; ++i) {
      MOUNTD_TRY(client_.PrepareAllocation(Allocation(i)));
    }
    return Ok();
  }

  Result<void> BindMount(int i) {
    MOUNTD_TRY(client_.BindMount(
        "bench", {.task = "task",
                  .name = Name(i),
                  .source_type = agent::SourceType::kHostVolume,
                  .source = "volume",
                  .read_only = true,
                  .propagation = agent::Propagation::kHostToTask}));
    return Ok();
  }

  Result<void> Unmount(int i) {
    return client_.Unmount("bench", "task", Name(i));
  }

  Result<void> SetupNetwork(int i) {
    const auto port = static_cast<std::uint16_t>(20'000 + i);
    MOUNTD_ASSIGN(const agent::NetworkStatus made,
                  client_.SetupNetwork(Allocation(i), SpecWith({port})));
    interfaces_.push_back(made.host_interface);
    return Ok();
  }

  Result<void> TeardownNetwork(int i) {
    links_.Forget();
    MOUNTD_TRY(client_.TeardownNetwork(Allocation(i)));
    const std::string gone = interfaces_.front();
    interfaces_.erase(interfaces_.begin());
    return links_.AwaitGone({gone});
  }

 private:
  static std::string Name(int i) { return "mount" + std::to_string(i); }
  static std::string Allocation(int i) { return "network" + std::to_string(i); }

  agent::Client& client_;
  LinkWatch& links_;
  std::vector<std::string> interfaces_;  // in the order they were made
};

struct Operation {
  const char* name;
  Result<void> (Calls::*call)(int);
};
constexpr std::array<Operation, 4> kOperations = {{
    {"BindMount", &Calls::BindMount},
    {"Unmount", &Calls::Unmount},
    {"SetupNetwork", &Calls::SetupNetwork},
    {"TeardownNetwork", &Calls::TeardownNetwork},
}};

// Writes the sections' names in order, for the reader of the counts.
Result<void> EndSection(const char* name) {
  MOUNTD_TRY(Mark());
  std::ofstream(std::string(kCounts) + "/sections", std::ios::app)
      << name << "\n";
  return Ok();
}

Result<void> MakeCalls(Calls& calls, int rounds, bool counted) {
  for (const Operation& operation : kOperations) {
    for (int i = 0; i < rounds; ++i) {
      MOUNTD_TRY((calls.*operation.call)(i));
      MOUNTD_TRY(AwaitQuiet(kAfterCall));
      if (counted) {
        MOUNTD_TRY(EndSection(operation.name));
      }
    }
  }
  return Ok();
}

Result<void> Count(agent::Client& client, int rounds) {
  MOUNTD_ASSIGN(LinkWatch links, LinkWatch::Open());
  Calls calls(client, links);
  MOUNTD_TRY(calls.Prepare(rounds));
  MOUNTD_TRY(MakeCalls(calls, kWarmUp, false));
  std::this_thread::sleep_for(kAfterWarmUp);
  MOUNTD_TRY(AwaitQuiet(kAfterCall));
  MOUNTD_TRY(EndSection("start"));
  const auto before = CountedDaemons();
  for (int i = 0; i < kIdle; ++i) {
    MOUNTD_TRY(AwaitQuiet(kAfterCall));
    MOUNTD_TRY(EndSection("idle"));
  }
  MOUNTD_TRY(MakeCalls(calls, rounds, true));
  if (CountedDaemons() != before) {
    return MakeError(Code::kUnavailable, "count", "daemons",
                     "one of them started or ended meanwhile");
  }
  return Ok();
}

Result<void> Run(const std::string& programs, const std::string& out,
                 int rounds) {
  MOUNTD_ASSIGN(const auto world, World::Make(programs));
  MOUNTD_TRY(MakeCounts());
  Result<void> counted = [&]() -> Result<void> {
    MOUNTD_ASSIGN(agent::Client client, world->Connect());
    return Count(client, rounds);
  }();
  if (!counted) {
    std::fputs(world->Log().c_str(), stderr);
    return counted;
  }
  std::error_code error;
  fs::copy(kCounts, out, error);
  return error ? ErrnoError(error.value(), "copy", out) : Ok();
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  const std::optional<int> rounds =
      argc == 4 ? mountd::ParseNumber<int>(argv[3]) : std::nullopt;
  if (!rounds || *rounds < 1) {
    std::fputs("usage: mountd-bench-guard PROGRAMS OUT ROUNDS\n", stderr);
    return 2;
  }
  const auto ran = mountd::bench::Run(argv[1], argv[2], *rounds);
  if (!ran) {
    std::fprintf(stderr, "mountd-bench-guard: %s\n",
                 ran.error().Message().c_str());
    return 1;
  }
  return 0;
}
