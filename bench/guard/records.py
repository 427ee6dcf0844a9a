# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes profiles to files, and finds what rose above the recorded ones."""

import collections
import ctypes
import errno
import os
import pathlib
import platform
import re
import subprocess

from counting import WAITS, Profile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDS = ROOT / "bench/guard/records"
# How far a figure may rise above the recorded one.
TOLERANCE = 0.10
TOLERANCES = {("BindMount", "instructions"): 0.03, ("SetupNetwork", "instructions"): 0.03}
FUNCTIONS = 60  # of a profile that is kept
MADE_WITH = "made-with"
# TeardownNetwork is not compared. After it mountd looks at all networks, and has the
# executor look at one, as often as the kernel has sent events by then.
SHOWN = {"TeardownNetwork"}
# The libraries whose instructions count with mountd's, and the tools that count.
PACKAGES = ("libc6", "libstdc++6", "libsystemd0", "libsqlite3-0", "valgrind", "strace")


# ---- Which records fit


def knows(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    if result >= 0:
        os.close(result)
    return result >= 0 or ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL)


def kernel():
    """Names the newest kernel feature that mountd uses here, because without it mountd
    makes other calls."""
    fanotify_init, report_mount, statmount = 300, 0x4000, 457
    if knows(fanotify_init, report_mount, 0):
        return "mountevents"
    return "statmount" if knows(statmount, 0, 0, 0, 0) else "mountinfo"


def compiler(build):
    """(name, version)"""
    facts = {}
    for file in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        facts = dict(re.findall(r'set\((CMAKE_CXX_COMPILER_\w+) "([^"]*)"\)',
                                file.read_text()))
    name = facts["CMAKE_CXX_COMPILER_ID"].lower()
    return "gcc" if name == "gnu" else name, facts["CMAKE_CXX_COMPILER_VERSION"]


def folder(build):
    release = platform.freedesktop_os_release()
    name, version = compiler(build)
    return RECORDS / "-".join([release["ID"] + release.get("VERSION_ID", ""),
                               name + version.split(".", maxsplit=1)[0],
                               platform.machine(), kernel()])


def made_with(build):
    """Lists the versions that may change the figures a little. A difference in them alone
    does not decide which records fit."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    versions = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return "\n".join([f"Linux {platform.release().split('-')[0]}",
                      " ".join(compiler(build)),
                      f"AVX2 {'yes' if ' avx2 ' in cpu else 'no'}",
                      *sorted(versions.stdout.splitlines())]) + "\n"


# ---- Profiles as files


def path_of(at, operation, daemon):
    return at / f"{operation}.{daemon}"


def text_of(operation, daemon, profile):
    most = profile.functions.most_common(FUNCTIONS)
    rest = sum(profile.functions.values()) - sum(cost for _, cost in most)
    lines = [f"# {operation} in {daemon}, one call: bench/guard/run wrote it"]
    lines += [f"# {value} {name}" for name, value in profile.figures().items()]
    lines += [f"call {name} {number}"
              for name, number in sorted(profile.calls.items()) if number]
    lines += [f"function {cost} {name}" for name, cost in most]
    return "\n".join([*lines, f"function {rest} (all others)"]) + "\n"


def write_all(at, build, profiles):
    at.mkdir(parents=True, exist_ok=True)
    (at / MADE_WITH).write_text(made_with(build))
    for (operation, daemon), profile in profiles.items():
        path_of(at, operation, daemon).write_text(text_of(operation, daemon, profile))


def read(path):
    profile = Profile()
    for line in path.read_text().splitlines():
        kind, *words = line.split(" ", 2)
        if kind == "call":
            profile.calls[words[0]] = int(words[1])
        elif kind == "function":
            profile.functions[words[1]] += int(words[0])
    return profile


# ---- Comparing


def name_of(path):
    return os.path.relpath(path, ROOT)


def tell_what_rose(now, then):
    for kind, new, old in (("instructions of", now.functions, then.functions),
                           ("calls of", now.calls, then.calls)):
        # The record has only the most expensive functions. Another function has risen for
        # certain only above the least of these.
        least = min(old.values(), default=0) if new is now.functions else 0
        more = collections.Counter({
            name: number - old.get(name, least) for name, number in new.items()
            if name not in WAITS})
        for name, rise in more.most_common(6):
            if rise > 0:
                print(f"    {rise:+,} {kind} {name[:120]}")


def tell_other_system(recorded, out):
    then, now = ((at / MADE_WITH).read_text().splitlines() for at in (recorded, out))
    if then != now:
        print(f"  recorded with {', '.join(line for line in then if line not in now)}; "
              f"here: {', '.join(line for line in now if line not in then)}")


def word_for(operation, name, new, old):
    if new > old * (1 + TOLERANCES.get((operation, name), TOLERANCE)):
        return "FAILED"
    return "fell" if new < old * (1 - TOLERANCE) else "ok"


def compare_one(key, now, recorded, out):
    """Prints the figures of one operation in one daemon, and returns a word for each."""
    path, then = path_of(recorded, *key), read(path_of(recorded, *key))
    words = []
    for name, value in now.figures().items():
        old = then.figures()[name]
        word = "shown" if key[0] in SHOWN else word_for(key[0], name, value, old)
        words.append(word)
        line = (f"  {word} {' in '.join(key)}: {value:,} {name}, "
                f"{value / max(old, 1) - 1:+.1%} of {old:,}")
        if word == "FAILED":
            line += f": see {name_of(path_of(out, *key))}, and before: {name_of(path)}"
        print(line)
    if "FAILED" in words:
        tell_what_rose(now, then)
    return words


def have_risen(profiles, recorded):
    """Returns whether any compared figure fails."""
    return any(
        word_for(key[0], name, value,
                 read(path_of(recorded, *key)).figures()[name]) == "FAILED"
        for key, now in profiles.items()
        if key[0] not in SHOWN and path_of(recorded, *key).exists()
        for name, value in now.figures().items())


def compare(profiles, recorded, out):
    """Prints the comparison, and returns (passed, failed)."""
    words = []
    for key, now in profiles.items():
        if path_of(recorded, *key).exists():
            words += compare_one(key, now, recorded, out)
        else:
            print(f"  FAILED {' in '.join(key)}: there is no "
                  f"{name_of(path_of(recorded, *key))}")
            words.append("FAILED")
    failed = words.count("FAILED")
    if failed:
        tell_other_system(recorded, out)
    if failed or "fell" in words:
        print("  what is meant to be so is recorded by bench/guard/run --record")
    return len(words) - words.count("shown") - failed, failed
