// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/volume_prober.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace mountd {

void VolumeProber::Start() {
  const auto spread = static_cast<std::uint64_t>(pause_.count() / 2 + 1);
  const auto extra = static_cast<std::int64_t>(random_() % spread);
  parts_.loop.After(pause_ - pause_ / 4 + std::chrono::milliseconds(extra),
                    [this] { Round(); });
}

void VolumeProber::Round() {
  parts_.strands.Submit("volumes that report conditions", [this] {
    auto volumes =
        std::make_shared<const Result<std::vector<csi::ReportingVolume>>>(
            parts_.volumes.ListReporting());
    parts_.loop.Post([this, volumes] {
      if (*volumes) {
        Fill(**volumes);
      }
      Start();
    });
  });
}

// Adds no volumes to lanes that still work on an earlier round.
void VolumeProber::Fill(const std::vector<csi::ReportingVolume>& volumes) {
  std::map<Lane, std::vector<VolumeKey>> idle;
  std::set<VolumeKey> there;
  for (const csi::ReportingVolume& volume : volumes) {
    there.insert(volume.key);
    const Lane lane{volume.uid, volume.plugin};
    if (!lanes_.contains(lane)) {
      idle[lane].push_back(volume.key);
    }
  }
  std::erase_if(asked_,
                [&](const auto& one) { return !there.contains(one.first); });
  for (auto& [lane, keys] : idle) {
    std::stable_sort(
        keys.begin(), keys.end(),
        [&](const auto& a, const auto& b) { return asked_[a] < asked_[b]; });
    waiting_.emplace(turns_.Add(lane.first), lane);
    lanes_.emplace(lane, std::move(keys));
  }
  BeginLanes();
}

void VolumeProber::BeginLanes() {
  const auto may = [this](UserTurns::Ticket /*ticket*/, std::uint32_t user) {
    return under_way_[user] < kLanesOfUser;
  };
  while (all_under_way_ < kLanesAtOnce) {
    const std::optional<UserTurns::Ticket> next = turns_.Next(may);
    if (!next) {
      break;
    }
    ++under_way_[turns_.Begin(*next)];
    ++all_under_way_;
    Begin(waiting_.extract(*next).mapped());
  }
  std::erase_if(under_way_, [](const auto& one) { return one.second == 0; });
  if (all_under_way_ == 0) {
    turns_.Reset();
  }
}

void VolumeProber::Begin(const Lane& lane) {
  const std::string strand =
      "conditions of " + lane.second + " for uid " + std::to_string(lane.first);
  parts_.strands.Submit(strand, [this, lane, keys = lanes_.at(lane)] {
    auto asked = std::make_shared<const std::vector<VolumeKey>>(Ask(keys));
    parts_.loop.Post([this, lane, asked] { End(lane, *asked); });
  });
}

void VolumeProber::End(const Lane& lane, const std::vector<VolumeKey>& asked) {
  for (const VolumeKey& key : asked) {
    asked_[key] = ++questions_;
  }
  lanes_.erase(lane);
  --under_way_[lane.first];
  --all_under_way_;
  BeginLanes();
}

std::vector<VolumeKey> VolumeProber::Ask(
    const std::vector<VolumeKey>& volumes) const {
  const auto end = std::chrono::steady_clock::now() + pause_;
  std::vector<VolumeKey> asked;
  for (const VolumeKey& key : volumes) {
    asked.push_back(key);
    if (!parts_.volumes.AskCondition(key) ||
        std::chrono::steady_clock::now() >= end) {
      break;
    }
  }
  return asked;
}

}  // namespace mountd
