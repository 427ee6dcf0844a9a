# SPDX-License-Identifier: LGPL-2.1-or-later
"""The conformance script's files."""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def steps():
    return json.loads((HERE / "steps.json").read_text())


def member(step):
    """The method or the signal that the step names; "" if it names none."""
    return step.get("call") or step.get("signal") or ""


def left_out():
    """(client, method or signal, reason) of each line of left-out.txt; the client is "all"
    for what no step names."""
    lines = (HERE / "left-out.txt").read_text().splitlines()
    return [tuple(line.split(maxsplit=2)) for line in lines
            if line and not line.startswith("#")]
