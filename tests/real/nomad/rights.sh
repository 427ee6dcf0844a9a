#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Steps of tests/real/nomad: the rights of the agent's side, and how long a start takes.

start_sampling() {
  /usr/bin/python3 -I "$HERE/sample_rights.py" "$WORLD/rights" "$(id -u nomad)" &
  SAMPLER=$!
}

was_seen() { grep "^$1 " "$WORLD/rights"; }

# newuidmap and newgidmap are setuid programs of the system, and write only what subuid(5)
# and subgid(5) give to the user. setpriv is this test's own, and about to drop its rights.
has_no_right() {
  ! awk -v uid="$(id -u nomad)" '
    $1 ~ /^(new[ug]idmap|setpriv)$/ { next }
    $2 != uid "," uid "," uid "," uid || $3 $4 $5 $6 !~ /^0+$/ { print; found = 1 }
    END { exit !found }' "$WORLD/rights"
}

step_rights() {
  local program
  step "" "the rights of the agent's side during all of this"
  kill "$SAMPLER"
  wait "$SAMPLER"
  for program in nomad mountd mountd-task-shim mountd-cni; do
    check "a process of $program was looked at" was_seen "$program"
  done
  check "no process had a capability, or another user" has_no_right
  sort "$WORLD/rights" | indent
}

# Prints the milliseconds from the allocation's creation to its task's start.
start_took() {
  newest "$1" '(max(e["Time"] for e in next(iter(a["TaskStates"].values()))["Events"]
    if e["Type"] == "Started") - a["CreateTime"]) // 10**6'
}

# time_starts NAME [GROUP]: prints the median of seven starts.
time_starts() {
  local i took=()
  for i in 1 2 3 4 5 6 7; do
    job_of "$1" service "exec sleep 1000" "${2:-}" >/dev/null
    eventually 60 job_is "$1" running || return
    took+=("$(start_took "$1")")
    job_ends "$1" >/dev/null
  done
  mapfile -t took < <(printf '%s\n' "${took[@]}" | sort -n)
  note "$1: from the allocation to the running task: p50 ${took[3]} ms (${took[*]})"
}

step_time() {
  step "" "how long a start takes"
  check "starts without a network" time_starts_to plain
  check "starts with a network and a port" time_starts_to bridge "$BRIDGE"
}

# time_starts_to NAME [GROUP]: shows the figures although check keeps them.
time_starts_to() { time_starts "$@" >"$WORLD/times" && cat "$WORLD/times" >&3; }
