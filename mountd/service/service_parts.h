// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "csi-node/node/controller.h"
#include "csi-node/node/plugins.h"
#include "csi-node/node/volumes.h"
#include "mountd/base/user_groups.h"
#include "mountd/config/live_config.h"
#include "mountd/mounts/mount_healths.h"
#include "mountd/mounts/mount_room.h"
#include "mountd/mounts/mounts.h"
#include "mountd/networks/networks.h"
#include "mountd/plan/executor.h"
#include "mountd/service/leases.h"
#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"

namespace mountd {

// The parts that the verbs use. The daemon owns them, and they outlive
// Services.
struct ServiceParts {
  const LiveConfig& config;
  exec::Executor& executor;
  store::StateStore& state;
  store::BootStore& boot;
  Mounts& mounts;
  Networks& networks;
  csi::Plugins& plugins;
  csi::Volumes& volumes;
  csi::Controller& controller;
  const MountRoom& room;
  const MountHealths& healths;
  // Called from any thread when there may be more pending tear-downs than
  // before.
  std::function<void()> on_owed = [] {};
  // Stores that this start set aside.
  std::vector<std::string> stores_set_aside{};
  // Called by NodeVerbs::Reload on a worker, one call at a time.
  std::function<Result<std::vector<std::string>>()> reload = [] {
    return std::vector<std::string>{};
  };
  // Called from any thread when leases were acquired or released.
  std::function<void()> on_leases = [] {};
  // Called from any thread when these allocations may be used again, because a
  // lease of theirs was acquired.
  std::function<void(const std::vector<std::string>& allocations)> on_usable =
      [](const auto&) {};
  LeaseClocks lease_clocks{};
  UserDatabase user_database{};
};

}  // namespace mountd
