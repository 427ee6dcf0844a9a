# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# Functions of the steps that use an installed mountd, under nspawn (installed-steps)
# and in the virtual machine (tests/vm/installed-steps).

# shellcheck source=tests/job/lib.sh
source tests/job/lib.sh
CHECK_OUTPUT=$(mktemp)

as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --init-groups "$@"; }
property() { systemctl show --property "$1" --value "$2"; }
pid_of() { property MainPID "${1:-mountd.service}"; }
# status_of PROC FIELD: prints that field of the process's status.
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
# has_status FIELD VALUE PROC: succeeds if the field has that value.
has_status() { equals "$(status_of "$3" "$1")" "$2"; }
executors() { pgrep -P 1 -x mountd-exec; }
log() { journalctl -q --no-pager -o cat "$@"; }

# readme_commands: prints the commands of README.md's section "Install", unchanged.
readme_commands() {
  awk '/^## / { here = $0 == "## Install" } here && sub(/^    /, "")' README.md
}

# as_in_readme WORD: runs the command of that section that begins with WORD, in a
# directory with the packages in build/packages. Answers yes to every question.
as_in_readme() {
  local command
  command=$(readme_commands | grep "^$1 ") ||
    { echo "README.md does not install by $1"; return 1; }
  (cd "$CLONE" && DEBIAN_FRONTEND=noninteractive bash -c "$command" < <(yes 2>/dev/null))
}
