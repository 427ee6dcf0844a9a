// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The steps down to the schemas of the last release, the newest first. Each
// step of kBootSchema and kStateSchema since that release needs one here.
#include <array>

#include "mountd/store/downgrade.h"

namespace mountd::store {
namespace {

constexpr std::array kBootSteps = {
    StepDown{12,
             "SELECT 'network ' || allocation || '/' || interface || ': that "
             "an agent took it over' FROM networks WHERE taken_over <> 0",
             "ALTER TABLE networks DROP COLUMN taken_over;"},
    StepDown{11,
             "SELECT 'allocation ' || allocation || ': that mount ' || "
             "mount_id || ' was handed out as a descriptor' FROM handed_out",
             "DROP TABLE handed_out;"},
    // The executors of 0.1.0 refuse a plan with an attribute that they do not
    // know. They know the lowest three (mountd/plan/attributes.h).
    StepDown{0,
             "SELECT 'mount ' || allocation || '/' || task || '/' || name || "
             "': that it is nosymfollow' FROM mounts WHERE attributes & 8 <> 0",
             "UPDATE mounts SET attributes = attributes & 7;"},
};

constexpr std::array kStateSteps = {
    StepDown{7,
             "SELECT 'volume ' || allocation || '/' || alias || ': which file "
             "system it is' FROM publications WHERE file_system <> '' "
             "UNION ALL SELECT 'volume ' || volumes.plugin || '/' || "
             "volumes.volume_id || ': which file system and cgroup ' || "
             "departed.allocation || ' had' FROM departed JOIN volumes "
             "USING (key) WHERE departed.file_system <> '' OR "
             "departed.cgroup <> 0",
             "ALTER TABLE publications DROP COLUMN file_system;"
             "ALTER TABLE departed DROP COLUMN file_system;"
             "ALTER TABLE departed DROP COLUMN cgroup;"},
};

}  // namespace

const std::string_view kLastRelease = "0.1.0";
const ReleasedSchema kReleasedBoot{10, kBootSteps};
const ReleasedSchema kReleasedState{6, kStateSteps};

}  // namespace mountd::store
