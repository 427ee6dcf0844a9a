#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Steps of tests/real/nomad: a task's network, volumes and end.

readonly PORT_URL=http://$HOST_ADDRESS:28080

web_answers() { equals "$(get "$PORT_URL")" "hello from the volume"; }

web_answers_outside() {
  equals "$(from_outside curl --silent --noproxy '*' --max-time 5 "$PORT_URL")" \
    "hello from the volume"
}

# identity_of_web: prints the pid of the job's task, and when it has started.
identity_of_web() {
  local pid
  pid=$(pgrep -f '^/usr/bin/perl -MIO::Socket') && awk '{ print $1, $22 }' "/proc/$pid/stat"
}

step_network() {
  step "" "a service with a port of the host and a host volume"
  echo "hello from the volume" >"$DATA/greeting"
  check "the job runs" job_starts web
  check "the host's port answers with the volume's file" eventually 10 web_answers
  check "and from another machine" web_answers_outside
  check "mountd has mounted the volume for the task" mountd_has_mounted data
}

# mountd_has_mounted SOURCE: succeeds if an allocation of the job web has it from mountd.
mountd_has_mounted() {
  matches "$(ctl status "cni-$(alloc_of web)" --json |
    json '[m["source"] for m in d["mounts"]]')" "$1"
}

step_stop() {
  step "" "nomad job stop"
  rm -f "$DATA/ended"
  check "the job ends" job_ends web
  check "its task got the signal of the job" test -e "$DATA/ended"
  check "its port is closed" not get "$PORT_URL"
}

same_kernel() {
  snapshot "$WORLD/after"
  diff -u "$WORLD/before" "$WORLD/after"
}

no_allocations() {
  equals "$(ctl status --json | json '[d["allocations"], d["volumes"], d["owed"]]')" \
    "[[], [], []]"
}

no_process_of() { ! pgrep -u "$1" -a; }

# The subordinate ids of the user are those of its tasks.
no_process_of_tasks() {
  ! ps -eo uid=,pid=,args= |
    awk '$1 >= 200000 && $1 < 265536 { print; found = 1 } END { exit !found }'
}

# The driver keeps a cgroup for itself, and one for the shims.
no_cgroup_of_tasks() {
  equals "$(find "$CGROUP" -mindepth 1 -type d ! -path "$CGROUP/agent" ! -path "$CGROUP/shims")" ""
}

step_end() {
  step "" "nothing is left"
  check "mountd has no allocation and no volume, and owes nothing" eventually 20 no_allocations
  check "mounts, links, nft ruleset and namespaces are what they were" eventually 10 same_kernel
  check "no task has left a cgroup" eventually 10 no_cgroup_of_tasks
  check "no task has left a process" eventually 10 no_process_of_tasks
  kill -INT "$CLIENT"
  wait "$CLIENT"
  check "the client leaves no process" eventually 10 no_process_of nomad
  check "mountd's programs have not crashed" \
    not grep -E 'killing|signal SIG(ABRT|SEGV|BUS)|exit status [1-9]' "$WORLD/launcher.log"
  kill -TERM "$SERVER" "$LAUNCHER" "$OUTSIDE"
  wait "$SERVER" "$LAUNCHER"
  find "$CGROUP" -depth -type d -exec rmdir {} +
  rmdir /sys/fs/cgroup/mountd-nomad 2>/dev/null
  true
}
