#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Starts and ends the Nomad server and the Nomad client of tests/real/nomad, and asks them.

readonly SERVER_URL=http://127.0.0.1:4646

start_server() {
  as nomad-server "$NOMAD" agent -config "$HERE/server.hcl" >>"$WORLD/server.log" 2>&1 &
  SERVER=$!
  step "" "a Nomad server"
  check "the server leads" eventually 60 server_leads
}

server_leads() { [[ $(api status/leader) == *4647* ]]; }

# The client is in the cgroup that is delegated to its user, because a user may move no
# process into that cgroup from outside.
start_client() {
  sed "s|CGROUP|$CGROUP|" "$HERE/client.hcl" >"$WORLD/client.hcl"
  (
    echo "$BASHPID" >"$CGROUP/cgroup.procs"
    exec setpriv --reuid nomad --regid nomad --clear-groups --inh-caps=-all \
      env -i HOME=/var/lib/nomad PATH="$LIBEXEC/nomad/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
      MOUNTD_CNI_NETWORK=default "$NOMAD" agent -config "$WORLD/client.hcl"
  ) >>"$WORLD/client.log" 2>&1 &
  CLIENT=$!
  check "the client is ready, with the driver" eventually 60 client_is_ready || return
  NODE=$(api nodes | json 'd[0]["ID"]')
}

# A client that starts again is "ready" at the server all the while, so its own answer
# counts, too.
client_is_ready() {
  local node
  get http://127.0.0.1:4656/v1/agent/health >/dev/null || return 1
  node=$(api nodes | json 'd[0]["ID"]')
  equals "$(api "node/$node" | json '[d["Status"], d["Drivers"]["mountd"]["Healthy"],
    "plugins.cni.version.bridge" in d["Attributes"]]')" "['ready', True, True]"
}

# api PATH: prints the server's answer.
api() { get "$SERVER_URL/v1/$1"; }

nomad() { as nomad-server NOMAD_ADDR="$SERVER_URL" NO_COLOR=1 "$NOMAD" "$@"; }

run_job() { nomad job run -detach "$HERE/jobs/$1.nomad.hcl"; }

# newest JOB EXPRESSION: prints the Python expression over the job's newest allocation a.
newest() {
  api "job/$1/allocations" |
    json "(lambda a: $2)(max(d, key=lambda a: a['CreateIndex']))"
}

alloc_of() { newest "$1" 'a["ID"]'; }

# job_is JOB STATUS: succeeds if the client says so of the job's newest allocation.
job_is() { equals "$(newest "$1" 'a["ClientStatus"]')" "$2"; }

# alloc_is ID STATUS
alloc_is() { equals "$(api "allocation/$1" | json 'd["ClientStatus"]')" "$2"; }

# job_starts JOB: runs the job until its task runs.
job_starts() { run_job "$1" && eventually 60 job_is "$1" running; }

# job_ends JOB: stops the job, and forgets it when its allocations have ended.
job_ends() {
  nomad job stop -detach "$1" && eventually 60 has_no_live_allocation "$1" &&
    nomad job stop -detach -purge "$1"
}

has_no_live_allocation() {
  equals "$(api "job/$1/allocations" |
    json '[a["ID"] for a in d if a["ClientStatus"] in ("pending", "running")]')" "[]"
}

# make_job NAME TYPE SCRIPT [GROUP [TASK [CONFIG]]]: writes a job of one task that runs the
# shell's script, with further lines of the job's blocks.
make_job() {
  local text
  text=$(grep -v '^#' "$HERE/jobs/task.nomad.hcl")
  text=${text//NAME/"$1"}
  text=${text/TYPE/"$2"}
  text=${text/SCRIPT/"$3"}
  text=${text/GROUP/"${4:-}"}
  text=${text/TASK/"${5:-}"}
  text=${text/CONFIG/"${6:-}"}
  printf '%s\n' "$text" >"$WORLD/$1.nomad.hcl"
}

# job_of NAME TYPE SCRIPT...: runs such a job.
job_of() { make_job "$@" && nomad job run -detach "$WORLD/$1.nomad.hcl"; }

# task_state JOB EXPRESSION: prints the Python expression over the state t of the newest
# allocation's one task.
task_state() {
  newest "$1" "(lambda t: $2)(next(iter(a['TaskStates'].values())))"
}

# exit_codes JOB: prints the exit codes with which the task has ended, each once. Nomad
# keeps the last ten events of a task.
exit_codes() {
  task_state "$1" 'sorted({e["ExitCode"] for e in t["Events"] if e["Type"] == "Terminated"})'
}
