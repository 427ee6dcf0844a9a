# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the job's own world: file systems, accounts, configuration, a system bus, and a
# second network namespace that stands for another machine.

readonly WORLD=/run/job            # logs and notes of the job itself
readonly JOB=/mnt/project/tests/job
readonly BIN=/mnt/bin
readonly VOLUMES=/var/lib/volumes
readonly CSI_DATA=/var/lib/csi-data
readonly OUTSIDE_ADDRESS=192.0.2.2
readonly HOST_ADDRESS=192.0.2.1

make_file_systems() {
  # Everything is shared, as systemd leaves it, but in peer groups of this namespace.
  mount --make-rshared /
  # The project may lie where the job's users cannot reach it, or beneath the mounts
  # below, so the job sees it in /mnt.
  mount -t tmpfs -o mode=0755 job /mnt
  mkdir /mnt/project /mnt/bin /mnt/result /mnt/etc
  mount --bind "$PROJECT" /mnt/project
  mount --bind "$BIN_DIR" /mnt/bin
  mount --bind "$(dirname "$RESULT")" /mnt/result

  cp -a /etc/. /mnt/etc/
  mount --bind /mnt/etc /etc
  mount -t tmpfs -o mode=0755 run /run
  mount -t tmpfs -o mode=0755 var-lib /var/lib
  mkdir -p "$WORLD" /run/dbus /run/netns "$VOLUMES"/{shared,fixed} "$CSI_DATA"
  # Each host volume is a mount of its own, so that its clone has no other mounts.
  mount -t tmpfs -o mode=0777 shared "$VOLUMES/shared"
  mount -t tmpfs -o mode=0755 fixed "$VOLUMES/fixed"
  mount -t tmpfs -o mode=0755 csi-data "$CSI_DATA"
}

# Mounts cgroup2 and makes the job's cgroup. There is one hierarchy of version 2, so the
# cgroup is the machine's.
make_cgroup() {
  umount -R /sys/fs/cgroup 2>/dev/null
  mount -t cgroup2 cgroup2 /sys/fs/cgroup || return 1
  mkdir -p /sys/fs/cgroup/mountd-job
  CGROUP=$(mktemp -d /sys/fs/cgroup/mountd-job/XXXXXX)
  chmod 0755 "$CGROUP"
}

# Removes the job's cgroup once nothing is in it. Another job may use the cgroup above.
remove_cgroup() {
  eventually 5 rmdir "$CGROUP"
  rmdir /sys/fs/cgroup/mountd-job 2>/dev/null
  true
}

make_accounts() {
  local uid=60000 user
  for user in mountd mountd-csi alice bob; do
    sed -i "/^$user:/d" /etc/passwd /etc/group
    echo "$user:x:$uid:$uid::/nonexistent:/usr/sbin/nologin" >>/etc/passwd
    echo "$user:x:$uid:" >>/etc/group
    ((++uid))
  done
  [[ -s /etc/machine-id ]] ||
    tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
  mkdir -p /etc/mountd
  cp "$JOB/mountd.toml" /etc/mountd/mountd.toml
  chown -R root:root /etc/mountd
  chmod 0644 /etc/mountd/mountd.toml
}

make_network() {
  ip link set lo up
  unshare --net sleep infinity &
  OUTSIDE=$!
  # The child has entered its namespace when its namespace is no longer ours.
  eventually 5 differs_in_netns "$OUTSIDE" || return 1
  ip link add uplink0 type veth peer name eth0 netns "$OUTSIDE"
  ip address add "$HOST_ADDRESS/24" dev uplink0
  ip link set uplink0 up
  nsenter --net="/proc/$OUTSIDE/ns/net" sh -c "
    ip link set lo up
    ip address add $OUTSIDE_ADDRESS/24 dev eth0
    ip link set eth0 up"
  # The kernel adds routes until then, which a snapshot would show.
  eventually 5 no_tentative_address
}

no_tentative_address() {
  ip -6 -o address show dev uplink0 scope link | grep -q fe80 &&
    [[ -z $(ip -6 -o address show tentative) ]]
}

differs_in_netns() {
  [[ $(readlink "/proc/$1/ns/net") != $(readlink /proc/self/ns/net) ]]
}

make_bus() {
  export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket
  dbus-daemon --config-file="$JOB/system-bus.conf" --nofork --nopidfile \
    --nosyslog >"$WORLD/bus.log" 2>&1 &
  BUS=$!
  eventually 5 test -S /run/dbus/system_bus_socket
}

make_world() {
  make_file_systems && make_cgroup && make_accounts && make_network && make_bus
}

# as USER COMMAND...: runs the command without our privileges and environment. No shell
# takes part, so the arguments arrive unchanged.
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --init-groups --inh-caps=-all \
    --bounding-set=-all --no-new-privs \
    env -i PATH=/usr/bin:/bin \
    DBUS_SYSTEM_BUS_ADDRESS="$DBUS_SYSTEM_BUS_ADDRESS" "$@"
}

ctl() { as alice "$BIN/mountctl" "$@"; }

# show USER ARGUMENTS...: prints a mountctl command and its output, for the reader.
show() {
  local user=$1
  shift
  printf '     %s$ mountctl %s\n' "$user" "$*"
  as "$user" "$BIN/mountctl" "$@" 2>&1 | indent
}

pid_of() { pgrep -x "$1" | head -n 1; }

status_field() { awk -v f="$2:" '$1 == f { print $2 }' "/proc/$1/status"; }

# kinds_of_fds PID: prints how many open fds there are of each kind, without the inode
# numbers of sockets and pipes.
kinds_of_fds() {
  local fd
  for fd in "/proc/$1/fd"/*; do readlink "$fd"; done |
    sed -E 's/:\[[0-9]+\]$//; s/ \(deleted\)$//' | LC_ALL=C sort | uniq -c
}

from_outside() { nsenter --net="/proc/$OUTSIDE/ns/net" "$@"; }

get() { curl --silent --show-error --noproxy '*' --max-time 5 "$@"; }
