# SPDX-License-Identifier: LGPL-2.1-or-later
# The step of the main job in which a running task gets, changes and loses its
# mounts. tests/job/run sources it after steps.sh.

# The path at which the task "live" sees its inbox.
readonly SEEN=/mnt/task-live/inbox

in_live() { nsenter --mount="/proc/$LIVE_TASK/ns/mnt" "$@"; }

says() { equals "$("${@:2}" 2>&1)" "$1"; }

start_live_task() {
  start_task live "" --slave "$(json 'd["host_path"]' <"$WORLD/inbox.json")" \
    /inbox -- sleep infinity
  local result=$?
  LIVE_TASK=$TASK
  echo "$LIVE_TASK" >"$CGROUP/cgroup.procs"
  return $result
}

# Starts two processes of the task. One has a file open, and reads the file at the end.
# The other opens the file by its path over and over, and records each failure.
start_readers() {
  rm -f "$WORLD"/live.{read,held,gaps,stop}
  in_live bash -c 'echo $$ >"$2"; exec 3<"$0/config/version"; : >"$1.held"
    until [[ -e $1.stop ]]; do sleep 0.02; done; cat <&3 >"$1.read"' \
    "$SEEN" "$WORLD/live" "$CGROUP/cgroup.procs" &
  HOLDER=$!
  in_live bash -c 'until [[ -e $1.stop ]]; do
    read -r ignored <"$0/config/version" || echo gap; done >"$1.gaps" 2>&1' \
    "$SEEN" "$WORLD/live" &
  GAPS=$!
  eventually 5 test -e "$WORLD/live.held"
}

end_readers() {
  : >"$WORLD/live.stop"
  wait "$HOLDER" "$GAPS"
  cat "$WORLD/live.gaps"
  [[ ! -s $WORLD/live.gaps ]]
}

mounts_of_live() { ctl status live --json | json 'sorted(m["name"] for m in d["mounts"])'; }

# Prints the names of the task's mounts beneath the base, in the host's namespace.
mounted_for_live() { findmnt --noheadings --raw --output TARGET | grep '/a/live/server/' | sed 's|.*/||' | LC_ALL=C sort | xargs; }

# Prints the processes named bash that have the old mount at fd 3. A child of the shell
# has that fd too, under the name bash until it executes a program. Other fds do not
# count, because the reader of the path may have the file open just then.
old_holders() {
  json 'sorted({"%s has it by %s" % (h["command"], h["how"]) for h in
    d["old_holders"]["holders"] if h["how"] == "fd 3" and
    h["command"] == "bash"})' <"$WORLD/replaced.json"
}

proof_of_replacing() {
  check "a process of the task has a file of it open" start_readers
  check "it is replaced under it, and changed to read-only" \
    ctl_to replaced.json mount live server config --source host:fixed \
    --read-only --replace --json
  check "the answer says who still has the old one" \
    equals "$(old_holders)" "['bash has it by fd 3']"
  check "the task sees the other volume now, without a restart" \
    says "the second" in_live cat "$SEEN/config/version"
  check "at no moment was there none" end_readers
  check "what was open went on with the old one" \
    says "the first" cat "$WORLD/live.read"
  check "it is read-only in the task" \
    not in_live touch "$SEEN/config/version"
}

# set_of_two NAME: prints the arguments of a BindMounts of the volumes "shared" and NAME.
set_of_two() {
  printf '["live", [{"task": "server", "name": "one", "source_type": "host", "source": "shared"},
    {"task": "server", "name": "two", "source_type": "host", "source": "%s", "read_only": true}]]' "$1"
}

proof_of_sets() {
  note "two mounts at once, the second of a directory that the host has not:"
  refused alice NotFound "none of them is mounted" \
    call BindMounts "$(set_of_two absent)"
  check "nor known" equals "$(mounts_of_live)" "['config']"
  check "nor in the kernel" equals "$(mounted_for_live)" config
  show alice call BindMounts "$(set_of_two fixed)"
  check "else both are, and the running task has them" \
    in_live test -e "$SEEN/one/version" -a -e "$SEEN/two/version"
}

kill_box_server() {
  kill -KILL "$(pgrep -f 'bindfs.*/f/box/fs')" &&
    eventually 5 not pgrep -f 'bindfs.*/f/box/fs'
}

proof_of_repairing() {
  note "a file system that mountd mounts when it is first used (FUSE):"
  show alice mount live server box --source filesystem:box
  check "the running task has it" \
    says "the first" in_live cat "$SEEN/box/version"
  check "its server is killed" kill_box_server
  in_live cat "$SEEN/box/version" 2>&1 | indent
  show alice repair live server box
  check "repaired, the same task reads it again" \
    says "the first" in_live cat "$SEEN/box/version"
}

proof_of_trees() {
  note "a detached mount, for runtimes that attach it themselves:"
  printf '     alice$ %s\n' \
    "mountctl open-tree live --source host:shared -- cat /proc/self/fd/3/version"
  check "its files are there by its fd alone" says "the first" \
    ctl open-tree live --source host:shared -- cat /proc/self/fd/3/version
  check "and it leaves nothing" equals "$(mounted_for_live)" "box config one two"
  refused bob PermissionDenied "of another user's allocation" \
    open-tree live --source host:shared -- true
}

gone_in_task() { in_live test ! -e "$SEEN/$1"; }

step_inbox() {
  step 5 "mounts come to a running task, change and go"
  echo "the first" >"$VOLUMES/shared/version"
  echo "the second" >"$VOLUMES/fixed/version"
  check "an allocation, with the cgroup of its tasks" \
    ctl call PrepareAllocation '["live", {"cgroup": {"@h": "'"$CGROUP"'"}}]'
  check "the task's inbox is made" ctl_to inbox.json inbox live server --json
  show alice inbox live server
  check "a task starts with the inbox, as rslave, and nothing in it" \
    start_live_task
  check "so it has no mount yet" gone_in_task config
  show alice mount live server config --source host:shared
  check "one that is made now is in the running task" \
    says "the first" in_live cat "$SEEN/config/version"
  proof_of_replacing
  proof_of_sets
  proof_of_repairing
  proof_of_trees
  refused alice Busy "an inbox with mounts in it stays" inbox live server --remove
  local name
  for name in one two box config; do
    check "$name is unmounted" ctl unmount live server "$name"
    check "and gone from the running task" gone_in_task "$name"
  done
  check "the inbox goes" ctl inbox live server --remove
  end_task "$LIVE_TASK"
  rmdir /mnt/task-live
  check "the allocation is released" ctl stop live
  rm "$VOLUMES"/{shared,fixed}/version
}
