// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mountd/config/config.h"

namespace mountd {

// Owns the configuration in force. Rules, host volumes and file systems can
// change while mountd runs. Each decision uses the configuration that was in
// force when the decision began. All other sections stay as they were at the
// start, because many parts of mountd were built from them.
//
// Thread-safe.
class LiveConfig {
 public:
  explicit LiveConfig(Config config);

  // Returns the whole configuration, which never changes while the caller holds
  // it.
  std::shared_ptr<const Config> Get() const;

  // The sections that stay for the life of the process.
  const LimitsConfig& limits() const { return first_->limits; }
  const TimeoutsConfig& timeouts() const { return first_->timeouts; }
  const std::map<std::string, PluginConfig>& plugins() const {
    return first_->plugins;
  }
  const std::map<std::string, NetworkConfig>& networks() const {
    return first_->networks;
  }
  const CniConfig& cni() const { return first_->cni; }

  // Returns the names of sections that differ in `next` and need a new process.
  std::vector<std::string> SectionsThatNeedRestart(const Config& next) const;
  // Takes over the rules, host volumes and file systems of `next`.
  void ReplaceLive(Config next);

 private:
  const std::shared_ptr<const Config> first_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Config> now_;  // mutex_
};

}  // namespace mountd
