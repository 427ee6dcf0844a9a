# SPDX-License-Identifier: LGPL-2.1-or-later
# The steps of the main job. Each prints what it does; none stops the job.

# CAP_CHOWN 0, CAP_DAC_READ_SEARCH 2, CAP_SETGID 6, CAP_SETUID 7,
# CAP_NET_ADMIN 12, CAP_SYS_CHROOT 18, CAP_SYS_PTRACE 19, CAP_SYS_ADMIN 21
readonly EXEC_CAPS=00000000002c10c5
readonly NO_CAPS=0000000000000000

executors() { pgrep -P "$LAUNCHER" -x mountd-exec; }

# show_process NAME PID
show_process() {
  local name=$1 pid=$2
  printf '     %s: pid %s' "$name" "$pid"
  local field
  for field in Uid CapPrm CapEff CapBnd NoNewPrivs; do
    printf '  %s %s' "$field" "$(status_field "$pid" "$field")"
  done
  printf '\n'
}

# has_caps CAPABILITIES PID
has_caps() {
  local caps=$1 pid=$2 field
  for field in CapPrm CapEff CapBnd; do
    equals "$field $(status_field "$pid" $field)" "$field $caps" || return 1
  done
}

was_activated() {
  local environment
  environment=$(tr '\0' '\n' <"/proc/$1/environ")
  grep -x LISTEN_FDS=1 <<<"$environment" &&
    grep -x "LISTEN_PID=$1" <<<"$environment"
}

bus_owner_uid() {
  dbus-send --system --print-reply=literal --dest=org.freedesktop.DBus \
    /org/freedesktop/DBus org.freedesktop.DBus.GetConnectionUnixUser \
    string:org.mountd1 | awk '{ print $2 }'
}

owns_the_name() { equals "$(bus_owner_uid)" "$(id -u mountd)"; }

step_activation() {
  step 1 "mountd starts through its activation path"
  "$BIN/mountd-launcher" --bin-dir "$BIN" --log "$WORLD/daemons.log" \
    >"$WORLD/launcher.log" 2>&1 &
  LAUNCHER=$!
  check "the sockets are there before any service" \
    eventually 5 test -S /run/mountd/csi.sock
  check "no service runs yet" not pgrep -x 'mountd|mountd-closer|mountd-exec|mountd-csi'
  check "an ordinary user's first call is answered" ctl status
  show alice status
  local mountd
  mountd=$(pid_of mountd)
  check "mountd runs" test -n "$mountd" || return
  check "mountd got its listening socket as LISTEN_FDS" was_activated "$mountd"
  show_process mountd "$mountd"
  check "mountd is a user of its own" \
    equals "$(status_field "$mountd" Uid)" "$(id -u mountd)"
  check "mountd has no capability, and can get none" \
    has_caps $NO_CAPS "$mountd"
  check "an executor runs" eventually 5 executors
  each_executor show_process mountd-exec
  check "mountd-exec has its few capabilities and no other" \
    eventually 5 each_executor has_caps $EXEC_CAPS
  check "mountd-exec is in the host's mount namespace" eventually 5 each_executor is_in_own mnt
  check "org.mountd1 is owned on the system bus, by mountd's user" \
    eventually 5 owns_the_name
  check "the same API answers on the system bus" ctl --bus status

  # The first search for tasks starts one more executor, which stays. So it comes before
  # the snapshots.
  check "an allocation comes and goes" ctl_comes_and_goes
  snapshot "$WORLD/before"
  kinds_of_fds "$mountd" >"$WORLD/fds.before"
  ls -AR /run/mountd/base >"$WORLD/base.before"
}

ctl_comes_and_goes() {
  ctl call PrepareAllocation '["early", {}]' && ctl mount early t n --source tmpfs --size 64K && ctl stop early
}

# start_task NAME NETNS|"" [HOST_PATH TASK_PATH]... -- COMMAND...: starts a task in the
# background, in namespaces of its own. Sets TASK to its pid. Its root is
# /mnt/task-NAME in its mount namespace.
start_task() {
  local name=$1 netns=$2
  shift 2
  local -a enter=()
  [[ -z $netns ]] || enter=(nsenter --net="$netns")
  rm -f "$WORLD/$name.ready"
  mkdir -p "/mnt/task-$name"
  "${enter[@]}" unshare --mount --propagation unchanged \
    "$JOB/task" "$WORLD/$name.ready" "/mnt/task-$name" "$@" \
    >>"$WORLD/$name.log" 2>&1 &
  TASK=$!
  eventually 5 test -e "$WORLD/$name.ready"
}

end_task() {
  kill -KILL "$1" && wait "$1" 2>/dev/null
  true
}

# Starts the plugin as a task. It runs as root, as under a container daemon, in a mount
# namespace that shares the plugin's directory with the host both ways.
start_plugin() {
  local -a mounts
  mapfile -t mounts < <(json '"\n".join(p for m in d["mounts"] if m["task_path"] != "/dev" for p in (m["host_path"], m["task_path"]))' <"$WORLD/plugin.json")
  local endpoint
  endpoint=$(json 'd["endpoint"]' <"$WORLD/plugin.json")
  start_task plugin "" "${mounts[@]}" -- env -i PATH=/usr/sbin:/usr/bin \
    CSI_ENDPOINT="$endpoint" \
    "$JOB/plugin" "$BIN/csi-local" /mnt/task-plugin "$CSI_DATA"
  PLUGIN=$TASK
}

plugin_is() { equals "$(ctl plugin status csi-local --json | json 'd["state"]')" "$1"; }

step_plugin() {
  step 2 "csi-local is registered as a plugin"
  check "registration answers" ctl_to plugin.json plugin register csi-local \
    --type node --mount-dir /csi --json
  show alice plugin register csi-local --type node --mount-dir /csi
  local directory
  directory=$(json 'd["host_path"]' <"$WORLD/plugin.json")
  check "its directory is there, for root alone" \
    equals "$(stat -c '%U %a' "$directory")" "root 700"
  check "CSI_ENDPOINT is the path as the task sees it" equals \
    "$(json 'd["endpoint"]' <"$WORLD/plugin.json")" unix:///csi/csi.sock
  check "the directory's mount is bidirectional" matches \
    "$(json '[(m["task_path"], m["propagation"]) for m in d["mounts"]]' <"$WORLD/plugin.json")" \
    "'/csi', 'bidirectional'"
  check "it is not healthy before it runs" plugin_is starting
  check "its task starts" start_plugin
  check "it is probed until it is ready" eventually 10 plugin_is healthy
  show alice plugin status csi-local
  local status
  status=$(ctl plugin status csi-local --json)
  check "provider, version and node id are fingerprinted" matches \
    "$(json 'd["provider"] + " " + d["vendor_version"] + " " + d["node_id"]' <<<"$status")" \
    '^[^ ]+ [^ ]+ node-1$'
  show alice plugin list
  local csi
  csi=$(pid_of mountd-csi)
  check "mountd-csi runs" test -n "$csi" || return
  show_process mountd-csi "$csi"
  check "mountd-csi has no capability" has_caps $NO_CAPS "$csi"
  check "mountd-csi is neither root nor mountd" not matches \
    "$(status_field "$csi" Uid)" "^(0|$(id -u mountd))\$"
}

# ctl_to FILE ARGUMENTS...: runs mountctl as alice, and keeps its output in the file.
ctl_to() {
  local file=$WORLD/$1
  shift
  ctl "$@" >"$file" || return 1
}

step_run() {
  step 3 "an ordinary user runs agent/examples/web.toml"
  show alice run --cgroup "$CGROUP" /mnt/project/agent/examples/web.toml
  check "the same again is right at any time" \
    ctl run /mnt/project/agent/examples/web.toml
  check "status --json is JSON" ctl_to web.json status web --json
  show alice status web
  check "a namespace, a port, a volume and four mounts are there" equals \
    "$(json '[bool(d["networks"][0]["netns_path"]), len(d["networks"][0]["ports"]), len(d["volumes"]), sorted(m["propagation"] for m in d["mounts"])]' <"$WORLD/web.json")" \
    "[True, 1, 1, ['bidirectional', 'host-to-task', 'private', 'private']]"
}

web() { json "$1" <"$WORLD/web.json"; }
mount_path() { web "next(m['host_path'] for m in d['mounts'] if m['name'] == '$1')"; }

in_task() { nsenter --mount="/proc/$WEB_TASK/ns/mnt" --net="/proc/$WEB_TASK/ns/net" "$@"; }

# Starts the allocation's task with the mounts of mountd's answer. The task is an HTTP
# server in the allocation's namespaces, which serves the CSI volume.
start_web_task() {
  local -a mounts
  mapfile -t mounts < <(web '"\n".join(p for m in d["mounts"] for p in (m["host_path"], m["task_path"]))')
  start_task web "$(web 'd["networks"][0]["netns_path"]')" "${mounts[@]}" -- \
    /usr/bin/python3 -I "$JOB/http_server.py" 80 /mnt/task-web/data
  local result=$?
  WEB_TASK=$TASK
  echo "$WEB_TASK" >"$CGROUP/cgroup.procs"
  return $result
}

has_it_all_as_made() {
  ctl verify web server "$WEB_TASK" --json >"$WORLD/verify.json" &&
    equals "$(json '[d["ok"], len(d["mounts"])]' <"$WORLD/verify.json")" "[True, 4]"
}

# Starts a process of the task with its working directory in the volume.
sit_in_volume() {
  nsenter --mount="/proc/$WEB_TASK/ns/mnt" \
    sh -c "cd /mnt/task-web/data && exec sleep 60" &
  SITTER=$!
  echo "$SITTER" >"$CGROUP/cgroup.procs"
  eventually 5 holds_the_volume "$SITTER"
}

holds_the_volume() {
  ctl holders web server data --json >"$WORLD/holders.json" || return 1
  matches "$(json '[(h["pid"], h["how"]) for h in d["holders"]]' <"$WORLD/holders.json")" \
    "\\($1, 'cwd'\\)"
}

proof_of_the_task() {
  note "the running task is looked at:"
  check "its mounts are as they were made" has_it_all_as_made
  show alice verify web server "$WEB_TASK"
  check "who uses the volume is told" sit_in_volume
  show alice holders web server data
  end_task "$SITTER"
  check "Unmount is Busy while the task has its runtime's copy, and names it" \
    matches "$(ctl unmount web server data 2>&1)" \
    "Busy: .*copies of it: python3 \\(pid $WEB_TASK, mount\\)"
  # In the kernel a runtime's copy does not keep mountd's mount busy. This process does,
  # because it is in the mount itself.
  bash -c "cd '$(mount_path data)' && exec sleep 60" &
  SITTER=$!
  echo "$SITTER" >"$CGROUP/cgroup.procs"
  eventually 5 holds_the_volume "$SITTER"
  check "Unmount is Busy, and names it" matches \
    "$(ctl unmount web server data --tasks ignore 2>&1)" \
    "Busy: .*sleep \\(pid $SITTER, cwd\\)"
  check "another user is told nothing" matches \
    "$(as bob "$BIN/mountctl" holders web server data 2>&1)" "PermissionDenied: "
  end_task "$SITTER"
  show alice tree
}

says_hello() { equals "$("$@")" "hello from the volume"; }

check_web_answers() {
  local address address6
  address=$(web 'd["networks"][0]["address"].split("/")[0]')
  address6=$(web 'd["networks"][0]["address6"].split("/")[0]')
  check "HTTP on its own IPv4 address ($address)" \
    eventually 5 says_hello get "http://$address/index.html"
  check "HTTP on its own IPv6 address ($address6)" \
    says_hello get "http://[$address6]/index.html"
  check "HTTP on the mapped port, from this host" \
    says_hello get "http://$HOST_ADDRESS:8080/index.html"
  check "HTTP on the mapped port, from another machine" \
    says_hello from_outside curl -sS --noproxy '*' --max-time 5 \
    "http://$HOST_ADDRESS:8080/index.html"
  check "no other port is mapped" not from_outside curl -sS --noproxy '*' \
    --max-time 1 "http://$HOST_ADDRESS:80/index.html"
}

has_flags() {
  local options
  options=$(findmnt --noheadings --first-only --output OPTIONS --mountpoint "$1")
  matches ",$options," ',nosuid,' && matches ",$options," ',nodev,'
}

step_proof() {
  step 4 "proof from inside and outside"
  check "the task starts with the mounts as answered" start_web_task
  local root=/mnt/task-web name

  check "the volume can be written in the task" in_task \
    sh -c "echo 'hello from the volume' >$root/data/index.html"
  check "and the file is the plugin's" says_hello \
    find "$CSI_DATA" -name index.html -exec cat {} +
  check "and is seen at the mount, from the host" \
    says_hello cat "$(mount_path data)/index.html"
  for name in data shared-private shared-host-to-task shared-bidirectional; do
    check "$name is nosuid and nodev" has_flags "$(mount_path $name)"
  done

  note "a mount made later on the host:"
  local shared=$VOLUMES/shared
  mkdir "$shared/later"
  mount -t tmpfs later "$shared/later"
  touch "$shared/later/from-the-host"
  check "shows up under host-to-task" \
    in_task test -e "$root/shared/host-to-task/later/from-the-host"
  check "shows up under bidirectional" \
    in_task test -e "$root/shared/bidirectional/later/from-the-host"
  check "does not show up under private" \
    in_task test ! -e "$root/shared/private/later/from-the-host"

  note "a mount made in the task:"
  local mode
  for mode in private host-to-task bidirectional; do
    in_task sh -c "mkdir $root/shared/$mode/in-$mode &&
      mount -t tmpfs inside $root/shared/$mode/in-$mode &&
      touch $root/shared/$mode/in-$mode/from-the-task"
  done
  check "shows up on the host under bidirectional" \
    test -e "$shared/in-bidirectional/from-the-task"
  check "does not show up under host-to-task" \
    test ! -e "$shared/in-host-to-task/from-the-task"
  check "does not show up under private" \
    test ! -e "$shared/in-private/from-the-task"
  for mode in private host-to-task bidirectional; do
    in_task umount "$root/shared/$mode/in-$mode"
  done
  umount "$shared/later"
  rmdir "$shared"/{later,in-private,in-host-to-task,in-bidirectional}

  note "a process in the allocation's network namespace answers:"
  check_web_answers
  proof_of_the_task
}

# refused USER ERROR TEXT ARGUMENTS...: checks that mountctl as USER fails with one of
# the errors (an extended regular expression), and shows what mountctl says.
refused() {
  local user=$1 error=$2 text=$3 output status
  shift 3
  output=$(as "$user" "$BIN/mountctl" "$@" 2>&1)
  status=$?
  check "$text" matches "$status $output" "^1 (.*"$'\n'")?mountctl: org\.mountd1\.Error\.($error): "
  printf '%s\n' "$output" | tail -n 2 | indent
}

everything_known() {
  ctl status --json | json '[d["plugins"], d["allocations"], d["volumes"], d["owed"]]'
  ctl status web --json
}

step_refusals() {
  step 6 "what must be refused"
  snapshot "$WORLD/refusals.before"
  everything_known >"$WORLD/known.before" 2>&1
  refused alice "InvalidArgument|FailedPrecondition|PermissionDenied" \
    "bidirectional on a volume mounted read-only" \
    mount web server extra --source host:shared --read-only \
    --propagation bidirectional
  refused alice "InvalidArgument|FailedPrecondition|PermissionDenied" \
    "bidirectional on a read-only volume" \
    mount web server extra --source host:fixed --propagation bidirectional
  refused bob PermissionDenied "another user's allocation: to see it" status web
  refused bob PermissionDenied "another user's allocation: to mount in it" \
    mount web server extra --source host:shared --read-only
  refused bob PermissionDenied "another user's allocation: to stop it" stop web
  refused bob PermissionDenied "a plugin that no rule grants" \
    plugin unregister csi-local
  refused alice InvalidArgument "an id with ../" \
    call PrepareAllocation '["../web", {}]'
  refused alice InvalidArgument "a mount's name with ../" \
    mount web server ../../etc --source host:shared
  refused alice InvalidArgument "an unknown option key" \
    call PrepareAllocation '["other", {"colour": "red"}]'
  refused alice "NotFound|PermissionDenied" "an undeclared host volume" \
    mount web server extra --source host:undeclared
  refused bob PermissionDenied "a host port outside the rule's range" \
    call SetupNetwork '["web", "bridge", [["p", "", 22, 0, 1, "tcp"]], {}]'
  refused bob AlreadyExists "a host port already taken" run "$JOB/taken.toml"
  everything_known >"$WORLD/known.after" 2>&1
  check "none of it changed what mountd knows" \
    diff -u "$WORLD/known.before" "$WORLD/known.after"
  snapshot "$WORLD/refusals.after"
  check "none of it left anything in the kernel" \
    diff -u "$WORLD/refusals.before" "$WORLD/refusals.after"
}

# Prints the state of the allocation that must be the same after a process was killed
# and came back. The health of mounts is left out, because mountd does not know it before
# its next probe.
allocation_known() { ctl status web --json | grep -v '"health":'; }

# kill_half_way NAME PID...: kills the processes while mountctl sets up an allocation.
kill_half_way() {
  local name=$1 run
  shift
  ctl run "$JOB/half.toml" >"$WORLD/half.log" 2>&1 &
  run=$!
  sleep 0.0$((RANDOM % 5 + 1))
  kill -KILL "$@"
  if [[ $name == csi-local ]]; then
    wait "$PLUGIN" 2>/dev/null
    # mountd still retries the call.
    check "the plugin's task is started again" start_plugin
  fi
  wait "$run"
  note "killed $name ($*) while allocation half was being set up: mountctl run said $?"
}

plugin_runs() { kill -0 "$PLUGIN" 2>/dev/null; }

step_kills() {
  step 7 "each process is killed half way, and starts again"
  local name pids
  allocation_known >"$WORLD/alloc.before"
  for name in mountd mountd-closer mountd-exec mountd-csi csi-local; do
    pids=$(pgrep -x "$name" | xargs)
    if ! check "$name runs" test -n "$pids"; then continue; fi
    # shellcheck disable=SC2086
    kill_half_way "$name" $pids
    check "mountd answers" eventually 10 ctl status
    check "the plugin is healthy again" eventually 10 plugin_is healthy
    allocation_known >"$WORLD/alloc.after" 2>&1
    check "the allocation is still there and known, unchanged" \
      diff -u "$WORLD/alloc.before" "$WORLD/alloc.after"
    check "it still answers on the mapped port" \
      says_hello get "http://$HOST_ADDRESS:8080/index.html"
    check "the interrupted set-up succeeds when asked for again" \
      eventually 10 ctl run "$JOB/half.toml"
    check "and is torn down" ctl stop half
  done
  check "each mount still works" in_task cat /mnt/task-web/data/index.html
  check_web_answers
  show alice status
  show alice status web
}

step_stop() {
  note "now the task ends, and the allocation is stopped"
  end_task "$WEB_TASK"
  rmdir /mnt/task-web
  check "stop answers with the receipt" ctl_to receipt.json stop web --json
  indent <"$WORLD/receipt.json"
  check "the node is detached, the volume unstaged" equals \
    "$(json '[d["allocation"], d["node_detached"], [(v["volume"], v["unstaged"]) for v in d["volumes"]]]' <"$WORLD/receipt.json")" \
    "['web', True, [('web-data', True)]]"
  check "stop again succeeds" ctl_to receipt2.json stop web --json
  check "with the same receipt" diff "$WORLD/receipt.json" "$WORLD/receipt2.json"
  check "and the receipt can be read" ctl receipt web
  check "the volume's content is still the plugin's" says_hello \
    find "$CSI_DATA" -name index.html -exec cat {} +
  check "nothing is owed" equals "$(ctl owed --json)" "[]"
}

# Checks for more fds, not for other numbers, because at the first count a connection
# may have been about to end.
no_more_fds() {
  kinds_of_fds "$(pid_of mountd)" >"$WORLD/fds.after"
  awk 'NR == FNR { n = $1; $1 = ""; before[$0] = n; next }
       { n = $1; $1 = ""; if (n > before[$0]) { more = 1; print "+", n, $0 } }
       END { exit more }' "$WORLD/fds.before" "$WORLD/fds.after"
}

same_kernel() {
  snapshot "$WORLD/after"
  diff -u "$WORLD/before" "$WORLD/after"
}

same_base() {
  ls -AR /run/mountd/base >"$WORLD/base.after"
  diff -u "$WORLD/base.before" "$WORLD/base.after"
}

service_processes_gone() { ! pgrep -x 'mountd|mountd-closer|mountd-exec|mountd-csi'; }

step_nothing_left() {
  step 9 "nothing is left, and what it cost"
  check "twenty short allocations, one after the other" \
    ctl_to soak.log soak --allocations 20 --mounts 3 --first-port 20000
  printf '     the agent'"'"'s side, the socket included:\n'
  indent <"$WORLD/soak.log"
  printf '     and mountd'"'"'s own figures (p50 in the column MEDIAN):\n'
  show alice stats
  check "the plugin is let go of" ctl plugin unregister csi-local
  end_task "$PLUGIN"
  rmdir /mnt/task-plugin
  check "again, too" ctl plugin unregister csi-local
  check "mounts, links, nft ruleset and namespaces are what they were" \
    eventually 3 same_kernel
  check "the plugin's directory is gone, the base is empty" \
    eventually 3 same_base
  check "mountd has no more open fds than it had" eventually 5 no_more_fds
  kill -TERM "$LAUNCHER"
  check "SIGTERM ends all services" eventually 10 service_processes_gone
  wait "$LAUNCHER"
  check "none of them had to be killed" \
    not grep -E 'killing|mountd pid [0-9]+: (signal SIG(ABRT|SEGV|BUS)|exit status [1-9])' "$WORLD/launcher.log"
  kill "$OUTSIDE" "$BUS"
}
