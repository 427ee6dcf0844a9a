// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <vector>

#include "csi-node/csi-local/store.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// Returns bytes and inodes of the file system at `node`, or the size of the
// device there. For a directory these are those of its whole file system,
// because the directory may use all of it.
Result<std::vector<::csi::v1::VolumeUsage>> UsageOf(const VolumeRecord& record,
                                                    const UniqueFd& node);

}  // namespace mountd::csi_local
