# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Takes Debian's minimal system to the example allocation, as README.md says.

# Installs an editor that appends the administrator's configuration to its file, for
# the step of README.md that runs an editor.
provide_editor() {
  cat >/usr/local/bin/editor <<'SH'
#!/bin/sh
cat >>"$1" <<'TOML'
[host_volume.shared]
path = "/var/lib/volumes/shared"
propagation = ["private", "host-to-task", "bidirectional"]
[filesystem.homes]
type = "nfs4"
source = "localhost:/"
options = ["hard", "timeo=20", "noac"]
[plugin.csi-local]
type = "monolith"
command = ["/usr/libexec/mountd/csi-local", "--data-dir", "/var/lib/csi-local", "--create-on-stage"]
[network.default]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[[rule]]
users = ["nomad"]
host_volumes = ["shared"]
filesystems = ["homes"]
plugins = ["csi-local"]
control_plugins = ["csi-local"]
networks = ["default"]
host_ports = ["8080-8081"]
bidirectional = true
[timeouts]
plan_ms = 20000
probe_mounts_ms = 1000
probe_answer_ms = 5000
[limits]
mount_reserve = 500
TOML
SH
  chmod 0755 /usr/local/bin/editor
}

never_told() { ! log -u mountd | grep -F "$1"; }

packages_are_installed() {
  step 1 "the packages, as README.md says"
  # A server has a network manager. A shutdown must stop it after mountd, which
  # was_a_clean_shutdown checks.
  systemctl -q add-wants multi-user.target systemd-networkd.service
  systemctl start systemd-networkd.service
  useradd --create-home nomad
  mkdir -p /var/lib/volumes/shared
  provide_editor
  ln -s vm/packages build/packages
  # An installed Debian has read its package lists before.
  apt-get -qq update
  check "what was done before it booted" equals "$(readme_commands | grep '^cmake/')" \
    $'cmake/install-deps\ncmake/build-packages'
  check "apt-get install" as_in_readme apt-get
  check "mountd runs" systemctl -q is-active mountd.service
  check "the bus knew its user" never_told "does not give mountd its name"
  check "adduser" as_in_readme adduser
  check "editor" as_in_readme editor
  check "systemctl" as_in_readme systemctl
  check "that is all there is" equals "$(readme_commands | wc -l)" 6
  check "nothing is half installed" equals "$(dpkg --audit)" ""
}

an_allocation_runs() {
  step 2 "the user's allocation"
  check "the plugin becomes healthy" plugin_is_healthy
  check "the example runs" nomad mountctl run agent/examples/web.toml
  check "its mounts are the host's" equals "$(mounts_below $BASE/a/web)" 4
  start_tasks $BASE/a/web/server/data
  check "its mapped port answers" port_answers
  check "the doctor finds nothing wrong" mountctl doctor
}
