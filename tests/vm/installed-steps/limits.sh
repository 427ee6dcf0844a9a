# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Tests the services at the kernel's limits. Allocations that exist must not suffer.

limit_of() { sed -n "s/^$2  *\([^ ]*\) .*/\1/p" "/proc/$1/limits"; }
# cgroup_of UNIT: prints the directory of the unit's cgroup.
cgroup_of() { echo "/sys/fs/cgroup$(property ControlGroup "$1")"; }

as_before() { equals "$(allocation web)" "$BEFORE"; }
is_as_before() {
  check "the allocation is as it was" eventually "$PATIENCE" as_before
  check "its task goes on" systemctl -q is-active task-sitter.service
  check "its port answers" port_answers
}

has_oom_score() { equals "$(cat "/proc/$2/oom_score_adj")" "$1"; }

limits_are_in_force() {
  local pid unit tasks
  step 3 "limits of the units"
  pid=$(pid_of)
  check "mountd's file descriptors" equals "$(limit_of "$pid" "Max open files")" 65536
  check "mountd is among the last that memory is taken from" equals \
    "$(cat "/proc/$pid/oom_score_adj")" -900
  check "and executors are" eventually 5 each_executor has_oom_score -900
  for unit in mountd mountd-csi; do
    tasks=256
    [ $unit = mountd ] && tasks=4608
    check "$unit's threads" equals "$(cat "$(cgroup_of $unit.service)/pids.max")" $tasks
    check "$unit writes no core" equals \
      "$(limit_of "$(pid_of $unit.service)" "Max core file size")" 0
  done
}

# is_refused EXPRESSION: succeeds if mountd refuses one more mount with an error that
# matches. mountd may know the limit of a moment ago, so a mount may still succeed.
is_refused() {
  local said
  if said=$(nomad mountctl mount web server more --source host:shared 2>&1); then
    nomad mountctl unmount web server more
  fi
  matches "$said" "$1"
}

# Makes a mount namespace that receives the host's mounts and has 511 mounts more.
fuller_namespace() {
  exec unshare --mount --propagation slave bash -c '
    mount -t tmpfs tmpfs /mnt && mount --make-private /mnt
    for i in {1..9}; do mkdir /mnt/$i && mount --rbind /mnt /mnt/$i; done
    echo ready >/run/fuller
    exec sleep infinity'
}

too_many_mounts() {
  local most before namespace
  step 4 "too many mounts (fs.mount-max)"
  most=$(sysctl -n fs.mount-max)
  before=$(mounts_below $BASE)
  sysctl -q fs.mount-max="$(($(wc -l </proc/1/mountinfo) + 500))"
  check "those above the reserve are refused" eventually "$PATIENCE" \
    is_refused "ResourceExhausted.*fs.mount-max"
  check "the reserve is the host's" mount -t tmpfs tmpfs /mnt
  umount /mnt
  sysctl -q fs.mount-max="$most"
  check "a limit that is raised is none any more" eventually "$PATIENCE" \
    nomad mountctl mount web server more --source host:shared
  check "for either" nomad mountctl unmount web server more
  fuller_namespace &
  namespace=$!
  eventually "$PATIENCE" test -e /run/fuller
  # mountd counts the mounts of the host's namespace, so it still sees room.
  sysctl -q fs.mount-max="$(wc -l <"/proc/$namespace/mountinfo")"
  check "another namespace may be full first" eventually "$PATIENCE" \
    is_refused "ResourceExhausted.*ENOSPC"
  check "which leaves nothing" equals "$(mounts_below $BASE)" "$before"
  kill "$namespace"
  wait "$namespace" 2>/dev/null
  sysctl -q fs.mount-max="$most"
  check "and is no limit later" eventually "$PATIENCE" \
    nomad mountctl mount web server more --source host:shared
  check "nor is the end of it" nomad mountctl unmount web server more
}

too_many_threads() {
  local cgroup pid
  step 5 "too many threads (TasksMax=)"
  BEFORE=$(allocation web)
  cgroup=$(cgroup_of mountd.service)
  pid=$(pid_of)
  # Threads of earlier calls would serve these calls. All but one of each pool end after
  # ten seconds.
  sleep 12
  systemctl set-property --runtime mountd.service TasksMax="$(cat "$cgroup/pids.current")"
  check "calls that wait for a thread are answered" call_often
  check "though mountd could have no more" equals \
    "$(($(sed -n 's/^max //p' "$cgroup/pids.events") > 0))" 1
  check "by the same process" equals "$(pid_of)" "$pid"
  systemctl set-property --runtime mountd.service TasksMax=4608
  is_as_before
}

# Makes twenty calls at once. mountd must answer each call.
call_often() {
  local calls=() call failed=0
  for call in {1..20}; do
    nomad mountctl call PrepareAllocation "[\"many-$call\", {}]" &
    calls+=($!)
  done
  for call in "${calls[@]}"; do wait "$call" || failed=1; done
  for call in {1..20}; do nomad mountctl stop "many-$call" || failed=1; done
  return "$failed"
}

too_much_memory() {
  local unit
  step 6 "too little memory (MemoryMax=)"
  BEFORE=$(allocation web)
  for unit in mountd.service mountd-csi.service; do
    # The service has more than this already, so the kernel kills it at once.
    check "$unit is given too little" systemctl set-property --runtime "$unit" MemoryMax=2M
    check "and ended" eventually "$PATIENCE" bash -c \
      "journalctl -q -o cat -u $unit | grep -q \"result 'oom-kill'\""
    check "it is given enough" systemctl set-property --runtime "$unit" MemoryMax=infinity
    check "it is not given up" eventually "$PATIENCE" nomad mountctl volume status web data
    check "and runs" systemctl -q is-active "$unit"
    is_as_before
  done
  check "the plugin becomes healthy again" plugin_is_healthy
}
