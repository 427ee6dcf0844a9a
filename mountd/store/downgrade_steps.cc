// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The steps down to the schemas of the last release, the newest first. Each
// step of kBootSchema and kStateSchema since that release needs one here.
#include <array>

#include "mountd/store/downgrade.h"

namespace mountd::store {
namespace {

constexpr std::array kBootSteps = {
    // After the downgrade the mountd of 0.1.0 sets the ports of the record,
    // which are those from before the update.
    StepDown{15,
             "SELECT 'network ' || allocation || '/' || interface || ': that "
             "an update of its ports is under way' FROM networks WHERE "
             "next_ports <> ''",
             "ALTER TABLE networks DROP COLUMN next_ports;"},
    StepDown{14,
             "SELECT 'lease ' || name || ' of uid ' || uid || ': its deadline' "
             "FROM lease_deadlines",
             "DROP TABLE lease_deadlines;"},
    // The mountd of 0.1.0 gives each network an IPv4 address, so it cannot read
    // the record of a network without one. This step removes the record. 0.1.0
    // then finds the network without a record and removes it. The network's
    // rules stay, because 0.1.0 does not know rules for only IPv6
    // (mountd.service(8)).
    StepDown{
        13,
        "SELECT 'network ' || allocation || '/' || interface || ': the "
        "record, because it has IPv6 alone' FROM networks WHERE cni "
        "= '' AND ipv4 = '0.0.0.0' AND ipv6 <> '::' UNION ALL "
        "SELECT 'address ' || ipv6 || ': that it is in quarantine' FROM "
        "quarantine WHERE ipv4 = '0.0.0.0'",
        "DELETE FROM networks WHERE cni = '' AND ipv4 = '0.0.0.0' AND "
        "ipv6 <> '::';"
        "ALTER TABLE quarantine RENAME TO quarantine_by_both;"
        "CREATE TABLE quarantine(\n"
        "  ipv4 TEXT PRIMARY KEY, network TEXT NOT NULL, allocation TEXT "
        "NOT NULL,\n"
        "  netns_inode INTEGER NOT NULL, ipv6 TEXT NOT NULL DEFAULT "
        "'::') WITHOUT ROWID;"
        "INSERT OR IGNORE INTO quarantine SELECT ipv4, network, allocation, "
        "netns_inode, ipv6 FROM quarantine_by_both WHERE ipv4 <> "
        "'0.0.0.0';"
        "DROP TABLE quarantine_by_both;"},
    StepDown{12,
             "SELECT 'network ' || allocation || '/' || interface || ': that "
             "an agent took it over' FROM networks WHERE taken_over <> 0",
             "ALTER TABLE networks DROP COLUMN taken_over;"},
    StepDown{11,
             "SELECT 'allocation ' || allocation || ': that mount ' || "
             "mount_id || ' was handed out as a descriptor' FROM handed_out",
             "DROP TABLE handed_out;"},
    // The executors of 0.1.0 refuse a plan with an attribute that they do not
    // know. The executors know the lowest three (mountd/plan/attributes.h), so
    // this step clears all others. The executors also do not know the source 5,
    // SourceKind::kDirectory, and maps with different users and groups. This
    // step removes such a record, so the mountd of 0.1.0 finds the mount
    // without a record and removes the mount.
    //
    // The executors also refuse a network that has a port without a protocol,
    // even to delete it. A port that was to be mapped only if it is free has
    // seven columns, and perhaps no protocol. This step removes the seventh
    // column, and each port without a protocol.
    StepDown{0,
             "SELECT 'mount ' || allocation || '/' || task || '/' || name || "
             "': that it is nosymfollow' FROM mounts WHERE attributes & 8 <> 0 "
             "UNION ALL "
             "SELECT 'mount ' || allocation || '/' || task || '/' || name || "
             "': the record, because a directory is its source' FROM mounts "
             "WHERE source_kind = 5 UNION ALL "
             "SELECT 'mount ' || allocation || '/' || task || '/' || name || "
             "': the record, because it maps users and groups apart' FROM "
             "mounts WHERE source_kind <> 5 AND id_map LIKE '{%' "
             "UNION ALL "
             "SELECT 'network ' || allocation || '/' || interface || ': that "
             "host port ' || json_extract(value, '$[1]') || ' is mapped only "
             "if it is free' FROM networks, json_each(CASE WHEN "
             "json_valid(ports) THEN ports ELSE '[]' END) WHERE "
             "json_array_length(value) > 6",
             "DELETE FROM mounts WHERE source_kind = 5 OR id_map LIKE '{%';"
             "UPDATE mounts SET attributes = attributes & 7;"
             "UPDATE networks SET ports = (SELECT "
             "json_group_array(json_remove(value, '$[6]')) FROM (SELECT value "
             "FROM json_each(ports) ORDER BY key) WHERE json_extract(value, "
             "'$[3]') <> 0) WHERE EXISTS (SELECT 1 FROM json_each(CASE WHEN "
             "json_valid(ports) THEN ports ELSE '[]' END) WHERE "
             "json_array_length(value) > 6);"},
};

constexpr std::array kStateSteps = {
    StepDown{15,
             "SELECT 'plugin ' || id || ': the node ids that its removed "
             "instances said' FROM plugins WHERE removed_node_ids <> ''",
             "ALTER TABLE plugins DROP COLUMN removed_node_ids;"},
    StepDown{14,
             "SELECT 'lease ' || name || ' of uid ' || uid || ': the caller''s "
             "names of the call' FROM leases WHERE traceparent <> '' OR "
             "request_id <> '' UNION ALL SELECT 'fence of allocation ' || "
             "allocation || ': the caller''s names of the call' FROM fences "
             "WHERE traceparent <> '' OR request_id <> ''",
             "ALTER TABLE leases DROP COLUMN traceparent;"
             "ALTER TABLE leases DROP COLUMN request_id;"
             "ALTER TABLE fences DROP COLUMN traceparent;"
             "ALTER TABLE fences DROP COLUMN request_id;"},
    // The mountd of 0.1.0 does not know of these processes, so it frees claims
    // that they may still use.
    StepDown{13,
             "SELECT DISTINCT 'allocation ' || allocation || ': that processes "
             "may use mounts that were removed' FROM unchecked ORDER BY 1",
             "DROP TABLE unchecked;"
             "DROP INDEX fences_by_uid;"
             "CREATE INDEX fences_by_uid ON fences(uid, state, done_wall_us);"},
    // The executors of 0.1.0 refuse a directory that lets a group pass. So the
    // mountd of 0.1.0 cannot prepare the allocation again (mountd.service(8)).
    StepDown{12,
             "SELECT 'allocation ' || id || ': that group ' || group_id || "
             "' passes through its directory' FROM allocations WHERE group_id "
             "<> 0",
             "ALTER TABLE allocations DROP COLUMN group_id;"},
    StepDown{11,
             "SELECT 'fence of allocation ' || allocation || ': that its user "
             "has still to be told' FROM fences WHERE state = 2 AND told = 0",
             "ALTER TABLE fences DROP COLUMN told;"},
    StepDown{10,
             "SELECT 'plugin ' || plugin || ': the node ids that it said "
             "before' FROM plugin_instances WHERE former_node_ids <> ''",
             "ALTER TABLE plugin_instances DROP COLUMN former_node_ids;"},
    StepDown{9,
             "SELECT 'lease ' || name || ' of uid ' || uid FROM leases "
             "UNION ALL SELECT 'fence of allocation ' || allocation FROM "
             "fences UNION ALL SELECT 'allocation ' || id || ': that it needs "
             "a lease' FROM allocations WHERE lease_required <> 0",
             "DROP TABLE leases;"
             "DROP TABLE fences;"
             "ALTER TABLE allocations DROP COLUMN lease_required;"},
    StepDown{
        8,
        "SELECT 'receipt of allocation ' || allocation || ': the caller''s "
        "names of the call' FROM receipts WHERE traceparent <> '' OR "
        "request_id <> ''",
        "ALTER TABLE receipts DROP COLUMN traceparent;"
        "ALTER TABLE receipts DROP COLUMN request_id;"},
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
