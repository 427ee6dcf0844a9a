# SPDX-License-Identifier: LGPL-2.1-or-later
# Functions that tests/job/enter and tests/job/run share: printing, checks, snapshots.

PASSED=0
FAILED=0
SKIPPED=0
CHECK_OUTPUT=/dev/null  # the script that sources this sets a file
# The factor by which all time limits grow, for emulated machines.
SLOWNESS=${MOUNTD_TEST_SLOWNESS:-1}

step() {
  if [[ -n $1 ]]; then
    printf '\n%s. %s\n' "$1" "$2"
  else
    printf '\n%s\n' "$2"
  fi
}

note() { printf '     %s\n' "$*"; }

indent() { sed 's/^/     | /'; }

# check TEXT COMMAND...: passes if the command succeeds, and shows its output if it
# fails. The job goes on either way. The command runs in this shell, so it may be a
# function that sets a variable.
check() {
  local text=$1
  shift
  if "$@" >"$CHECK_OUTPUT" 2>&1; then
    printf '  ok      %s\n' "$text"
    ((++PASSED))
    return 0
  fi
  printf '  FAILED  %s\n' "$text"
  head -n 40 "$CHECK_OUTPUT" | sed 's/^/          | /'
  ((++FAILED))
  return 1
}

# skip TEXT REASON: tells that a step is left out, because this machine cannot do it. Its
# checks do not count as held.
skip() {
  printf '  skipped %s: %s\n' "$1" "$2"
  ((++SKIPPED))
}

not() { ! "$@"; }

# eventually SECONDS COMMAND...: tries the command until it succeeds or the time is
# over. For work that mountd does by itself, never for results that a call has promised.
eventually() {
  local end=$((SECONDS + $1 * SLOWNESS)) output=
  shift
  while :; do
    output=$("$@" 2>&1) && return 0
    if ((SECONDS >= end)); then
      printf '%s\n' "$output"
      return 1
    fi
    sleep 0.05
  done
}

equals() {
  [[ $1 == "$2" ]] || { printf 'is:       %s\nexpected: %s\n' "$1" "$2"; return 1; }
}

# each_executor COMMAND...: runs the command with each executor's pid as its last
# argument. Succeeds if all succeed and there is at least one executor. A failure does
# not count if the executor has ended, because an executor ends with its connection, at
# any moment. `executors` lists only processes that the launcher or systemd started,
# because a child that an executor forks has the same name, and may have other
# capabilities.
each_executor() {
  local pid looked=0
  for pid in $(executors); do
    if "$@" "$pid"; then
      looked=1
    elif readlink "/proc/$pid/ns/mnt" >/dev/null; then
      return 1
    fi
  done
  ((looked))
}

# is_in_own NAMESPACE PID: succeeds if the process is in this shell's namespace.
is_in_own() { equals "$(readlink "/proc/$2/ns/$1")" "$(readlink "/proc/self/ns/$1")"; }

matches() {
  [[ $1 =~ $2 ]] || { printf 'is:       %s\nexpected: %s\n' "$1" "$2"; return 1; }
}

# json EXPRESSION <TEXT: prints the Python expression over the document d.
json() {
  /usr/bin/python3 -I -c "import json,sys; d=json.load(sys.stdin); print($1)" \
    2>/dev/null
}

# snapshot FILE: writes all that mountd could leave behind in these namespaces. Mounts
# are without their ids, because each mount has a new id. Links are names alone.
snapshot() {
  {
    echo "# mounts"
    # id parent major:minor root point options optional... - type source super
    awk '{ shared = ""; for (i = 7; $i != "-"; ++i) { f = $i; sub(/:.*/, "", f); shared = shared f "," }
           print $4, $5, $6, shared, $(i + 1), $(i + 2) }' /proc/self/mountinfo | LC_ALL=C sort
    echo "# links"
    ip -o link show | awk -F': ' '{ print $2 }' | LC_ALL=C sort
    echo "# addresses and routes"
    ip -o address show | awk '{ print $2, $3, $4 }' | LC_ALL=C sort
    { ip route show table all; ip -6 route show table all; } | LC_ALL=C sort
    ip neighbour show nud permanent | LC_ALL=C sort
    echo "# nft ruleset"
    nft list ruleset
    echo "# named network namespaces"
    ls -A /run/netns 2>/dev/null
  } >"$1" 2>&1
}
