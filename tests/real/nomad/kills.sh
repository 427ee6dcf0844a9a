#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Steps of tests/real/nomad: a process is killed while tasks run, and the machine starts
# again.

# same_task IDENTITY: succeeds if the task's process is the one that it was.
same_task() { equals "$(identity_of_web)" "$1"; }

restarts_of_web() { equals "$(task_state web 't["Restarts"]')" 0; }

web_goes_on() {
  check "the task's process is the same" same_task "$1"
  check "the port answers" eventually 10 web_answers
  check "exec works" eventually 20 exec_says hello exec_web echo hello
  check "Nomad has restarted no task" restarts_of_web
}

# Nomad writes the state of a network once a minute. A client that is killed before that
# says "network already configured but not found in state" and ends the task, with each
# driver. Nothing else keeps that key before.
network_is_saved() { grep -qa network_status /var/lib/nomad/data/client/state.db; }

step_client_killed() {
  local task
  step "" "the client is killed under a running task"
  check "Nomad has written the state of the network" eventually 90 network_is_saved
  task=$(identity_of_web)
  kill -KILL "$CLIENT"
  wait "$CLIENT" 2>/dev/null
  check "the port answers meanwhile" web_answers
  start_client
  web_goes_on "$task"
}

driver_pid() { pgrep -u nomad -f '^/mnt/libexec/nomad/plugins/mountd'; }

driver_is_another() { local pid; pid=$(driver_pid) && not equals "$pid" "$1"; }

step_driver_killed() {
  local task driver
  step "" "the driver's plugin is killed under a running task"
  task=$(identity_of_web)
  driver=$(driver_pid)
  check "the plugin runs" test -n "$driver" || return
  # shellcheck disable=SC2086 # Nomad may have more than one.
  kill -KILL $driver
  check "Nomad starts the plugin again" eventually 60 driver_is_another "$driver"
  web_goes_on "$task"
  check "the driver is healthy" eventually 60 client_is_ready
}

mountd_pid() { pgrep -u mountd -x mountd; }

step_mountd_killed() {
  local task delay name
  step "" "mountd is killed under a running task"
  task=$(identity_of_web)
  kill -KILL "$(mountd_pid)"
  check "mountd answers again" eventually 20 ctl status
  web_goes_on "$task"
  for delay in 0.05 0.2 0.5; do
    name=start-${delay/./-}
    note "mountd is killed $delay s after a job is taken"
    check "the job is taken" job_of "$name" service "exec sleep 1000" "$BRIDGE"
    sleep "$delay"
    kill -KILL "$(mountd_pid)"
    check "its task runs" eventually 90 job_is "$name" running
    check "the job ends" job_ends "$name"
  done
}

readonly BRIDGE='network {
      mode = "bridge"
      port "p" {}
    }'
