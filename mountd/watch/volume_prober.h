// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/user_turns.h"
#include "mountd/base/worker_pool.h"
#include "mountd/service/volume_verbs.h"

namespace mountd {

// Asks plugins from time to time for the conditions of their volumes (CSI:
// VOLUME_CONDITION). The length of each pause varies by up to a quarter, so
// that the nodes of a cluster do not all ask one storage system at the same
// moment.
//
// A lane is one user's volumes of one plugin. Each lane asks for one volume
// after the other, and begins with those that it asked for longest ago. A lane
// ends its round when a question gets no answer in time, or when the round has
// taken as long as a pause. Therefore a slow volume delays the other volumes of
// its lane by one round, and delays no other lane. A few lanes of one user run
// at once, and the users take turns, because each lane takes a worker.
//
// Runs on the loop's thread. The strands, the loop and the volumes outlive this
// object.
class VolumeProber {
 public:
  struct Parts {
    Loop& loop;
    Strands& strands;
    csi::Volumes& volumes;
  };

  static constexpr std::size_t kLanesOfUser = 4;
  static constexpr std::size_t kLanesAtOnce = 32;

  VolumeProber(const Parts& parts, std::chrono::milliseconds pause)
      : parts_(parts), pause_(pause) {}

  void Start();
  // True if no lane waits or is under way.
  bool idle() const { return lanes_.empty(); }

 private:
  using Lane = std::pair<std::uint32_t, std::string>;  // uid, plugin

  void Round();
  void Fill(const std::vector<csi::ReportingVolume>& volumes);
  void BeginLanes();
  void Begin(const Lane& lane);
  void End(const Lane& lane, const std::vector<VolumeKey>& asked);
  // Runs on a worker. Returns the volumes for which it asked.
  std::vector<VolumeKey> Ask(const std::vector<VolumeKey>& volumes) const;

  const Parts parts_;
  const std::chrono::milliseconds pause_;
  std::minstd_rand random_{std::random_device{}()};
  std::map<Lane, std::vector<VolumeKey>> lanes_;  // waiting or under way
  UserTurns turns_;
  std::map<UserTurns::Ticket, Lane> waiting_;
  std::map<std::uint32_t, std::size_t> under_way_;  // lanes, by user
  std::size_t all_under_way_ = 0;
  // The number of the volume's last question.
  std::map<VolumeKey, std::uint64_t> asked_;
  std::uint64_t questions_ = 0;
};

}  // namespace mountd
