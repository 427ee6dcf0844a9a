# SPDX-License-Identifier: LGPL-2.1-or-later
# The step of the main job in which an ordinary user runs a web server as a rootless
# container. tests/job/run sources it after inbox.sh.

readonly ALICE=/var/lib/alice  # her state and her image
readonly SITE_PORT=8090
readonly FIRST_SUBID=200000 SUBIDS=65536
readonly TASK_CGROUP=$CGROUP/tasks

# agent COMMAND...: runs the command as alice's agent, in the cgroup that is delegated to
# her. It has no capability. Set-user-ID programs work, because newuidmap is one.
agent() {
  (
    echo "$BASHPID" >"$TASK_CGROUP/agent/cgroup.procs"
    exec setpriv --reuid alice --regid alice --init-groups --inh-caps=-all \
      env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=$ALICE XDG_STATE_HOME=$ALICE/state \
      MOUNTCTL_SHIM="$BIN/mountd-task-shim" \
      DBUS_SYSTEM_BUS_ADDRESS="$DBUS_SYSTEM_BUS_ADDRESS" "$@"
  )
}

tasks() { agent "$BIN/mountctl" "$@"; }

# show_task ARGUMENTS...: prints a mountctl command of alice's agent, and its output.
show_task() {
  printf '     alice$ mountctl %s\n' "$*"
  tasks "$@" 2>&1 | indent
}

make_task_world() {
  mkdir -p $ALICE/state "$TASK_CGROUP/agent"
  chown -R alice:alice $ALICE "$TASK_CGROUP"
  local file
  for file in /etc/subuid /etc/subgid; do
    echo "alice:$FIRST_SUBID:$SUBIDS" >$file
    chmod 0644 $file
  done
}

# Prints why this machine cannot run rootless containers; nothing if it can.
why_no_tasks() {
  local program
  for program in crun newuidmap newgidmap umoci skopeo busybox; do
    command -v $program >/dev/null || { echo "$program is not installed"; return; }
  done
  agent unshare --user --map-root-user true 2>&1
}

# Makes an image of busybox alone, as an OCI layout, without a network.
make_image() {
  local root=$ALICE/root applet
  mkdir -p $root/{bin,etc,tmp}
  chmod 1777 $root/tmp
  cp "$(command -v busybox)" $root/bin/busybox
  for applet in sh httpd cat id sleep stty true tty; do ln -s busybox $root/bin/$applet; done
  echo 'web:x:1000:1000::/:/bin/sh' >$root/etc/passwd
  echo 'web:x:1000:' >$root/etc/group
  chown -R alice:alice $root
  # The home is /, because a working directory in a volume would keep the volume.
  agent sh -ec "cd $ALICE
    umoci init --layout image
    umoci new --image image:web
    umoci insert --rootless --image image:web root /
    umoci config --image image:web --config.user web --config.env PATH=/bin \
      --config.cmd sh --config.cmd -c \
      --config.cmd 'echo serving; echo mine >/tmp/mine; exec httpd -f -p 8080 -h /'
    rm -r root"
}

site() { get "http://$HOST_ADDRESS:$SITE_PORT/data/index.html"; }
site_says() { equals "$(site 2>&1)" "$1"; }

# Prints the web server's pid. Its children have its name.
server() { pgrep -o -x httpd; }

# Only processes of her subordinate ids are a container's.
is_rootless() {
  equals "$(stat -c %u "/proc/$(server)")" $((FIRST_SUBID + 999)) &&
    differs_in_netns "$(server)"
}

in_site() { tasks exec site/server -- "$@"; }

# task_field EXPRESSION: prints the expression over the task t and the job j of
# `mountctl ps`.
task_field() {
  tasks ps site --json | json "[$1 for j in d for t in j['tasks']][0]"
}
matches_task() { matches "$(task_field 't["state"] + ": " + t["reason"]')" "$1"; }
task_is() { equals "$(task_field 't["state"]')" "$1"; }

start_the_site() {
  check "an image is made of busybox, without a network" make_image
  show_task run --cgroup "$TASK_CGROUP" "$JOB/site.toml"
  check "its web server runs" task_is running
  check "as a subordinate id of alice's, in the allocation's network" is_rootless
  show_task ps
  check "its mounts are as they were made" is_verified
  check "a command in it writes to the volume" \
    in_site sh -c 'echo "hello from the task" >/data/index.html'
  check "HTTP on the mapped port, from this host" site_says "hello from the task"
  check "HTTP on the mapped port, from another machine" equals "hello from the task" \
    "$(from_outside curl -sS --noproxy '*' --max-time 5 "http://$HOST_ADDRESS:$SITE_PORT/data/index.html" 2>&1)"
}

# in_terminal COMMAND...: runs a command of alice's agent in a terminal of 33 lines, and
# returns its exit status.
in_terminal() {
  # A FIFO has no end, which script(1) would send to the command.
  [[ -p $WORLD/keyboard ]] || mkfifo "$WORLD/keyboard"
  agent timeout $((20 * SLOWNESS)) script --quiet --return \
    --command "stty rows 33 cols 101; $*" /dev/null <>"$WORLD/keyboard" | tr -d '\r'
  return "${PIPESTATUS[0]}"
}

# exits CODE COMMAND...
exits() {
  "${@:2}"
  equals $? "$1"
}

reach_into_the_site() {
  printf '     alice$ %s\n' 'mountctl exec -it site/server -- sh'
  local mountctl="$BIN/mountctl"
  # A command may run before its terminal has a size.
  check "exec -it gives a command a terminal, which gets the size of this one" equals \
    "$(in_terminal "$mountctl exec -it site/server -- sh -c 'tty; until stty size 2>&-; do :; done'" | xargs)" \
    "/dev/pts/0 33 101"
  check "its exit code comes through" exits 7 \
    in_terminal "$mountctl exec -it site/server -- sh -c 'exit 7'"
  check "a signal that ends it does, too" exits 137 in_site sh -c 'kill -KILL $$'
  check "without a terminal, so do its input and its exit code" exits 3 \
    eval 'echo "exit 3" | tasks exec -i site/server -- sh'
  check "mountctl exec is killed: its command ends" exec_ends_with_its_caller
  check "logs has what the web server wrote" equals "$(tasks logs site/server)" serving
}

run_one() { tasks task run --rm --image oci:$ALICE/image:web "$@"; }

# Runs a task whose newuidmap is killed before it maps. Succeeds if the run fails.
kill_newuidmap() {
  local killed=$WORLD/newuidmap status
  printf '#!/bin/sh\nkill -KILL $$\n' >"$killed"
  chmod 0755 "$killed"
  mount --bind "$killed" /usr/bin/newuidmap
  run_one --name killed -- true
  status=$?
  umount /usr/bin/newuidmap
  ((status != 0))
}

run_single_tasks() {
  printf '     alice$ %s\n' \
    "mountctl task run --rm --image oci:image:web --volume shared:/shared:ro -- sh -c ..."
  check "one line runs a task on a volume: what it prints and its exit code come through" \
    equals "$(run_one --volume shared:/shared:ro -- \
      sh -c 'test -d /shared && ! (: >/shared/x) 2>&-; echo "$?"; exit 5' 2>&1; echo $?)" \
    $'0\n5'
  check "newuidmap is killed: the run fails" kill_newuidmap
  check "the same run works afterwards" run_one --name killed -- true
  check "only the site's task is left" \
    equals "$(tasks ps --json | json '[j["allocation"] for j in d]')" "['site']"
}

# Kills `mountctl exec` while its command runs. Succeeds if the command ends.
exec_ends_with_its_caller() {
  in_site sleep 4321 &
  local caller=$!
  eventually 5 pgrep -f '^sleep 4321' >/dev/null || return
  pkill -KILL -f 'exec site/server -- sleep 4321'
  wait $caller
  eventually 5 not pgrep -f '^sleep 4321'
}

replace_in_the_site() {
  local before
  before=$(server)
  in_site sh -c 'echo "hello from the other volume" >/other/index.html'
  show_task mount site server data --source volume:other \
    --propagation host-to-task --task-path /data --replace
  check "its volume is replaced under it: it serves the other one" \
    site_says "hello from the other volume"
  check "the same process" equals "$(server)" "$before"
  check "and the first one again" eval 'tasks mount site server data \
    --source volume:data --propagation host-to-task --task-path /data --replace &&
    site_says "hello from the task"'
}

# goes_on PID: succeeds if the web server is this process, and is reached.
goes_on() { equals "$(server)" "$1" && site_says "hello from the task"; }

goes_on_with_mountd() { goes_on "$1" && eventually 10 ctl status && goes_on "$1"; }

kill_under_the_site() {
  local name before
  before=$(server)
  for name in mountd mountd-closer mountd-exec mountd-csi; do
    pkill -KILL -x "$name"
    check "$name is killed: the task goes on, is reached, and mountd answers" \
      goes_on_with_mountd "$before"
  done
  pkill -KILL -f 'mountctl .*watch site'
  check "the watcher is killed: the task goes on, and is reached" goes_on "$before"
  check "ps says that nobody restarts it" \
    equals "$(task_field 'j["lacks_watcher"]')" True
  tasks run --cgroup "$TASK_CGROUP" "$JOB/site.toml" >/dev/null
  check "the same run again starts a watcher, and no other task" \
    eval 'equals "$(task_field j\[\"watched\"\])" True && goes_on '"$before"
  check "crun is killed while it starts a task: the start fails, or is whole" kill_crun
  check "the same restart again has one server and one shim" eval 'tasks restart site/server &&
    eventually 5 site_says "hello from the task" && has_one_shim'
  before=$(server)
  kill -KILL "$before"
  check "the container's first process is killed: it is restarted, and reached" \
    eventually 10 another_serves "$before"
  check "ps counts the restart" equals "$(task_field 't["restarts"]')" 1
  before=$(server)
  pkill -KILL -x mountd-task-shi
  check "the shim is killed: the task goes on, and is reached" goes_on "$before"
  check "exec is refused, because nobody can add a process" \
    matches "$(in_site true 2>&1)" "killed the task's shim"
  pkill -KILL -f 'mountctl .*watch site'
  kill -KILL "$before"
  check "the watcher and the first process, too: ps tells a lost exit status" \
    eventually 5 matches_task "exited: .*shim"
  show_task ps
  tasks run --cgroup "$TASK_CGROUP" "$JOB/site.toml" >/dev/null
  check "after the same run again another process serves" \
    eventually 10 another_serves "$before"
  pkill -KILL -x csi-local
  wait "$PLUGIN" 2>/dev/null
  check "the plugin is killed: the task goes on, and is reached" goes_on "$(server)"
  check "its task is started again" start_plugin
  show_task ps
}

has_one_shim() { equals "$(pgrep -x mountd-task-shi | wc -l) $(pgrep -x httpd | wc -l)" "1 1"; }

# Kills a crun of a restart. Succeeds if one was met, and the restart has ended.
kill_crun() {
  local try restart
  for try in {1..5}; do
    tasks restart site/server &
    restart=$!
    while kill -0 $restart 2>/dev/null; do
      if pkill -KILL -x crun; then
        wait $restart
        return 0
      fi
    done
  done
  echo "$try restarts, and no crun was met"
  return 1
}

# another_serves PID: succeeds if another process than this serves the site.
another_serves() { not equals "$(server)" "$1" && site_says "hello from the task"; }

is_verified() {
  equals "$(tasks verify site server "$(server)" --json | json '[d["ok"], len(d["mounts"])]')" \
    "[True, 3]"  # two volumes and the secrets
}

# Succeeds if neither alice nor a subordinate id of hers has a process.
no_process_of_alice() {
  local left
  left=$(ps -eo uid=,pid=,args= | awk -v alice="$(id -u alice)" -v first=$FIRST_SUBID \
    -v end=$((FIRST_SUBID + SUBIDS)) '$1 == alice || ($1 >= first && $1 < end)')
  equals "$left" ""
}

# Prints the files of subordinate ids outside of the plugin's volumes.
subid_files() {
  find $ALICE /run /tmp -xdev -uid +$((FIRST_SUBID - 1)) -uid -$((FIRST_SUBID + SUBIDS))
}

# crun keeps the compiled filters of all tasks in .cache.
task_directories() {
  find $ALICE/state/mountd/{jobs,tasks/{tasks,removed,runtime}} -mindepth 1 ! -path "*/runtime/.cache*"
}

stop_the_site() {
  check "the task has files of a subordinate id" test -n "$(subid_files)"
  check "stop ends the task, and answers with the receipt" \
    site_receipt
  check "no process of alice's or of her subordinate ids is left" \
    eventually 5 no_process_of_alice
  check "no cgroup" equals "$(find "$TASK_CGROUP" -mindepth 1 -type d ! -name agent ! -name shims)" ""
  check "no file of a subordinate id" equals "$(subid_files)" ""
  check "no directory of the task or of the job" equals "$(task_directories 2>/dev/null)" ""
}

site_receipt() {
  tasks stop site --json >"$WORLD/site.json" &&
    equals "$(json '[d["node_detached"], sorted((v["volume"], v["unstaged"]) for v in d["volumes"])]' <"$WORLD/site.json")" \
      "[True, [('site-data', True), ('site-other', True)]]"
}

remove_task_world() {
  find "$TASK_CGROUP" -depth -type d -exec rmdir {} +
}

step_container() {
  step 8 "an ordinary user runs a web server in a container"
  make_task_world
  local why
  why=$(why_no_tasks)
  if [[ -n $why ]]; then
    skip "the container" "$why"
    remove_task_world
    return
  fi
  start_the_site
  reach_into_the_site
  run_single_tasks
  replace_in_the_site
  kill_under_the_site
  stop_the_site
  check "nothing is in its cgroups" remove_task_world
}
