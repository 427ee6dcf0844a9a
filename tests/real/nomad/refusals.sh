#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Steps of tests/real/nomad: a task that cannot be is refused when it starts, with a reason
# that `nomad alloc status` shows.

status_of() { nomad alloc status "$(alloc_of "$1")" 2>/dev/null; }

reason_is() { matches "$(status_of "$1")" "$2"; }

# refused NAME REASON [GROUP [TASK [CONFIG]]]: checks that such a job fails.
refused() {
  local name=$1 reason=$2
  shift 2
  check "a job is taken: $name" job_of "$name" batch "exec sleep 1000" "$@" || return
  check "it fails" eventually 90 job_is "$name" failed
  check "nomad alloc status says why" eventually 10 reason_is "$name" "$reason"
  status_of "$name" | grep -E "$reason" | head -n 1 | indent
  check "the job ends" job_ends "$name"
}

step_refusals() {
  step "" "what no task of an ordinary user can have"
  refused bidirectional "bidirectional.*cannot give mounts to the host" \
    'volume "data" {
      type   = "host"
      source = "data"
    }' \
    'volume_mount {
        volume           = "data"
        destination      = "/data"
        propagation_mode = "bidirectional"
      }'
  refused privileged 'No argument or block type is named "privileged"' "" "" "privileged = true"
  refused pid-mode 'No argument or block type is named "pid_mode"' "" "" 'pid_mode = "host"'
}
