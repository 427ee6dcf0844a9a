#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Steps of tests/real/nomad: a CSI volume of csi-local through mountd-csi-proxy.

readonly CSI_DATA=/var/lib/csi-local
readonly TARGETS=/var/lib/nomad/data/client/csi

start_csi_local() {
  "$BIN/csi-local" --endpoint unix:///run/mountd/base/p/csi-local/csi.sock \
    --data-dir "$CSI_DATA" --node-id node-1 >>"$WORLD/csi-local.log" 2>&1 &
  CSI_LOCAL=$!
  eventually 20 csi_local_is healthy
}

csi_local_is() {
  equals "$(ctl plugin status csi-local --json | json 'd["state"]')" "$1"
}

# csi_block VOLUME MODE, csi_mount VOLUME: lines of a job's group and task.
csi_block() {
  echo "volume \"$1\" {
      type            = \"csi\"
      source          = \"$1\"
      access_mode     = \"single-node-writer\"
      attachment_mode = \"$2\"
    }"
}
csi_mount() {
  echo "volume_mount {
        volume      = \"$1\"
        destination = \"/csi\"
      }"
}

nomad_has_plugin() {
  equals "$(api plugin/csi/csi-local |
    json '[d["ControllersHealthy"], d["NodesHealthy"]]')" "[1, 1]"
}

exec_files() {
  nomad alloc exec -i=false -t=false -task files "$(alloc_of files)" sh -c "$1"
}

written() { exec_says "$1" exec_files "echo '$1' >/csi/text && cat /csi/text"; }

plugin_has() { matches "$(cat "$CSI_DATA"/*/text "$CSI_DATA"/*/*/text 2>/dev/null)" "$1"; }

proxy_pid() { pgrep -u nomad -x mountd-csi-prox; }

proxy_is_another() { local pid; pid=$(proxy_pid) && not equals "$pid" "$1"; }

no_target() { ! grep " $TARGETS" /proc/self/mountinfo; }

volume_is_free() {
  equals "$(api volume/csi/files |
    json '[len(d["ReadAllocs"] or {}), len(d["WriteAllocs"] or {})]')" "[0, 0]"
}

step_csi() {
  local proxy
  step "" "a CSI volume through mountd-csi-proxy"
  check "mountd takes the plugin" ctl plugin register csi-local --type monolith
  check "csi-local is healthy for mountd" start_csi_local
  check "the proxy's job runs" job_starts csi-proxy
  check "Nomad has a healthy plugin" eventually 60 nomad_has_plugin
  check "Nomad creates a volume" nomad volume create "$HERE/jobs/volume.hcl"
  check "a job with the volume is taken" job_of files service "exec sleep 1000" \
    "$(csi_block files file-system)" "$(csi_mount files)"
  check "its task runs" eventually 60 job_is files running
  check "the task writes to the volume" written one
  check "the file is the plugin's" plugin_has one

  note "the plugin and the proxy end under the running task"
  kill -KILL "$CSI_LOCAL"
  wait "$CSI_LOCAL" 2>/dev/null
  check "the task writes while csi-local is away" written two
  check "csi-local is healthy again" start_csi_local
  check "the task writes when csi-local is back" written three
  proxy=$(proxy_pid)
  kill -KILL "$proxy"
  check "Nomad starts the proxy again" eventually 30 proxy_is_another "$proxy"
  check "the plugin is healthy for Nomad" eventually 60 nomad_has_plugin
  check "the task writes after that" written four
  # https://github.com/hashicorp/nomad/issues/27666
  proxy=$(proxy_pid)
  check "the proxy's allocation restarts" nomad alloc restart "$(alloc_of csi-proxy)"
  check "by another process" eventually 30 proxy_is_another "$proxy"
  check "the plugin is healthy for Nomad" eventually 60 nomad_has_plugin
  check "the task writes after that" written five
  check "the file is the plugin's" plugin_has five

  check "the job ends" job_ends files
  check "no target path is mounted" eventually 30 no_target
  check "Nomad has the volume detached" eventually 60 volume_is_free
  csi_refusals
  check "Nomad deletes the volume" eventually 30 nomad volume delete files
  check "the proxy's job ends" job_ends csi-proxy
  kill -TERM "$CSI_LOCAL"
  wait "$CSI_LOCAL"
  check "mountd lets go of the plugin" ctl plugin unregister csi-local
}

csi_refusals() {
  note "a block device"
  if check "Nomad creates a block volume" nomad volume create "$HERE/jobs/device.hcl"; then
    refused device "block" "$(csi_block device block-device)" "$(csi_mount device)"
    check "Nomad deletes it" eventually 60 nomad volume delete device
  fi
}
