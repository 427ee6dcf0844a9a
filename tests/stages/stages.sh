# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# The stages of ./test. Each stage builds what it needs, runs, and counts by report.sh.
# If a stage fails, the others run all the same.

# need OPTION...: installs a stage's packages, by these options of cmake/install-deps.
need() { cmake/install-deps "$@" || { broken "installing what is needed: $*"; return 1; }; }

# run_ctest PRESET LABELS: runs the tests whose label matches the regular expression
# LABELS; "" is all tests.
run_ctest() {
  local dir=build/$1 junit=$PWD/build/$1/junit.xml labels=${ONLY:+^($ONLY)\$}
  local -a prefix=()
  # TSan of GCC 12 needs its shadow memory at fixed addresses, where a random layout
  # may put something else.
  [[ $1 != tsan* ]] || prefix=(setarch --addr-no-randomize)
  rm -f "$junit"
  "${prefix[@]}" ctest --test-dir "$dir" -j4 --output-on-failure --progress \
    --output-junit "$junit" -L "${labels:-$2}" </dev/null 2>&1 |
    sed -u 's/.*\r//' | grep -vE '^ *([0-9]+/[0-9]+ Test .* Passed|Start +[0-9]+: .*)|^$'
  if [[ -e $junit ]]; then
    count_ctest "$junit"
    judge_skips "$junit" tests/may-skip.txt
    tell_failures "$junit"
    run_again "$dir" "$junit" "${prefix[@]}"
  else
    broken "ctest of $1 wrote no results"
  fi
}

# run_again DIR JUNIT_FILE PREFIX...: runs one or two failed tests three times more, each
# alone, and counts as unsteady what passes all three. Only CI does so, because a test
# that failed by luck is no reason to refuse a change; the nightly run and a developer
# mend it. Three failures are no luck.
run_again() {
  local dir=$1 first=$2 again=$PWD/$1/junit-again.xml
  shift 2
  [[ ${CI:-} == true ]] && ((!NIGHTLY)) && is_maybe_luck "$first" || return
  rm -f "$again"
  "$@" ctest --test-dir "$dir" --rerun-failed --repeat until-fail:3 --output-on-failure \
    --output-junit "$again" </dev/null
  [[ -e $again ]] && count_unsteady "$again"
}

# Checks only that the bench runs through, because its figures depend on the machine.
run_bench() {
  stage "bench"
  if bench/run --quick </dev/null; then ((++PASSED)); else broken "bench/run"; fi
}

# Runs the guard on the release build. It is skipped if there is no record for this
# system. It may run beside anything else, because it measures no time.
run_guard() {
  local before=$((PASSED + FAILED))
  stage "guard"
  run_checks bench/guard/run --result
  if ((PASSED + FAILED == before)); then
    ((++SKIPPED))
    judge_skip guard tests/may-skip.txt
  fi
}

# run_ctest_in_vm OPTION... COMMAND...: runs tests/vm/run with these arguments, and
# counts the results of COMMAND, which is tests/vm/tests.
run_ctest_in_vm() {
  local out=build/vm/out counted=$((PASSED + FAILED + SKIPPED))
  rm -rf "$out"
  tests/vm/run --out "$out" "${KERNEL[@]}" "$@"
  if [[ -e $out/junit.xml ]]; then
    count_ctest "$out/junit.xml"
    judge_skips "$out/junit.xml" tests/vm/may-skip.txt
    tell_failures "$out/junit.xml"
    ((PASSED + FAILED + SKIPPED > counted)) || broken "the virtual machine ran no test"
  else
    broken "the virtual machine wrote no results"
  fi
}

# The tests on the real kernel, with the kernel that Debian's users have. It leaves out
# the tests that load a plugin of gRPC, because gRPC's own timers expire under
# emulation. The memory is for csi-local's images.
readonly VM_TARGETS=(exec_root_test copies_root_test exec_failure_points_test node_test
  csi_codec_test
  csi_local_test csi_channel_test
  # contents of the packages
  mountd mountd-closer mountd-exec mountd-csi csi-local mountctl mountd-cni mountd-cni-run
  mountd-nomad-iptables mountd-task-shim mountd_client_archive man)
run_vm() {
  stage "vm: tests"
  need --vm || return
  run_ctest_in_vm --timeout 4800 --memory 4096 \
    tests/vm/tests '^(root|csi)$' -E '^root/(NodeCsi|NodeSoak)'
  stage "vm: AppArmor"
  run_checks tests/vm/apparmor build/release
  stage "vm: installed"
  run_checks tests/vm/installed "${KERNEL[@]}" build/release
}

# CI has no time for the whole stage vm. It runs only these tests in the virtual machine,
# because CI's own kernel has no NFS (tests/may-skip.txt). The target builds the daemons,
# too.
readonly NFS_TARGETS=(node_test)
run_nfs() {
  stage "vm: NFS"
  need --vm || return
  run_ctest_in_vm tests/vm/tests '^root$' -R '^root/Nfs\.'
}

# The ./try that it runs on Debian 13 counts as one test.
run_debian13() {
  local out=build/debian13/out
  stage "debian13"
  need --debian13 || return
  rm -rf "$out"
  tests/debian13 --out "$out" | tee >(grep -E '^ *FAILED ' >>"$FAILURES")
  if [[ -e $out/junit.xml ]]; then
    ((++PASSED))
    count_ctest "$out/junit.xml"
    judge_skips "$out/junit.xml" tests/may-skip.txt
    tell_failures "$out/junit.xml"
  else
    broken "./try on Debian 13, or the build of its tests"
  fi
}

run_vagrant() {
  stage "vagrant"
  need --vagrant || return
  run_checks vagrant/run --result
}

# The build of the last release, and its main job with its programs and these.
readonly RELEASED_TARGETS=(mountd mountd-closer mountd-exec mountd-csi csi-local mountctl
  mountd-launcher)
run_released() {
  stage "released"
  run_checks tests/released/run "$PWD/build/release/bin"
}

# build_ahead PRESET SANITIZER: builds the preset beside the stages that follow, which
# leave a core idle for much of their time. The build yields to everything else. The
# stage of the preset waits for the build, and tells its errors.
build_ahead() {
  cmake/install-deps --sanitize "$2" || return
  mkdir -p build
  # The kernel shares a core between sessions first, so the build's session yields, too.
  # The build is not of the class idle, because a process of that class may keep a lock of
  # the kernel for seconds while others wait for the lock.
  setsid bash -c 'echo 19 >/proc/self/autogroup; exec nice -n 19 cmake/build-preset "$1"' \
    build "$1" >"build/$1.ahead.log" 2>&1 </dev/null &
  AHEAD[$1]=$!
}

# run_stage PRESET LABELS JOB: builds the preset, runs the tests with these labels, and
# the main job if JOB is 1.
run_stage() {
  local -a targets=()
  case $ONLY in
    vm) targets=("${VM_TARGETS[@]}") ;;
    nfs) targets=("${NFS_TARGETS[@]}") ;;
    released) targets=("${RELEASED_TARGETS[@]}") ;;
  esac
  stage "$1: build"
  [[ -z ${AHEAD[$1]:-} ]] || { wait "${AHEAD[$1]}"; unset "AHEAD[$1]"; }
  cmake/build-preset "$1" "${targets[@]}" ||
    { broken "the build of $1"; return; }
  if [[ ! $ONLY =~ ^(job|bench|guard|vm|nfs|released)$ ]]; then
    [[ $1 != asan ]] || ((!TSAN || NIGHTLY)) || build_ahead tsan thread
    stage "$1: tests"
    run_ctest "$1" "$2"
  fi
  if (($3)) && [[ -z $ONLY || $ONLY == job ]]; then
    stage "$1: the main job"
    run_checks tests/job/enter "$PWD/build/$1/bin"
  fi
}

run_lint() {
  local -a files
  mapfile -t files < <(git ls-files '*.cc' '*.h')
  stage "format"
  need --lint || return
  if clang-format --dry-run --Werror "${files[@]}"; then
    ((++PASSED))
  else
    broken "clang-format"
  fi
  stage "clang-tidy"
  if cmake/build-preset tidy; then ((++PASSED)); else broken "clang-tidy"; fi
}

# The fuzz targets write their findings to build/fuzz/run.
run_fuzz() {
  local passed failed
  stage "fuzz"
  need --sanitize address || return
  # CI looks whether the targets still run; the nightly run searches.
  tests/fuzz/run --seconds "$([[ ${CI:-} == true ]] && echo 15 || echo 60)" </dev/null 2> >(tee -a "$FAILURES" >&2)
  read -r passed failed < <(python3 -c '
import json
crashes = [r["crashes"] for r in json.load(open("build/fuzz/results.json"))]
print(crashes.count(0), len(crashes) - crashes.count(0))') ||
    { broken "tests/fuzz/run"; return; }
  PASSED=$((PASSED + passed))
  FAILED=$((FAILED + failed))
}

run_coverage() {
  stage "coverage"
  need --lint || return
  if tests/coverage; then ((++PASSED)); else broken "tests/coverage"; fi
}


# run_asan [LABELS]: runs LABELS besides the usual labels. Only the nightly run names
# `fault`, because failure points and the soak take long, and `real` and `systemd`,
# because most of what runs there is others' code.
run_asan() {
  stage "asan: what is needed"
  need --sanitize address || return
  run_stage asan "^(unit|dbus|root|csi|agent|fuzz${1:+|$1})\$" 1
}

# run_tsan PRESET LABELS: only the nightly run has whole nodes, because most processes of
# a node have one thread.
run_tsan() {
  stage "tsan: what is needed"
  need --sanitize thread || return
  run_stage "$1" "$2" 0
}

# run_seeds RUNS KIND...: runs each kind with RUNS fresh seeds.
run_seeds() {
  local runs=$1
  shift
  stage "seeds: $*"
  run_checks tests/seeds --runs "$runs" "$@" --result
}

# run_known_seeds: runs the seeds that once found a fault.
run_known_seeds() {
  stage "seeds: known"
  run_checks tests/seeds --known --result
}

# CI runs this beside its own seeds, which never change.
run_seed_of_the_day() {
  stage "seed of the day: $DAY"
  echo "MOUNTD_DAY=$DAY does the same again; tests/seeds --seed $DAY that alone"
  run_checks tests/seeds --jobs 2 --seed "$DAY" --result
}
