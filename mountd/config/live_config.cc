// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/live_config.h"

#include <utility>

namespace mountd {

LiveConfig::LiveConfig(Config config)
    : first_(std::make_shared<const Config>(std::move(config))), now_(first_) {}

std::shared_ptr<const Config> LiveConfig::Get() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

std::vector<std::string> LiveConfig::SectionsThatNeedRestart(
    const Config& next) const {
  std::vector<std::string> names;
  const auto compare = [&](const char* name, auto section) {
    // Compare with the sections at the start, because those are in force.
    if (!((*first_).*section == next.*section)) {
      names.emplace_back(name);
    }
  };
  compare("plugin", &Config::plugins);
  compare("network", &Config::networks);
  compare("cni", &Config::cni);
  compare("firewall", &Config::firewall);
  compare("mounts", &Config::mounts);
  compare("limits", &Config::limits);
  compare("timeouts", &Config::timeouts);
  return names;
}

void LiveConfig::ReplaceLive(Config next) {
  Config mixed = *first_;
  mixed.rules = std::move(next.rules);
  mixed.host_volumes = std::move(next.host_volumes);
  mixed.filesystems = std::move(next.filesystems);
  auto whole = std::make_shared<const Config>(std::move(mixed));
  const std::lock_guard lock(mutex_);
  now_.swap(whole);
}

}  // namespace mountd
