// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The anchors of the sources of Mounts.
#include <string>

#include "mountd/mounts/mounts.h"
#include "mountd/plan/wire.h"

namespace mountd {

KeyedLocks::Guard Mounts::LockSource(const AnchorKey& key) {
  return sources_.Lock(std::string(SourceKindName(key.kind)) + " " +
                       key.source);
}

// Records the source's current anchor. Does nothing if the kernel reports none,
// because an earlier anchor may still exist. The release of the last mount
// checks that.
Result<void> Mounts::PutAnchorOf(const MountRecord& record,
                                 std::uint64_t anchor_id) {
  const std::optional<AnchorKey> anchor = AnchorOf(record);
  return anchor && anchor_id != 0 ? store_.anchors.PutAnchor(*anchor, anchor_id)
                                  : Ok();
}

// Releases the anchor if nothing uses it. The caller holds the source's lock.
// If the release fails, the anchor stays recorded for a later try.
void Mounts::ReleaseAnchorIfUnused(const AnchorKey& key) {
  if (!ReleaseAnchorUnlessUsed(key)) {
    has_left_anchors_ = true;
  }
}

Result<void> Mounts::ReleaseAnchorUnlessUsed(const AnchorKey& key) {
  MOUNTD_ASSIGN(const std::optional<std::uint64_t> anchor_id,
                store_.anchors.GetAnchor(key));
  if (!anchor_id) {
    return Ok();
  }
  MOUNTD_ASSIGN(const bool is_used, store_.mounts.HasMountsOf(key));
  if (is_used) {
    return Ok();
  }
  // A later try releases the anchor, because a start must not wait for that,
  // and because a mount of unknown source may use the anchor.
  if (recovering_ || has_found_) {
    return MakeError(Code::kBusy, "release", "anchor",
                     "is still in use; mountd releases it later");
  }
  MOUNTD_TRY(executor_.ReleaseAnchor(
      {key.kind, exec::ToWire(key.source), *anchor_id}));
  return store_.anchors.RemoveAnchor(key);
}

void Mounts::ReleaseLeftAnchors() {
  has_left_anchors_ = false;
  const auto anchors = store_.anchors.ListAnchors();
  if (!CountFound() || !anchors) {
    has_left_anchors_ = true;
    return;
  }
  for (const auto& [key, anchor_id] : *anchors) {
    const KeyedLocks::Guard guard = LockSource(key);
    ReleaseAnchorIfUnused(key);
  }
}

}  // namespace mountd
