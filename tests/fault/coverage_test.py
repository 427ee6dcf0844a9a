#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks that failure_points_test left nothing out, and overlaps_test tried enough.

  coverage_test.py REPORTS SOURCES

REPORTS holds the files that the tests wrote: one for each operation and process, and one
for each shard of overlaps. Each method of the API must be an operation, or operations.cc
must name it with the reason why it is none. Each method of each seam must have been a
step of an operation, or ELSEWHERE must name it. The test of overlaps tries a sample, and
the sample must have some of each sort.

Prints the counts as one line of JSON for each operation, and one for all overlaps.
"""
import collections
import json
import pathlib
import re
import sys

NO_STEPS = {"stuck", "Close", "CanMountBeneath"}  # these cannot fail

# Methods of each seam that operations reach only by chance, because mountd makes
# some of them once, and some in its own time. A unit test must fail each of these
# plans (FailNext), and a test on the real kernel each of these calls of the kernel:
# it proves so by ExpectFailed, which holds only if all its calls have failed. Each
# RPC of a controller is a step by its own name.
ELSEWHERE = {
    "kernel": {
        "ConnectUnix", "EnterMountNamespace", "HasEnded", "JoinGroup", "LinkedMountId",
        "ListAfter", "NamespaceTypeOf", "NewMountNamespace",
        "NewUserNamespace", "OpenKernfs", "OpenNetlinkIn",
        "OwnerOf", "OwnerUidOf", "PeerOf", "PeerProcess", "ProbeFilesystem",
        "ReadFile", "ReadSetting", "Rename", "RunNft", "StatLinked", "Subscribe",
        "WatchMounts", "WriteAs", "WriteSetting",
    },
    "plan": {
        "CountMounts", "FindHolders", "InspectCgroup", "InspectNetwork",
        "InspectTask", "ListMounts", "PrepareBase", "ProbeMount", "ProbeVolume",
        "RemovePluginSocket", "RepairNetwork", "StartPlugin", "StopPlugin", "StopTasks",
        "VerifyTask", "WatchMounts", "WatchNetworks",
    },
    "rpc": {"CallController", "NodeGetVolumeHealth"},
}
ACTIONS = ("fail", "kill-after", "kill-before")
ERRNOS = 2  # different ones for each call of the kernel that fails so often


def methods(path):
    """Returns the virtual methods that a header declares."""
    text = re.sub(r"//.*", "", pathlib.Path(path).read_text())
    return set(re.findall(r"virtual\s[^;(~]*?(\w+)\(", text)) - NO_STEPS


SORTS = {
    "sharing": {"allocation", "volume", "node"},
    "then": {"goes-on", "fails", "killed-before", "killed-after", "agent-dies"},
    "process": {"mountd", "mountd-exec", "mountd-csi"},
    "met": {"beside", "waited"},
}
ENOUGH = 100  # so many overlaps must contain each sort
CUTS = 4  # for the same operations


def text_of(sources, directory):
    return "".join(path.read_text()
                   for path in sorted((sources / directory).rglob("*_test.cc")))


def missing_excuses(sources):
    """Returns excused plans and kernel calls that no test fails, and reasons of excused
    methods that name a test that does not exist."""
    unit, root = text_of(sources, "tests/unit"), text_of(sources, "tests/root")
    failed = set(re.findall(r'FailNext\(\s*"(\w+)"', unit))
    missing = [f"plan {name}, which is excused, by a unit test"
               for name in sorted(ELSEWHERE["plan"] - failed)]
    failed = {name for names in re.findall(r"ExpectFailed\(\s*{([^}]*)}", root)
              for name in re.findall(r'"(\w+)"', names)}
    missing += [f"kernel {name}, which is excused, by a test in tests/root"
                for name in sorted(ELSEWHERE["kernel"] - failed)]
    reasons = (sources / "tests/fault/operations.cc").read_text()
    # A string literal may continue in the next line.
    reasons = re.sub(r'"\s*\n\s*"', "", reasons)
    for suite, name in re.findall(r"root/(\w+)\.(\w+)", reasons):
        if not re.search(rf"TEST_F\({suite},\s*{name}\)", root):
            missing.append(f"root/{suite}.{name}, a reason of operations.cc")
    return missing


def missing_overlaps(reports):
    """Prints the counts of overlaps, and returns the sorts that are missing."""
    lines = [json.loads(line)
             for path in sorted(pathlib.Path(reports).glob("overlaps-*.jsonl"))
             for line in path.read_text().splitlines()]
    for line in lines:
        # "beside" if another call ended while the first was held.
        line["met"] = "beside" if line["beside"] else "waited"
    kinds = {(line["first"], *line["others"], line["sharing"])
             for line in lines}
    counted = {sort: collections.Counter(line[sort] for line in lines)
               for sort in SORTS}
    print(json.dumps({"overlaps": len(lines), "kinds": len(kinds), **counted,
                      "seeds": sorted({line["seed"] for line in lines})}))
    if not lines:
        return ["any overlap"]
    missing = [f"overlaps of enough kinds: {len(kinds)} in {len(lines)}"
               ] if len(kinds) * 2 * CUTS < len(lines) else []
    if len(lines) >= ENOUGH:
        missing += [f"an overlap, {sort} {one}" for sort, names in SORTS.items()
                    for one in sorted(names - counted[sort].keys())]
    return missing


def main():
    reports, sources = sys.argv[1], pathlib.Path(sys.argv[2])
    xml = sources / "dbus/org.mountd1.Manager.xml"
    kernel = sorted((sources / "mountd/kernel").glob("*_calls.h"))
    executors = sorted((sources / "mountd/plan").glob("*executor.h"))
    csi = sources / "csi-node/types/csi_client.h"
    operations = sources / "tests/fault/operations.cc"
    lines = [json.loads(path.read_text())
             for path in sorted(pathlib.Path(reports).glob("*.json"))]
    missing = []
    seams = {"kernel": {}, "plan": {}, "rpc": {}, "store": {}, "csi": {}}
    errnos = collections.defaultdict(collections.Counter)
    for line in lines:
        print(json.dumps({
            "operation": line["operation"], "process": line["process"],
            "steps": line["steps"],
            "runs": {action: sum(run.get(action, 0)
                                 for run in line["runs"].values())
                     for action in ACTIONS},
            "told": dict(sum((collections.Counter(told)
                              for told in line["told"].values()),
                             collections.Counter()))}))
        if line["process"] == "mountd-exec":
            for call, errors in line["errors"].items():
                errnos[call].update(errors)
        for step, runs in line["runs"].items():
            kind, _, name = step.rpartition(" ")
            seam = {"mountd-exec": "kernel", "mountd-csi": "csi"}.get(
                line["process"]) or kind.split(" ")[0]
            seams[seam].setdefault(name or step, set()).update(runs)
    done = {line["method"] for line in lines}
    uncounted = set(re.findall(r'\{"(\w+)",\s*"[^{}]*"\}',
                               operations.read_text()))
    for method in re.findall(r'<method name="(\w+)"', xml.read_text()):
        if method not in done and method not in uncounted:
            missing.append(f"the API's method {method}")
    for operation in {line["operation"] for line in lines}:
        processes = {line["process"] for line in lines
                     if line["operation"] == operation}
        if processes != {"mountd", "mountd-exec", "mountd-csi"}:
            missing.append(f"a process of {operation}: only {processes}")
    # Each operation makes a plan or a call of a plugin.
    for line in lines:
        if line["process"] == "mountd" and not line["steps"]:
            missing.append(f"any step of {line['operation']} in mountd")
    wanted = {"kernel": set().union(*map(methods, kernel)),
              "plan": set().union(*map(methods, executors)), "rpc": methods(csi)}
    for seam, names in wanted.items():
        for name in sorted(names - ELSEWHERE[seam]):
            if not seams[seam].get(name):
                missing.append(f"{seam} {name}")
    # A call that operations reach by chance may fail twice with one errno.
    missing += [f"errnos of kernel {call}: only {', '.join(sorted(names))}"
                for call, names in sorted(errnos.items())
                if len(names) < min(ERRNOS, max(1, names.total() // 2))]
    for seam in ("store", "csi"):
        if not seams[seam]:
            missing.append(f"any step of {seam}")
    total = {action: sum(run.get(action, 0) for line in lines
                         for run in line["runs"].values())
             for action in ACTIONS}
    missing += missing_overlaps(reports)
    missing += missing_excuses(sources)
    print(json.dumps({"operations": len(done), "lines": len(lines),
                      "runs": total,
                      "errnos": sum(len(names) for names in errnos.values())}))
    for one in missing:
        print("not covered:", one, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
