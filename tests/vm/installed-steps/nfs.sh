# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Tests a file system of an NFS server that goes away. The server runs on this machine.

drop_packets() {
  nft "add table inet away
    add chain inet away out { type filter hook output priority 0; }
    add rule inet away out tcp dport 2049 drop
    add rule inet away out tcp sport 2049 drop"
}
pass_packets() { nft "delete table inet away"; }

# files PACKAGE...: prints the files of the packages. A path that is the parent of
# another is a directory, and is left out. Not all files are on the disk, because the
# image has no documentation.
files() {
  dpkg -L "$@" | awk '$0 != "/." { paths[$0]; sub(/\/[^\/]*$/, ""); directories[$0] }
    END { for (path in paths) if (!(path in directories)) print path }' | sort
}

# health_of ALLOCATION: prints the health of its mount "homes".
health_of() {
  allocation "$1" | json '[m["health"] for m in d["mounts"] if m["name"] == "homes"][0]'
}
health_is() { equals "$(health_of "$1")" "$2"; }
stuck_executors() { nomad mountctl capabilities --json | json 'd["stuck_executors"]'; }
none_is_stuck() { equals "$(stuck_executors)" 0; }
nothing_is_owed() { equals "$(nomad mountctl owed --retry --json | json 'd')" "[]"; }

# is_answered ERRORS ARGUMENT...: runs mountctl as the user. Succeeds if mountctl
# succeeds or fails with one of the errors, and fails if there is no answer in time.
is_answered() {
  local errors=$1 output status
  shift
  output=$(timeout 240 setpriv --reuid nomad --regid nomad --init-groups \
    mountctl --timeout 120 "$@" 2>&1)
  status=$?
  echo "$output"
  ((status == 0)) || { ((status != 124)) && [[ $output =~ $errors ]]; }
}

other_goes_on() {
  nomad mountctl mount other task data --source host:shared &&
    nomad mountctl unmount other task data
}

nfs_is_served() {
  step 9 "a file system of an NFS server"
  mkdir -p /srv/homes /etc/nfs.conf.d
  # A started server first waits for clients of its last run. nfsd accepts no less
  # than 10 s for that.
  printf '[nfsd]\ngrace-time=10\nlease-time=10\nvers3=n\n' >/etc/nfs.conf.d/mountd-vm.conf
  echo '/srv/homes *(rw,fsid=0,no_root_squash,no_subtree_check)' >/etc/exports
  check "the NFS server is installed, too" apt-get -qq --yes install nfs-kernel-server
  check "no file is in both" equals "$(comm -12 \
    <(files nfs-kernel-server nfs-common) \
    <(files mountd-service mountctl mountd-csi-local))" ""
  check "its mountd runs" systemctl -q is-active nfs-mountd.service
  check "and ours" systemctl -q is-active mountd.service
  check "the file system is mounted" nomad mountctl mount web server homes --source filesystem:homes
  check "what a task writes" bash -c "echo written >$BASE/a/web/server/homes/file"
  check "is the server's" equals "$(cat /srv/homes/file)" written
  check "another allocation has it, too" nomad mountctl call PrepareAllocation '["other", {}]'
  check "by the same mount" nomad mountctl mount other task homes --source filesystem:homes
  check "it is healthy" eventually "$PATIENCE" health_is web healthy
}

nfs_goes_away() {
  step 10 "the server goes away"
  systemd-run --quiet --unit task-waiting \
    --property WorkingDirectory=$BASE/a/web/server/homes sleep infinity
  drop_packets
  check "its mount hangs" eventually "$PATIENCE" health_is web hung
  check "another allocation goes on" other_goes_on
  check "who wants it again is answered" is_answered "DeadlineExceeded|Unavailable|Busy" \
    mount other task again --source filesystem:homes
  note "executors that are stuck: $(stuck_executors)"
  check "another allocation goes on" other_goes_on
  check "a task in it keeps it from a plain end" is_answered "Busy|DeadlineExceeded" \
    unmount web server homes
  check "it is detached" nomad mountctl unmount web server homes --mode detach
  check "and gone" not mounted $BASE/a/web/server/homes
  check "force is not the user's" matches \
    "$(nomad mountctl unmount other task homes --mode force 2>&1)" PermissionDenied
  check "but root's" eventually "$PATIENCE" mountctl unmount other task homes --mode force
  check "and gone" not mounted $BASE/a/other/task/homes
  check "another allocation goes on" other_goes_on
  systemctl stop task-waiting.service
  pass_packets
  check "the server is back, and no executor stuck" eventually "$PATIENCE" none_is_stuck
  check "nothing is owed" eventually "$PATIENCE" nothing_is_owed

  check "the file system is used again" eventually "$PATIENCE" \
    nomad mountctl mount web server homes --source filesystem:homes
  check "and what is in it" equals "$(cat $BASE/a/web/server/homes/file)" written
  check "the server is stopped" systemctl stop nfs-server.service
  check "its mount hangs" eventually "$PATIENCE" health_is web hung
  check "another allocation goes on" other_goes_on
  check "the server is started" systemctl start nfs-server.service
  check "its mount is healthy" eventually "$PATIENCE" health_is web healthy
  check "the other is released" nomad mountctl stop other
  check "the mount goes" eventually "$PATIENCE" nomad mountctl unmount web server homes
  check "and the file system with it" eventually "$PATIENCE" not mounted $BASE/f/homes/fs
}

nfs_is_away_at_a_reboot() {
  step 13 "a reboot without the server"
  check "the server runs" eventually "$PATIENCE" systemctl start nfs-server.service
  check "the file system is used" eventually "$PATIENCE" \
    nomad mountctl mount web server homes --source filesystem:homes
  check "a task is in it" systemd-run --quiet --unit task-waiting \
    --property WorkingDirectory=$BASE/a/web/server/homes sleep infinity
  drop_packets
  check "its mount hangs" eventually "$PATIENCE" health_is web hung
  boots_next
}

after_a_reboot_without_nfs() {
  step 14 "after the reboot without the server"
  check "the shutdown came to its end" grep -q "systemd-shutdown" "$VM_OUT/shutdown.log"
  check "none of mountd's was waited for" equals "$(shutdown_log |
    grep -E "mountd.*(timed out|Killing|SIGKILL)")" ""
  is_bare "disk web"
}

nothing_is_left() {
  local id
  step 15 "the end"
  for id in web disk; do
    check "$id is released" nomad mountctl stop $id
    check "and has its receipt" equals \
      "$(nomad mountctl receipt $id --json | json 'd["node_detached"], d["owed"]')" "True []"
  done
  check "the packages are purged" apt-get -qq --yes purge mountd-service mountctl mountd-csi-local
  check "nothing is left" equals "$(ls -d /run/mountd /var/lib/mountd /var/lib/mountd-cni \
    /etc/mountd /usr/libexec/mountd 2>/dev/null)" ""
  check "nor mounted" not grep -q /run/mountd /proc/1/mountinfo
  check "nor in nftables" not nft list table inet mountd
}
