#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# A step of tests/real/nomad: the machine that the client runs on starts again.

# end_of_all: kills all but the server, which stands for another machine, and this shell.
end_of_all() {
  local pid
  pkill -KILL -u nomad
  kill -KILL "$LAUNCHER"
  pkill -KILL -x 'mountd|mountd-closer|mountd-exec|mountd-csi'
  # The tasks, and their children.
  for pid in $(cat "$CGROUP"/*/cgroup.procs "$CGROUP"/*/*/cgroup.procs 2>/dev/null); do
    kill -KILL "$pid" 2>/dev/null
  done
  wait "$CLIENT" "$LAUNCHER" 2>/dev/null
  eventually 10 no_process_of_tasks && eventually 10 no_process_of nomad
}

# A boot begins without the kernel's state: mounts, links, rules, cgroups, and without /run.
forget_kernel_state() {
  local link
  find "$CGROUP" -mindepth 1 -depth -type d -exec rmdir {} +
  nft flush ruleset
  for link in $(ip -o link show | awk -F'[:@ ]+' '{ print $2 }'); do
    [[ $link == lo || $link == uplink0 ]] || ip link delete "$link" 2>/dev/null
  done
  umount --recursive --lazy /run
  make_run
  # mountd mounts a host volume on itself, for the propagation that mountd.toml allows.
  umount --lazy "$DATA" 2>/dev/null
}

step_reboot() {
  local before
  step "" "the client's machine starts again"
  before=$(identity_of_web)
  check "all processes end" end_of_all
  check "the port does not answer" not get "$PORT_URL"
  forget_kernel_state
  start_mountd
  start_client
  check "the job runs again" eventually 90 web_runs_anew "$before"
  check "the port answers" eventually 30 web_answers
}

web_runs_anew() { job_is web running && [[ $(identity_of_web) != "$1" ]] && identity_of_web; }
