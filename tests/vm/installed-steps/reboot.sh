# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Reboots with allocations: a reboot that the user asks for, and a power cut. After
# both everything must be as ARCHITECTURE.md says of a reboot.

# Keeps the mounts and the kernel's log at the end of a shutdown, when all services
# are gone (systemd-shutdown(8) runs such a script last).
keep_what_shutdown_says() {
  mkdir -p /usr/lib/systemd/system-shutdown
  cat >/usr/lib/systemd/system-shutdown/mountd-vm <<SH
#!/bin/sh
mount -o remount,rw /
cat /proc/self/mountinfo >"$VM_OUT/shutdown.mounts"
dmesg >"$VM_OUT/shutdown.log"
mount -o remount,ro /
SH
  chmod 0755 /usr/lib/systemd/system-shutdown/mountd-vm
}

# image_job ID VOLUME: prints a job that uses an image of the plugin.
image_job() {
  cat <<TOML
[allocation]
id = "$1"
scope = "example"
[[volume]]
alias = "data"
plugin = "csi-local"
id = "$2"
access_mode = "single-node-writer"
fs_type = "ext4"
[[mount]]
task = "server"
name = "data"
source = "volume:data"
path = "/data"
TOML
}

make_image_volume() {
  nomad mountctl volume create csi-local disk --capacity 64MiB \
    --parameter kind=image --fs-type ext4 --json | json 'd["volume"]'
}

before_the_reboot() {
  step 7 "a reboot with allocations"
  check "one was released before" nomad mountctl call PrepareAllocation '["old", {}]'
  nomad mountctl stop old >/dev/null
  nomad mountctl receipt old --json >"$VM_OUT/receipt"
  check "one is of no use any more" nomad mountctl call PrepareAllocation \
    '["unwanted", {"scope": "example"}]'
  check "an image of the plugin's is mounted" publish_image
  systemd-run --quiet --unit task-writer \
    --property WorkingDirectory=$BASE/a/disk/server/data \
    sh -c 'echo kept >file; exec sleep infinity'
  check "and written to" eventually "$PATIENCE" grep -q kept $BASE/a/disk/server/data/file
  check "the agent has said what it wants" nomad mountctl reconcile --scope example \
    --epoch 5 web disk unwanted
  keep_what_shutdown_says
  boots_next
}

publish_image() {
  local volume
  volume=$(make_image_volume) && [[ -n $volume ]] || return
  image_job disk "$volume" >"$VM_OUT/disk.toml"
  chmod 0755 "$(dirname "$VM_OUT")" "$VM_OUT"
  nomad mountctl run "$VM_OUT/disk.toml"
}

# Checks that the shutdown waited for nothing in vain, and that nothing was left.
was_a_clean_shutdown() {
  check "the shutdown came to its end" grep -q "All filesystems, swaps, loop devices" \
    "$VM_OUT/shutdown.log"
  check "it waited for nothing in vain" equals "$(shutdown_log |
    grep -E "[Tt]imed out|Failed unmounting|Failed to unmount|Killing process|ordering cycle")" ""
  check "nor in its last steps" equals \
    "$(grep -E "Failed to (unmount|detach)|timed out|Could not|Unable to finalize" \
      "$VM_OUT/shutdown.log")" ""
  check "nothing of mountd's was mounted then" not grep -q /run/mountd "$VM_OUT/shutdown.mounts"
  check "mountd had its network until its end" \
    in_order "Stopped mountd.service" "Stopped target network.target" \
    "Stopped systemd-networkd.service"
  check "and its file systems" in_order "Stopped mountd.service" "Stopped target remote-fs.target" \
    "Unmounting run-mountd-base.mount"
  check "and executors, plugins and mountd-csi ended" equals \
    "$(shutdown_log | grep -E "^(mountd|mountd-csi|mountd-plugin-csi-local|mountd-exec@.*)\.service: (Failed|Main process exited)")" ""
}

shutdown_log() { log -b -1 | sed -n '/System is rebooting/,$p'; }

# in_order TEXT...: succeeds if the shutdown logged the texts in this order.
in_order() {
  local text line last=0
  for text in "$@"; do
    line=$(shutdown_log | grep -nF "$text" | tail -n1 | cut -d: -f1)
    [[ -n $line ]] || { echo "nothing says \"$text\""; return 1; }
    ((line > last)) || { echo "\"$text\" was too early"; return 1; }
    last=$line
  done
}

# is_bare IDS: checks what an agent finds after a boot. mountd knows the allocations
# IDS, and they have no mounts and no networks.
is_bare() {
  check "mountd runs without being asked" eventually "$PATIENCE" \
    systemctl -q is-active mountd.service
  check "allocations are known" equals \
    "$(nomad mountctl alloc list --json | json '" ".join(sorted(a["id"] for a in d))')" "$1"
  check "nothing is mounted for them" equals "$(mounts_below $BASE/a)" 0
  check "nor is there a network" equals "$(ls -A /run/netns 2>/dev/null) $(links)" " 0"
  check "nor a record of either" equals \
    "$(allocation web | json 'len(d["mounts"]), len(d["networks"])')" "0 0"
  check "directories are there" test -d $BASE/a/web
  check "nothing is owed" equals "$(nomad mountctl owed --json | json 'd')" "[]"
  check "receipts are" equals "$(nomad mountctl receipt old --json)" "$(<"$VM_OUT/receipt")"
  check "the plugin becomes healthy again" plugin_is_healthy
  check "an agent of before is refused" matches \
    "$(nomad mountctl reconcile --scope example --epoch 4 web 2>&1)" "FailedPrecondition"
}

# agent_comes_back EPOCH OUTCOMES: reconciles, and makes the wanted mounts and networks
# as before.
agent_comes_back() {
  local epoch=$1
  check "what is not wanted goes, the rest is bare" equals \
    "$(nomad mountctl reconcile --scope example --epoch "$epoch" web disk --json |
      json '"; ".join(sorted(" ".join([a["allocation"], a["outcome"], *a["needs"]]) for a in d))')" \
    "$2"
  check "the example runs again" nomad mountctl run agent/examples/web.toml
  check "with all its mounts" equals "$(mounts_below $BASE/a/web)" 4
  check "and its network" test -e /run/netns/web
  check "the volume runs again" nomad mountctl run "$VM_OUT/disk.toml"
  check "with what was written" equals "$(cat $BASE/a/disk/server/data/file)" kept
}

after_the_reboot() {
  step 8 "after the reboot"
  was_a_clean_shutdown
  is_bare "disk unwanted web"
  agent_comes_back 6 \
    "disk present bare; unwanted released; web present bare"
  start_tasks $BASE/a/web/server/data
  check "its mapped port answers" port_answers
  check "the doctor finds nothing wrong" mountctl doctor
  stop_tasks
}

before_the_power_cut() {
  step 11 "the power goes"
  check "what was written is on the disk" sync $BASE/a/disk/server/data/file
  start_tasks $BASE/a/web/server/data
  check "its mapped port answers" port_answers
  keep_counts
  boots_next
  # The power goes in the middle of calls.
  (while nomad mountctl mount web server more --source host:shared &&
    nomad mountctl unmount web server more; do :; done) >/dev/null 2>&1 &
  (while nomad mountctl call PrepareAllocation '["short", {}]' &&
    nomad mountctl stop short; do :; done) >/dev/null 2>&1 &
  sleep "$((5 + RANDOM % 5))"
  echo b >/proc/sysrq-trigger
  sleep infinity
}

after_the_power_cut() {
  local known
  step 12 "after the power cut"
  # systemd starts mountd with the other services, and mountd may still be starting.
  eventually "$PATIENCE" systemctl -q is-active mountd.service >/dev/null
  known=$(nomad mountctl alloc list --json | json '" ".join(sorted(a["id"] for a in d))')
  note "what is known: $known"
  check "what was under way is known or not" matches "$known" "^disk( short)? web$"
  is_bare "$known"
  check "what was under way can be begun again" nomad mountctl call PrepareAllocation '["short", {}]'
  check "and ended" nomad mountctl stop short
  agent_comes_back 7 "disk present bare; web present bare"
}
