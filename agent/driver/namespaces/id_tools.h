// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include "agent/driver/namespaces/deadline.h"
#include "agent/driver/namespaces/id_maps.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// Gives the process's new user namespace the maps: by newuidmap(1) and
// newgidmap(1), or by this process itself if the maps have the user's own ids
// alone. A map of one id denies setgroups(2), because the kernel otherwise
// refuses such a map from an ordinary user. Reads each map back and compares
// it, because a tool's success alone proves nothing. PermissionDenied with the
// tool's own words if the tool refuses. DeadlineExceeded if the tool hangs, for
// example because its user database does not answer.
Result<void> GiveIdMaps(pid_t process, const IdMaps& maps,
                        const IdSources& sources, const Deadline& deadline);

}  // namespace mountd::driver
