# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads SECURITY.md, and the tests that SECURITY.md names.

In a text `Suite.Name` is that test, with whatever parameter; `Suite.Name…` is all
whose names begin so; `Suite.*` is the suite. A name alone is of the suite before it.
`fuzz/NAME`, `real/NAME` and `systemd/NAME` are ctest's.
"""
import os
import re
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def headings():
    """The headings of the second level, in their order."""
    return re.findall(r"^## (.+)$", read("SECURITY.md"), re.MULTILINE)


def section(heading):
    """The text below a heading of the second level."""
    text = read("SECURITY.md").split(f"\n## {heading}\n")
    if len(text) != 2:
        raise SystemExit(f"SECURITY.md has not one section {heading!r}")
    return text[1].split("\n## ")[0]


def rows(heading):
    """The cells of each row of the section's tables, without their heads."""
    lines = [line for line in section(heading).split("\n")
             if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            for line in lines[2:]]


def named_tests(text):
    """The tests that a text names, each with its suite."""
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
    """The names of ctest's tests, without the label that they begin with."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], check=True,
                            capture_output=True, text=True).stdout
    full = re.findall(r"^ +Test +#\d+: ([a-z]+/\S+)", listed, re.MULTILINE)
    names = {name.split("/", 1)[1] for name in full}
    # gtest puts the name of an instance before a test that has parameters.
    return set(full) | {part for name in names
                        for part in (name, name.split("/", 1)[-1],
                                     name.split("/")[0])}


def exists(name, tests):
    if name.endswith((".*", "…")):
        return any(test.startswith(name[:-1]) for test in tests)
    return name in tests or any(test.startswith(name + "/") for test in tests)
