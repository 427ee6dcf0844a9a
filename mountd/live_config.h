// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mountd/config.h"

namespace mountd {

// The configuration in force. Who may do what (rules), and what may be mounted
// (host volumes, file systems) can change under a running mountd: each decision
// is made by one configuration, the one there was when it began. All other
// sections are for the life of the process: what has been made by them is known
// to too many parts.
//
// Thread-safe.
class LiveConfig {
 public:
  explicit LiveConfig(Config config);

  // Whole, and unchanging as long as it is held.
  std::shared_ptr<const Config> Get() const;

  // Those for the life of the process.
  const LimitsConfig& limits() const { return first_->limits; }
  const TimeoutsConfig& timeouts() const { return first_->timeouts; }
  const std::map<std::string, PluginConfig>& plugins() const {
    return first_->plugins;
  }
  const std::map<std::string, NetworkConfig>& networks() const {
    return first_->networks;
  }
  const CniConfig& cni() const { return first_->cni; }

  // The sections, by their names in the file, that are other in `next` and
  // need another process.
  std::vector<std::string> FixedOtherIn(const Config& next) const;
  // With the rules, host volumes and file systems of `next`.
  void ReplaceLive(Config next);

 private:
  const std::shared_ptr<const Config> first_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Config> now_;  // mutex_
};

}  // namespace mountd
