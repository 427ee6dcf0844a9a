// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/driver_source.h"

namespace mountd::nomad {

Result<void> DriverSource::Configure(const Settings& settings) {
  const std::lock_guard lock(mutex_);
  if (node_ && settings != settings_) {
    return MakeError(Code::kFailedPrecondition, "config", "mountd",
                     "the driver works by other settings already; restart the "
                     "Nomad client");
  }
  settings_ = settings;
  return Ok();
}

Result<Node*> DriverSource::Get() {
  const std::lock_guard lock(mutex_);
  if (!node_) {
    MOUNTD_ASSIGN(node_, make_(settings_));
  }
  return &*node_;
}

Result<driver::TaskDriver*> DriverSource::Driver() {
  MOUNTD_ASSIGN(Node * node, Get());
  return node->driver.get();
}

Settings DriverSource::settings() {
  const std::lock_guard lock(mutex_);
  return settings_;
}

void DriverSource::Shutdown() {
  const std::lock_guard lock(mutex_);
  if (node_) {
    node_->driver->Shutdown();
  }
}

}  // namespace mountd::nomad
