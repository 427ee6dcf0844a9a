#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples the rights of the processes on the agent's side until it is terminated.

  sample_rights.py FILE UID

Looks at each process every few milliseconds, because mountd-cni lives no longer, and
appends a line to FILE for each program with rights that have not been seen yet:
NAME UIDS CapInh CapPrm CapEff CapAmb. Processes in another user namespace are the tasks'.
"""
import os
import sys
import time

KEYS = ("Uid", "CapInh", "CapPrm", "CapEff", "CapAmb")


def rights(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return tuple(fields[key].replace("\t", ",") for key in KEYS)


def program(pid):
    # crun runs as a sealed copy of itself, "/memfd:… (deleted)".
    return os.path.basename(os.readlink(f"/proc/{pid}/exe")).split()[0]


def look(uid, own, seen):
    """Yields what is new."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/user") != own:
                continue
            name = program(pid)
            found = (name,) + rights(pid)
            again = program(pid)
        except (OSError, KeyError):
            continue  # the process has ended
        if again == name and uid in found[1].split(",") and found not in seen:
            seen.add(found)
            yield found


def main():
    path, uid = sys.argv[1:]
    own, seen = os.readlink("/proc/self/ns/user"), set()
    with open(path, "a", encoding="ascii") as file:
        while True:
            for found in look(uid, own, seen):
                print(*found, file=file, flush=True)
            time.sleep(0.004)


main()
