#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A node agent's prerun and postrun, in Python, on the system bus.

  agent.py prerun ALLOCATION | agent.py postrun ALLOCATION
"""
import sys

import dbus

IN_PROGRESS = "org.mountd1.Error.InProgress"


class Mountd:
    def __init__(self):
        proxy = dbus.SystemBus().get_object("org.mountd1", "/org/mountd1")
        self.manager = dbus.Interface(proxy, "org.mountd1.Manager")

    def __getattr__(self, method):
        """Any method: the same call again is right, and joins what goes on."""
        def call(*arguments, **options):
            while True:
                try:
                    return getattr(self.manager, method)(
                        *arguments, dbus.Dictionary(options, signature="sv"))
                except dbus.DBusException as error:
                    if error.get_dbus_name() != IN_PROGRESS:
                        raise
        return call


def prerun(mountd, allocation):
    mountd.PrepareAllocation(allocation, scope="example")
    http = ("http", "", dbus.UInt16(8080), dbus.UInt16(80), dbus.UInt16(1), "tcp")
    network = mountd.SetupNetwork(
        allocation, "bridge", dbus.Array([http], signature="(ssqqqs)"))
    mount = mountd.BindMount(allocation, "server", "shared", "host", "shared",
                             False, "private", task_path="/shared")
    print("namespace", bytes(network["netns_path"]).decode())
    print("mount", bytes(mount["host_path"]).decode(), mount["task_path"])


def postrun(mountd, allocation):
    receipt = mountd.ReleaseAllocation(allocation)
    print("released, node detached:", bool(receipt["node_detached"]))


if __name__ == "__main__":
    {"prerun": prerun, "postrun": postrun}[sys.argv[1]](Mountd(), sys.argv[2])
