#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Steps of tests/real/nomad: exec, logs, restarts, ends and drain.

# Runs a command in the task of the job web by `nomad alloc exec`.
exec_web() { nomad alloc exec -i=false -t=false -task server "$(alloc_of web)" "$@"; }

exec_says() {
  local expected=$1
  shift
  equals "$("$@" 2>&1)" "$expected"
}

exits_with() {
  local expected=$1 status=0
  shift
  "$@" || status=$?
  equals "$status" "$expected"
}

# exec gives its input on.
exec_counts() {
  equals "$(seq 20000 | nomad alloc exec -i -t=false -task server "$(alloc_of web)" wc -l)" 20000
}

# exec has a terminal, with the size of the caller's.
exec_has_terminal() {
  local alloc output
  alloc=$(alloc_of web)
  output=$(as nomad-server NOMAD_ADDR="$SERVER_URL" TERM=xterm script -qefc \
    "stty rows 33 cols 77
     '$NOMAD' alloc exec -i -t -task server $alloc \
       sh -c 'test -t 0 && test -t 1 && stty size; exit 3'" /dev/null </dev/null)
  # script types an end of input, which the terminal echoes.
  equals "$? $(grep -o '33 77' <<<"$output")" "3 33 77"
}

step_exec() {
  step "" "nomad alloc exec"
  check "prints what the command prints" exec_says hello exec_web echo hello
  check "ends with the command's exit code" exits_with 5 exec_web sh -c "exit 5"
  check "gives its input to the command" exec_counts
  check "has a terminal of the caller's size" exec_has_terminal
  check "is in the task's user namespace, without a capability on the host" exec_is_confined
  check "leaves no process in the task" eventually 5 web_has_one_process
}

exec_is_confined() {
  not equals "$(exec_web readlink /proc/self/ns/user)" "$(readlink /proc/self/ns/user)"
}

web_has_one_process() { equals "$(exec_web sh -c 'ls -d /proc/[0-9]* | wc -l')" 4; }

logs_have() { nomad alloc logs "${@:2}" "$(alloc_of talk)" | grep -qx "$1"; }

# Nomad's files of the task's output, by Nomad's own listing.
log_files() {
  nomad alloc fs "$(alloc_of talk)" alloc/logs | awk '/talk.stdout.[0-9]/ { print $NF }' | sort | xargs
}

logs_have_rotated() {
  local files
  files=$(log_files)
  matches "$files" 'talk.stdout.[3-9]' && equals "$(wc -w <<<"$files")" 3
}

step_logs() {
  step "" "nomad alloc logs"
  check "the job runs" job_of talk service 'echo first; echo trouble >&2
    while ! test -e /local/go; do sleep 0.1; done
    perl -e "print q(x) x 99, qq(\\n) for 1 .. 42000"; echo last; exec sleep 1000' || return
  check "stdout is there" eventually 30 logs_have first
  check "stderr is there" eventually 10 logs_have trouble -stderr
  check "the task writes 4 MB" \
    nomad alloc exec -i=false -t=false "$(alloc_of talk)" touch /local/go
  check "the end of it is there" eventually 30 logs_have last -tail -n 1
  check "Nomad has rotated the files, and kept three" eventually 10 logs_have_rotated
  check "the job ends" job_ends talk
}

restarted_twice_and_failed() {
  equals "$(task_state failing '[a["ClientStatus"], t["Restarts"], t["Failed"]]') $(exit_codes failing)" \
    "['failed', 2, True] [9]"
}

step_restart() {
  step "" "the restart policy"
  check "the job is taken" job_of failing service "exit 9" || return
  check "the task restarts twice, and then has failed" eventually 60 restarted_twice_and_failed
  check "the job ends" job_ends failing
}

ended_with() {
  equals "$(newest "$1" 'a["ClientStatus"]') $(exit_codes "$1")" "$2"
}

step_batch() {
  step "" "batch jobs"
  check "a job is taken" job_of good batch "exit 0" || return
  check "it is complete" eventually 30 ended_with good "complete [0]"
  check "the job ends" job_ends good
  check "a job is taken that fails" job_of bad batch "exit 7" || return
  check "it has failed with its exit code" eventually 60 ended_with bad "failed [7]"
  check "the job ends" job_ends bad
}

step_drain() {
  local before
  step "" "nomad node drain"
  before=$(alloc_of web)
  check "the node is drained" nomad node drain -enable -yes -deadline 1m "$NODE"
  check "the allocation is complete" eventually 30 alloc_is "$before" complete
  check "its port is closed" not get "$PORT_URL"
  check "the node serves again" nomad node drain -disable -yes "$NODE"
  check "the job runs again" eventually 60 job_is web running
  check "by another allocation" not equals "$(alloc_of web)" "$before"
  check "the port answers" eventually 10 web_answers
  release_what_nomad_leaves "$before"
}

# Nomad asks the plugin's process that an allocation began with for the end of the network,
# and gives up if that process has ended. The namespace, which has no interface of the host
# any more, then stays for the operator.
release_what_nomad_leaves() {
  grep -q "postrun failed: alloc_id=$1 .*network.* plugin is shut down" \
    "$WORLD/client.log" || return
  note "Nomad has left $1, because its driver's plugin had been killed"
  check "mountctl stop releases it" ctl stop "cni-$1"
}
