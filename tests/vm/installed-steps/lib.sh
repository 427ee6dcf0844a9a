# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Functions that the steps in the virtual machine share. Everything takes ten times as
# long there.
readonly PATIENCE=${VM_PATIENCE:-300}  # seconds for work that mountd does by itself
readonly BASE=/run/mountd/base

nomad() { as nomad "$@"; }
allocation() { nomad mountctl status "$1" --json; }
# sync, because the counts must be on the disk when the power goes.
keep_counts() { echo "$PASSED $FAILED" >"$VM_OUT/counts" && sync "$VM_OUT/counts" "$VM_OUT"; }
boots_next() { touch "$VM_NEXT" && sync "$VM_NEXT" "$(dirname "$VM_NEXT")"; }

mounted() { awk -v at="$1" '$5 == at { found = 1 } END { exit !found }' /proc/1/mountinfo; }
mounts_below() { awk -v at="$1/" 'index($5, at) == 1' /proc/1/mountinfo | wc -l; }
links() { ip -o link show | grep -c ': md[0-9a-f]*[@:]'; }

plugin_is_healthy() {
  eventually "$PATIENCE" bash -c \
    "mountctl plugin status csi-local --json | grep -q '\"state\": \"healthy\"'"
}

# start_tasks DIRECTORY: starts a task's process with its working directory in a mount,
# and a server in the allocation's network.
start_tasks() {
  systemd-run --quiet --unit task-sitter --property "WorkingDirectory=$1" sleep infinity
  systemd-run --quiet --unit task-server --property NetworkNamespacePath=/run/netns/web \
    /usr/bin/python3 -m http.server 80
}
stop_tasks() { systemctl stop task-sitter.service task-server.service; }
port_answers() {
  eventually "$PATIENCE" curl -sSf --max-time 20 -o /dev/null http://127.0.0.1:8080/
}
