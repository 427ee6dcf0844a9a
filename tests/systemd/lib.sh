# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# What the steps that use mountd as installed share, under nspawn (installed-steps)
# and in the virtual machine (tests/vm/installed-steps).

# shellcheck source=tests/job/lib.sh
source tests/job/lib.sh
CHECK_OUTPUT=$(mktemp)

as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --init-groups "$@"; }
property() { systemctl show --property "$1" --value "$2"; }
pid_of() { property MainPID "${1:-mountd.service}"; }
# PROC FIELD: of the process's status
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
# FIELD VALUE PROC
has_status() { equals "$(status_of "$3" "$1")" "$2"; }
executors() { pgrep -P 1 -x mountd-exec; }
log() { journalctl -q --no-pager -o cat "$@"; }

# The commands of README.md's section "Install", as they are there.
readme_commands() {
  awk '/^## / { here = $0 == "## Install" } here && sub(/^    /, "")' README.md
}

# as_in_readme WORD: does what that section says by the command that begins with
# WORD, in a directory where the packages are in build/packages. Who asks back is
# told yes.
as_in_readme() {
  local command
  command=$(readme_commands | grep "^$1 ") ||
    { echo "README.md does not install by $1"; return 1; }
  (cd "$CLONE" && DEBIAN_FRONTEND=noninteractive bash -c "$command" < <(yes 2>/dev/null))
}
