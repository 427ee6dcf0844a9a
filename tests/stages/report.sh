# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# The counts of ./test: passed, failed and skipped tests, of each stage and in total.

PASSED=0 FAILED=0 SKIPPED=0
UNSTEADY=()  # tests that failed, and passed when they ran again (run_again)
# Each failure so far, with its output. The end of the run prints all of them again,
# because a log is often cut to its end.
FAILURES=$(mktemp)
# Builds ahead (stages.sh) end with this script.
declare -A AHEAD=()
clean_up() {
  rm -f "$FAILURES"
  ((!${#AHEAD[@]})) || pkill -TERM --session "$(IFS=,; echo "${AHEAD[*]}")" || true
}
trap clean_up EXIT
trap 'exit 130' INT TERM
# The stage under way, when it began, and the counts before it.
STAGE='' STAGE_BEGAN=0 STAGE_BEFORE=(0 0 0)
ROWS=()  # of the table at the end

stage() {
  end_stage
  STAGE=$* STAGE_BEGAN=$SECONDS STAGE_BEFORE=("$PASSED" "$FAILED" "$SKIPPED")
  printf '\n== %s, after %d:%02d minutes\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}

end_stage() {
  local took=$((SECONDS - STAGE_BEGAN)) row
  local counts=("$((PASSED - STAGE_BEFORE[0]))" "$((FAILED - STAGE_BEFORE[1]))" \
    "$((SKIPPED - STAGE_BEFORE[2]))")
  if [[ -n $STAGE ]]; then
    printf -v row '%-28s %7d %7d %8d %6d:%02d' "$STAGE" "${counts[@]}" \
      $((took / 60)) $((took % 60))
    ROWS+=("$row")
  fi
  STAGE=''
}

finish() {
  end_stage
  if [[ -s $FAILURES ]]; then
    printf '\n== what failed\n'
    head -n 200 "$FAILURES"
  fi
  printf '\n%-28s %7s %7s %8s %9s\n' stage passed failed skipped minutes
  ((!${#ROWS[@]})) || printf '%s\n' "${ROWS[@]}"
  ((PASSED + FAILED + SKIPPED)) || broken "no test was run"
  ((!${#UNSTEADY[@]})) || printf 'unsteady, failed and then passed three times alone: %s\n' \
    "${UNSTEADY[@]}"
  printf '\n%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
  ((FAILED == 0))
  exit
}

# in_time MINUTES STAGE: fails in CI once the run is older than that, and counts the stage
# as skipped. CI refuses a run that takes more than 90 minutes, and a machine may take
# three times as long as another. The nightly run leaves out nothing.
in_time() {
  if [[ ${CI:-} == true ]] && ((!NIGHTLY)) && ((SECONDS > $1 * 60)); then
    printf '\n== %s: LEFT OUT, because CI has no time for it after %d minutes\n' "$2" "$1"
    ((++SKIPPED))
    return 1
  fi
}

# broken TEXT: counts a failed step of ./test that is no test of its own.
broken() {
  echo "FAILED: $*" | tee -a "$FAILURES" >&2
  ((++FAILED))
}

# count_ctest JUNIT_FILE: adds ctest's own counts.
count_ctest() {
  local total failed skipped
  read -r total failed skipped < <(python3 - "$1" <<'PYTHON'
import sys
import xml.etree.ElementTree as tree
cases = tree.parse(sys.argv[1]).getroot().findall("testcase")
failed = [c for c in cases if c.get("status") == "fail"]
skipped = [c for c in cases if c.get("status") not in ("run", "fail")]
print(len(cases), len(failed), len(skipped))
PYTHON
  ) || { broken "reading $1"; return; }
  PASSED=$((PASSED + total - failed - skipped))
  FAILED=$((FAILED + failed))
  SKIPPED=$((SKIPPED + skipped))
}

# is_maybe_luck JUNIT_FILE: one or two tests failed, each by a check of its own. A
# sanitizer's report, a crash, or a test that did not end is no luck.
is_maybe_luck() {
  python3 - "$1" <<'PYTHON'
import re
import sys
import xml.etree.ElementTree as tree
REPORT = re.compile(r"ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadS")
ENDED = re.compile(r"^ *\d+ FAILED TESTS?$", re.M)  # gtest's last line
said = [case.findtext("system-out") or ""
        for case in tree.parse(sys.argv[1]).getroot().findall("testcase")
        if case.get("status") == "fail"]
luck = all(ENDED.search(text) and not REPORT.search(text) for text in said)
sys.exit(0 if 1 <= len(said) <= 2 and luck else 1)
PYTHON
}

# count_unsteady JUNIT_FILE: counts the failed tests of before that pass here as passed,
# and remembers their names.
count_unsteady() {
  local name
  while read -r name; do
    UNSTEADY+=("$STAGE: $name")
    PASSED=$((PASSED + 1)) FAILED=$((FAILED - 1))
  done < <(python3 -c '
import sys, xml.etree.ElementTree as tree
for case in tree.parse(sys.argv[1]).getroot().findall("testcase"):
    if case.get("status") == "run":
        print(case.get("name"))' "$1")
}

skipped_names() {
  python3 -c '
import sys, xml.etree.ElementTree as tree
for case in tree.parse(sys.argv[1]).getroot().findall("testcase"):
    if case.get("status") not in ("run", "fail"):
        print(case.get("name"))' "$1"
}

# Prints why each test failed, because thousands of tests have run since: some lines
# from each "Failure" or sanitizer's report, and the last lines.
tell_failures() {
  python3 - "$1" <<'PYTHON' | tee -a "$FAILURES"
import re
import sys
import xml.etree.ElementTree as tree
FAILURE = re.compile(r": Failure$|ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadS")
for case in tree.parse(sys.argv[1]).getroot().findall("testcase"):
    if case.get("status") != "fail":
        continue
    lines = (case.findtext("system-out") or "").splitlines()
    shown = set(range(len(lines) - 8, len(lines)))
    for at in [i for i, line in enumerate(lines) if FAILURE.search(line)][:6]:
        shown.update(range(at, at + 14))
    print("FAILED: " + case.get("name"))
    for at in sorted(i for i in shown if 0 <= i < len(lines)):
        print("  " + lines[at][:300])
PYTHON
}

# judge_skip NAME LIST: in CI a skip that LIST does not have counts as a failure, so
# that no test is left out unnoticed.
judge_skip() {
  if [[ ${CI:-} == true ]] && ! grep -qxF "$1" "$2"; then
    broken "$1 was skipped, and $2 does not list it"
    ((--SKIPPED))
  else
    echo "skipped: $1"
  fi
}

# judge_skips JUNIT_FILE LIST: calls judge_skip for each skipped test.
judge_skips() {
  local name
  while read -r name; do
    judge_skip "$name" "$2"
  done < <(skipped_names "$1")
}

# run_checks COMMAND...: runs a command whose checks count as tests. The command writes
# the counts to the file that it gets as its last argument: held, failed, and perhaps how
# many steps were skipped.
run_checks() {
  local result passed failed skipped=0
  result=$(mktemp)
  "$@" "$result" </dev/null | tee >(grep -E '^ *FAILED ' >>"$FAILURES")
  read -r passed failed skipped <"$result" || { passed=0 failed=1; }
  rm -f "$result"
  PASSED=$((PASSED + passed))
  FAILED=$((FAILED + failed))
  if ((skipped)); then
    ((++SKIPPED))
    judge_skip "a step of $1" tests/may-skip.txt
  fi
}

