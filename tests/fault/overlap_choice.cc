// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/overlap_choice.h"

#include <algorithm>
#include <array>

#include "tests/fault/operations.h"

namespace mountd::testing {
namespace {

constexpr std::size_t kCuts = 4;  // of one choice

// Returns the three operations that end an allocation; in each shard another
// one comes first.
std::vector<std::size_t> Ends(std::uint32_t first) {
  std::vector<std::size_t> ends = {IndexOf("Reconcile"),
                                   IndexOf("ReleaseAllocation"),
                                   IndexOf("UnpublishVolume")};
  std::rotate(ends.begin(), ends.begin() + static_cast<int>(first % 3),
              ends.end());
  return ends;
}

}  // namespace

const char* NameOf(Sharing sharing) {
  static constexpr std::array<const char*, kSharings> kNames = {
      "allocation", "volume", "node"};
  return kNames.at(static_cast<std::size_t>(sharing));
}

const char* NameOf(Then then) {
  static constexpr std::array<const char*, kThens> kNames = {
      "goes-on", "fails", "killed-before", "killed-after", "agent-dies"};
  return kNames.at(static_cast<std::size_t>(then));
}

Overlap ChooseOverlap(std::uint32_t seed, std::uint32_t shard,
                      std::uint32_t n) {
  // The test does not use distributions, because they differ between libraries.
  // The generator does not differ.
  std::seed_seq sequence = {seed, shard, n};
  std::mt19937 generator(sequence);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  const std::size_t start = IndexOf("Start");
  const auto any = [&] { return random() % OverlappingOperations(); };
  Overlap overlap;
  overlap.operations = {any(), any()};
  overlap.sharing = static_cast<Sharing>(random() % kSharings);
  while (overlap.operations[1] == start) {
    // Start kills the processes before it is called.
    overlap.operations[1] = any();
  }
  for (std::size_t i = 0; i < kCuts; ++i) {
    Cut cut;
    cut.process = random();
    cut.where = random();
    cut.then = static_cast<Then>(random() % kThens);
    cut.error = random();
    overlap.cuts.push_back(cut);
  }
  // One cut always goes on, because such a run excuses no wrong answer.
  overlap.cuts.front().then = Then::kGoesOn;
  if (n == 0) {
    overlap.operations = Ends(shard);
    overlap.sharing = Sharing::kAllocation;
  }
  return overlap;
}

}  // namespace mountd::testing
