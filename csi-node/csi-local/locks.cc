// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/locks.h"

#include <utility>

namespace mountd::csi_local {

Result<std::unique_ptr<Locks::Held>> Locks::Take(
    const std::vector<std::string>& keys) {
  std::set<std::string> wanted(keys.begin(), keys.end());
  const std::lock_guard guard(mutex_);
  for (const std::string& key : wanted) {
    if (held_.count(key) != 0) {
      // ABORTED, as an operation is pending for the volume (CSI spec, "Error
      // Scheme").
      return MakeError(Code::kAborted, "lock", key,
                       "another operation is pending for it; call again later");
    }
  }
  held_.insert(wanted.begin(), wanted.end());
  return std::make_unique<Held>(this, std::move(wanted));
}

Locks::Held::~Held() {
  const std::lock_guard guard(locks_->mutex_);
  for (const std::string& key : keys_) {
    locks_->held_.erase(key);
  }
}

}  // namespace mountd::csi_local
