# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a whole mountd whose daemons run under a tool that counts, and reads the tool's
counts."""

import collections
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys

DAEMONS = ("mountd", "mountd-exec")
OTHERS = ("mountd-closer", "mountd-csi", "mountd-cni-run")  # not counted
PRELOAD = "libmountd-bench-preload.so"
COUNTS = "/run/guard"  # daemons.h
MARK = "SIGRT_12"  # carrier.h: kMarkSignal, as strace names it
TRIES = 3
TIMEOUT = 240  # seconds
# The number of these calls depends on when other threads run. They are shown, and not
# compared.
WAITS = {"futex", "epoll_wait", "epoll_pwait", "poll", "ppoll", "restart_syscall",
         "rt_sigreturn", "clock_nanosleep", "timerfd_settime"}
# strace 6.1 does not know these system calls by name.
NAMES = {"syscall_0x1c9": "statmount", "syscall_0x1ca": "listmount"}
# callgrind counts "rep stosb" wrongly, as one instruction for each byte. glibc uses it
# only above these thresholds.
WITHOUT_REP = ("glibc.cpu.x86_rep_stosb_threshold=1073741824:"
               "glibc.cpu.x86_rep_movsb_threshold=1073741824")
LONGEST_NAME = 200
STRING = ("std::__cxx11::basic_string<char, std::char_traits<char>, "
          "std::allocator<char> >")


class Failed(Exception):
    """The reason why nothing can be counted."""


@dataclasses.dataclass
class Profile:
    """One call of an operation, in one daemon."""
    functions: collections.Counter = dataclasses.field(
        default_factory=collections.Counter)
    calls: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def figures(self):
        return {"instructions": sum(self.functions.values()),
                "system calls": sum(number for call, number in self.calls.items()
                                    if call not in WAITS)}


def wrapper(tool, build, daemon):
    """Returns the script that is started in the daemon's place. It execs the tool, so the
    daemon has its pid."""
    preload = build / "bench" / PRELOAD
    program = build / "bin" / daemon
    if tool == "callgrind":
        command = ["env", f"GLIBC_TUNABLES={WITHOUT_REP}",
                   build / "bin/mountd-bench-native", preload, "valgrind", "-q",
                   "--tool=callgrind", "--vgdb=no",
                   f"--log-file={COUNTS}/log.{daemon}.%p",
                   f"--callgrind-out-file={COUNTS}/{daemon}.%p", program]
        words = shlex.join(map(str, command))
    else:
        command = ["strace", "-D", "-f", "-qq", "-s", "0", "-e", "raw=all",
                   "-e", f"signal={MARK}", "-E", f"LD_PRELOAD={preload}"]
        words = (shlex.join(command) + f" -o {COUNTS}/{daemon}.$$ "
                 + shlex.quote(str(program)))
    return f'#!/bin/sh\n: >{COUNTS}/pid.{daemon}.$$\nexec {words} "$@"\n'


def make_wrappers(tool, build, at):
    at.mkdir(parents=True)
    for daemon in DAEMONS:
        path = at / daemon
        path.write_text(wrapper(tool, build, daemon))
        path.chmod(0o755)
    for daemon in OTHERS:
        (at / daemon).symlink_to(build / "bin" / daemon)


def drive(tool, build, rounds, at):
    shutil.rmtree(at, ignore_errors=True)
    make_wrappers(tool, build, at / "bin")
    (at / "counts").mkdir()
    ran = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child",
         "--mount-proc", build / "bin/mountd-bench-guard", at / "bin", at / "counts",
         str(rounds)],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT,
        check=False)
    if ran.returncode != 0:
        said = ran.stderr.splitlines() or [f"the driver ended with {ran.returncode}"]
        raise Failed("\n    ".join([f"{tool}:", *said[-20:]]))


def count(tool, build, rounds, at):
    """Returns {daemon: [Counter of each section]}, and the sections' names."""
    for left in reversed(range(TRIES)):
        try:
            drive(tool, build, rounds, at)
            names = (at / "counts/sections").read_text().split()
            return {daemon: sections_of(tool, at / "counts", daemon, len(names))
                    for daemon in DAEMONS}, names
        except Failed as error:
            # On a busy machine mountd may, for example, have started another executor.
            if not left:
                raise
            print(f"guard: once more: {str(error).splitlines()[-1]}", file=sys.stderr)


def read_callgrind(path):
    """Returns {function: its own instructions} of one dump in callgrind's format."""
    functions, names, objects = collections.Counter(), {}, {}
    current = place = ""
    inclusive = False
    for line in path.read_text(errors="replace").splitlines():
        if line[:1].isdigit() or line[:1] in "+-*":
            if not inclusive:
                functions[current] += sum(map(int, line.split()[1:2]))
            inclusive = False
        elif line.startswith("calls="):
            inclusive = True  # the next line is what was called
        elif found := re.match(r"(c?)(fn|ob)=\((\d+)\)(?: (.*))?$", line):
            called, kind, number, name = found.groups()
            known = names if kind == "fn" else objects
            if name is not None:
                known[number] = name
            if kind == "ob" and not called:
                place = os.path.basename(known[number])
            elif not called:
                current = readable(known[number], place)
    functions.pop("", None)
    return functions


def readable(function, place):
    if place == PRELOAD:
        return ""  # it is no part of the daemon
    if function.startswith("0x"):
        return f"(of {place}, which names none)"
    function = function.split("'")[0]  # the depth of a recursion
    return function.replace(STRING, "std::string")[:LONGEST_NAME]


def read_strace(path):
    """Returns [{system call: how often}] of the sections that have ended."""
    sections = [collections.Counter()]
    for line in path.read_text(errors="replace").splitlines():
        if f"--- {MARK} " in line:
            sections.append(collections.Counter())
        elif found := re.match(r"(?:\d+ +)?(\w+)\(", line):
            sections[-1][NAMES.get(found[1], found[1])] += 1
    return sections[:-1]


def dumps_of(counts, daemon):
    """Yields, for each process, callgrind's files of the sections in order."""
    for marker in counts.glob(f"pid.{daemon}.*"):
        number = marker.suffix[1:]
        dumps = counts.glob(f"{daemon}.{number}.*")
        yield sorted(dumps, key=lambda path: int(path.suffix[1:]))


def sections_of(tool, counts, daemon, count_of_sections):
    """Returns a Counter for each section, of all the daemon's processes together."""
    if tool == "strace":
        parts = [read_strace(path) for path in counts.glob(f"{daemon}.*")]
    else:
        parts = [[read_callgrind(path) for path in dumps]
                 for dumps in dumps_of(counts, daemon)]
    # A process that only the start needed has ended in the first section.
    parts = [part for part in parts if len(part) > 1]
    if not parts or any(len(part) != count_of_sections for part in parts):
        raise Failed(f"{tool} of {daemon}: {[len(part) for part in parts]} sections "
                     f"of {count_of_sections}")
    return [sum(same, collections.Counter()) for same in zip(*parts)]


def least_instructions(sections):
    """Returns the section with the fewest instructions, in which mountd did nothing else,
    such as its rounds every two seconds. The functions of one section belong together."""
    return min(sections, key=lambda section: sum(section.values()))


def least_calls(sections):
    """Returns the least number of each system call over all sections. It takes each call
    for itself, because other work adds other calls to each section."""
    return collections.Counter({name: min(section[name] for section in sections)
                                for name in sections[0]})


def lesser(one, other):
    """Joins two measurements: takes the lesser figures of both."""
    return {key: Profile(least_instructions([profile.functions, other[key].functions]),
                         least_calls([profile.calls, other[key].calls]))
            for key, profile in one.items()}


def measure(build, rounds, out):
    """Returns {(operation, daemon): Profile}."""
    profiles = collections.defaultdict(Profile)
    for tool, field, least in (("callgrind", "functions", least_instructions),
                               ("strace", "calls", least_calls)):
        counted, names = count(tool, build, rounds, out / tool)
        for daemon, sections in counted.items():
            by_name = collections.defaultdict(list)
            for name, section in zip(names, sections):
                by_name[name].append(section)
            # Each section contains the signal that ends it, and so does an idle one.
            idle = least(by_name["idle"])
            for operation in by_name.keys() - {"start", "idle"}:
                setattr(profiles[operation, daemon], field,
                        least(by_name[operation]) - idle)
    return dict(sorted(profiles.items()))
