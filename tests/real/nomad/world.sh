#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the world of tests/real/nomad: file systems, accounts, configurations, a link, a
# cgroup and mountd.

readonly WORLD=/run/nomad-test            # logs and notes of the test
readonly BIN=/mnt/bin
readonly NOMAD=/mnt/nomad
readonly HOST_ADDRESS=192.0.2.1
readonly OUTSIDE_ADDRESS=192.0.2.2
readonly DATA=/var/lib/data               # a host volume that mountd mounts
readonly IMAGE=/var/lib/images/host       # an image with nothing but links to the host's /usr
readonly LIBEXEC=/mnt/libexec             # stands for /usr/libexec/mountd
readonly UIDS=(mountd:60000 mountd-csi:60001 nomad-server:30000 nomad:30001)

# /run as after a boot, with the logs of all boots.
make_run() {
  mount -t tmpfs -o mode=0755 run /run
  mkdir -p "$WORLD" /run/netns
  mount --bind "$WORK/logs" "$WORLD"
}

make_file_systems() {
  mount --make-rprivate /
  mount -t tmpfs -o mode=0755 test /mnt
  mkdir -p /mnt/project /mnt/bin /mnt/etc "$LIBEXEC"
  mount --bind "$PROJECT" /mnt/project
  mount --bind "$BIN_DIR" /mnt/bin
  touch "$NOMAD"
  mount --bind "$NOMAD_PROGRAM" "$NOMAD"
  cp -a /etc/. /mnt/etc/
  mount --bind /mnt/etc /etc
  mount -t tmpfs -o mode=0755 var-lib /var/lib
  make_run
}

make_cgroup() {
  umount -R /sys/fs/cgroup 2>/dev/null
  mount -t cgroup2 cgroup2 /sys/fs/cgroup || return 1
  mkdir -p /sys/fs/cgroup/mountd-nomad
  CGROUP=$(mktemp -d /sys/fs/cgroup/mountd-nomad/XXXXXX)
  chmod 0755 "$CGROUP"
  chown nomad:nomad "$CGROUP" "$CGROUP"/cgroup.{procs,subtree_control,threads}
}

make_accounts() {
  local pair
  for pair in "${UIDS[@]}"; do
    sed -i "/^${pair%:*}:/d" /etc/passwd /etc/group
    echo "${pair%:*}:x:${pair#*:}:${pair#*:}::/nonexistent:/usr/sbin/nologin" >>/etc/passwd
    echo "${pair%:*}:x:${pair#*:}:" >>/etc/group
  done
  echo "nomad:200000:65536" | tee /etc/subuid >/etc/subgid
  [[ -s /etc/machine-id ]] || tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
  mkdir -p /etc/mountd
  cp "$HERE/mountd.toml" /etc/mountd/mountd.toml
  chown -R root:root /etc/mountd
  chmod 0644 /etc/mountd/mountd.toml
}

# A namespace stands for another machine.
make_link() {
  ip link set lo up
  unshare --net sleep infinity &
  OUTSIDE=$!
  # The child has entered its namespace when its namespace is no longer ours.
  eventually 5 differs_in_netns "$OUTSIDE" || return 1
  ip link add uplink0 type veth peer name eth0 netns "$OUTSIDE"
  ip address add "$HOST_ADDRESS/24" dev uplink0
  ip link set uplink0 up
  from_outside sh -c "
    ip link set lo up
    ip address add $OUTSIDE_ADDRESS/24 dev eth0
    ip link set eth0 up"
  # The kernel adds an address and routes until then, which a snapshot would show.
  eventually 5 no_tentative_address
}

from_outside() { nsenter --net="/proc/$OUTSIDE/ns/net" "$@"; }

differs_in_netns() {
  [[ $(readlink "/proc/$1/ns/net") != $(readlink /proc/self/ns/net) ]]
}

no_tentative_address() {
  ip -6 -o address show dev uplink0 scope link | grep -q fe80 &&
    [[ -z $(ip -6 -o address show tentative) ]]
}

# The programs where a package would have them.
make_programs() {
  local name
  mkdir -p "$LIBEXEC"/nomad/{bin,cni,plugins}
  cp "$BIN"/{mountd-cni,mountd-nomad-iptables} "$LIBEXEC"
  cp "$BIN/mountd-nomad-driver" "$LIBEXEC/nomad/plugins/mountd"
  for name in bridge firewall host-local loopback portmap; do
    ln -s ../../mountd-cni "$LIBEXEC/nomad/cni/$name"
  done
  for name in iptables ip6tables; do
    ln -s ../../mountd-nomad-iptables "$LIBEXEC/nomad/bin/$name"
  done
}

make_images() {
  local name
  mkdir -p "$IMAGE"/{usr,proc,sys,dev,etc,tmp,data,csi}
  for name in bin sbin lib lib64; do
    ln -s "usr/$name" "$IMAGE/$name"
  done
  mkdir -p "$DATA" /var/lib/nomad /var/lib/nomad-server /var/lib/cni
  chmod 0777 "$DATA"
  chown nomad:nomad /var/lib/nomad /var/lib/cni
  chown nomad-server:nomad-server /var/lib/nomad-server
}

make_world() {
  make_file_systems && make_accounts && make_cgroup && make_link && make_programs &&
    make_images
}

start_mountd() {
  "$BIN/mountd-launcher" --bin-dir "$BIN" --log "$WORLD/mountd.log" --restart-soon \
    >>"$WORLD/launcher.log" 2>&1 &
  LAUNCHER=$!
  step "" "mountd"
  check "mountd answers" eventually 10 ctl status
  # The first search for tasks starts one more executor, which stays. So it comes before
  # the snapshot.
  check "an allocation comes and goes" ctl_comes_and_goes
  [[ -e $WORLD/before ]] || snapshot "$WORLD/before"
}

ctl_comes_and_goes() {
  ctl call PrepareAllocation '["early", {}]' && ctl stop early
}

# as USER COMMAND...: runs the command without our privileges and environment. newuidmap
# needs its capabilities, so the bounding set stays as it is.
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/nomad "$@"
}

ctl() { as nomad "$BIN/mountctl" "$@"; }

get() { curl --silent --show-error --fail --noproxy '*' --max-time 5 "$@"; }
