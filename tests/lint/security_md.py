# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads SECURITY.md, and the tests that SECURITY.md names.

`Suite.Name` names that test with any parameter, `Suite.Name…` all tests whose names
begin so, and `Suite.*` the suite. A name alone belongs to the suite that the text named
last. `fuzz/NAME`, `real/NAME` and `systemd/NAME` are names of ctest.
"""
import os
import re
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def headings():
    """Returns the headings of the second level, in their order."""
    return re.findall(r"^## (.+)$", read("SECURITY.md"), re.MULTILINE)


def section(heading):
    """Returns the text below a heading of the second level."""
    text = read("SECURITY.md").split(f"\n## {heading}\n")
    if len(text) != 2:
        raise SystemExit(f"SECURITY.md has not one section {heading!r}")
    return text[1].split("\n## ")[0]


def rows(heading):
    """Returns the cells of each row of the section's tables, without their heads."""
    lines = [line for line in section(heading).split("\n")
             if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            for line in lines[2:]]


def named_tests(text):
    """Yields the tests that a text names, each with its suite."""
    suite = None
    for name in re.findall(r"`([^`]+)`", text):
        if name.startswith(("fuzz/", "real/", "systemd/")):
            yield name
        elif "." in name:
            suite = name.split(".")[0]
            yield name
        else:
            yield f"{suite}.{name}"


def all_tests(build):
    """Returns the names of ctest's tests, with and without the label in front."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], check=True,
                            capture_output=True, text=True).stdout
    full = re.findall(r"^ +Test +#\d+: ([a-z]+/\S+)", listed, re.MULTILINE)
    names = {name.split("/", 1)[1] for name in full}
    # A parametrized test has the name of its instance in front, and its parameter
    # behind. Each part counts, because SECURITY.md may leave these out.
    return set(full) | {part for name in names
                        for part in (name, name.split("/", 1)[-1],
                                     name.split("/")[0])}


def exists(name, tests):
    if name.endswith((".*", "…")):
        return any(test.startswith(name[:-1]) for test in tests)
    return name in tests or any(test.startswith(name + "/") for test in tests)
