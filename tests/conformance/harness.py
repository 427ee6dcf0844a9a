# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that the scripts of this folder talk to."""
import subprocess
import sys

SKIPPED = 77


class Process:
    """A process that answers each line by a line."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            status = self.process.wait()
            print(f"{self.command[0]} ended with status {status}", file=sys.stderr)
            sys.exit(SKIPPED if status == SKIPPED else 1)
        return text.strip()

    def ask(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.line()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)
