#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The conformance script's runner in Python, by dbus-python and the contract alone.

  runner.py [--contract FOLDER] ADDRESS

Takes signatures from the contract in FOLDER (default dbus/), as a client that was made
for that contract. A call with a method or a key that this contract has not is
{"unknown": true}.
"""
import ctypes
import fcntl
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "dbus"))
sys.path.insert(0, str(ROOT / "agent/bindings"))
try:
    import dbus
    import dbus.connection
    import dbus.mainloop.glib
except ImportError as missing:
    print(f"SKIPPED: {missing}: install python3-dbus", file=sys.stderr)
    sys.exit(77)
import contract  # noqa: E402
import model  # noqa: E402

ERROR = "org.mountd1.Error."
LOST = ("org.freedesktop.DBus.Error.Disconnected", "org.freedesktop.DBus.Error.NoReply")
BASIC = {"y": dbus.Byte, "b": dbus.Boolean, "n": dbus.Int16, "q": dbus.UInt16,
         "i": dbus.Int32, "u": dbus.UInt32, "x": dbus.Int64, "t": dbus.UInt64,
         "d": dbus.Double, "s": dbus.String, "o": dbus.ObjectPath}


SIGNAL = 4  # the type of a message, as the D-Bus Specification has it
PROPERTIES = "org.freedesktop.DBus.Properties"
SEALS = (fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW |
         fcntl.F_SEAL_WRITE)


class NotInContract(Exception):
    """The contract has no such method or key."""


def sealed(secrets, level):
    fd = os.memfd_create("mountd-secrets", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(fd, "wb") as file:
        file.write("".join(f"{key}\0{one}\0" for key, one in secrets.items()).encode())
        file.flush()
        file.seek(0)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        return dbus.types.UnixFd(fd, variant_level=level)  # has a copy of the fd


def file(path, level):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return dbus.types.UnixFd(fd, variant_level=level)  # has a copy of the fd
    finally:
        os.close(fd)


def to_wire(kind, value, types, level=0):
    """The JSON value as dbus-python sends it; `level` is 1 for the value of a key."""
    if kind.kind == "h":
        return (sealed if isinstance(value, dict) else file)(value, level)
    if kind.kind == "dict":
        keys = dict(types.dicts.get(kind.name, []))
        if unknown := set(value) - set(keys):
            raise NotInContract(unknown)
        return dbus.Dictionary({key: to_wire(keys[key], one, types, 1)
                                for key, one in value.items()},
                               signature="sv", variant_level=level)
    if kind.kind == "map":
        return dbus.Dictionary({key: to_wire(kind.parts[1], one, types)
                                for key, one in value.items()},
                               signature=types.signature(kind)[2:-1], variant_level=level)
    if kind.kind == "array" and kind.parts[0].kind == "y":
        return dbus.ByteArray(value.encode(), variant_level=level)
    if kind.kind == "array":
        return dbus.Array([to_wire(kind.parts[0], one, types) for one in value],
                          signature=types.signature(kind.parts[0]), variant_level=level)
    if kind.kind == "row":
        return dbus.Struct([to_wire(part, value[name], types)
                            for name, part in types.rows[kind.name]],
                           signature=types.signature(kind)[1:-1], variant_level=level)
    return BASIC[kind.kind](value, variant_level=level)


def opened(value):
    """The fd of an answer as JSON has it."""
    fd = value.take()
    os.fstat(fd)
    os.close(fd)
    return "open"


def from_wire(kind, value, types):
    """The JSON of an answer."""
    if kind is None:
        return None
    if kind.kind == "dict":
        keys = dict(types.dicts.get(kind.name, []))
        return {str(key): from_wire(keys[key], one, types) if key in keys else plain(one)
                for key, one in value.items()}
    if kind.kind == "map":
        return {str(key): from_wire(kind.parts[1], one, types)
                for key, one in value.items()}
    if kind.kind == "array" and kind.parts[0].kind == "y":
        return bytes(value).decode()
    if kind.kind == "array":
        return [from_wire(kind.parts[0], one, types) for one in value]
    if kind.kind == "row":
        return {name: from_wire(part, one, types)
                for (name, part), one in zip(types.rows[kind.name], value)}
    if kind.kind == "b":
        return bool(value)
    if kind.kind in "so":
        return str(value)
    if kind.kind == "h":
        return opened(value)
    return int(value) if kind.kind in "ynqiuxt" else None


def plain(value):
    """The JSON of a key that the contract does not document."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, dbus.Array) and value.signature == "y":
        return bytes(value).decode()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dbus.Boolean):
        return bool(value)
    return str(value) if isinstance(value, str) else int(value)


class Client:
    def __init__(self, address, types):
        self.address, self.types = address, types
        self.connection = None
        self.methods = {member.name: (inputs, outputs)
                        for member, inputs, outputs in types.methods}
        self.signals = {member.name: arguments for member, arguments in types.signals}
        self.received = []

    def subscribe(self):
        """Keeps all signals, of a connection of their own, from now on."""
        loop = dbus.mainloop.glib.DBusGMainLoop()
        self.subscribed = dbus.connection.Connection(self.address, mainloop=loop)
        self.subscribed.add_message_filter(self.keep)
        self.subscribed.call_blocking(None, "/org/mountd1", "org.mountd1.Manager",
                                      "Subscribe", "a{sv}", [{}])

    def keep(self, _, message):
        if message.get_type() == SIGNAL:
            self.received.append((message.get_interface(), message.get_member(),
                                  message.get_path(), message.get_args_list()))

    def signal(self, name):
        """Returns the arguments of the first signal of that name, and removes it."""
        if name not in self.signals and name != "PropertiesChanged":
            raise NotInContract(name)
        # dbus-python needs GLib, and GLib's other bindings need not be there.
        glib = ctypes.CDLL("libglib-2.0.so.0")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for one in self.received:
                if one[1] == name:
                    self.received.remove(one)
                    return self.arguments_of(*one)
            if not glib.g_main_context_iteration(None, False):
                time.sleep(0.01)
        raise TimeoutError(name)

    def arguments_of(self, interface, name, path, values):
        if interface == PROPERTIES:
            return {"object": str(path), "properties": self.properties_of(values[1])}
        return {key: from_wire(kind, one, self.types)
                for (key, kind), one in zip(self.signals[name], values)}

    def properties_of(self, values):
        kinds = dict(self.types.plugin)
        return {str(key): from_wire(kinds[key], one, self.types) if key in kinds
                else plain(one) for key, one in values.items()}

    def plugin_properties(self, path):
        return self.properties_of(self.connection.call_blocking(
            None, path, PROPERTIES, "GetAll", "s", ["org.mountd1.Plugin"]))

    def answer(self, step):
        if "signals" in step:
            return self.subscribe()
        if "signal" in step:
            return self.signal(step["signal"])
        if step["call"] == "PluginProperties":
            return self.plugin_properties(*step["arguments"])
        return self.call(step["call"], step["arguments"], step.get("patience_ms"))

    def call(self, method, arguments, patience_ms=None):
        if method not in self.methods:
            raise NotInContract(method)
        inputs, outputs = self.methods[method]
        if patience_ms is not None:
            arguments[-1]["patience_ms"] = patience_ms
        wire = [to_wire(kind, value, self.types)
                for (_, kind), value in zip(inputs, arguments)]
        signature = "".join(self.types.signature(kind) for _, kind in inputs)
        while True:
            try:
                if self.connection is None:
                    self.connection = dbus.connection.Connection(self.address)
                answer = self.connection.call_blocking(
                    None, "/org/mountd1", "org.mountd1.Manager", method, signature, wire)
            except dbus.DBusException as error:
                if error.get_dbus_name() in LOST:
                    self.connection = None
                elif error.get_dbus_name() != ERROR + "InProgress":
                    raise
            else:
                return from_wire(outputs[0][1] if outputs else None, answer, self.types)


def main():
    arguments = sys.argv[1:]
    folder = ROOT / "dbus"
    if arguments[:1] == ["--contract"]:
        folder, arguments = pathlib.Path(arguments[1]), arguments[2:]
    if len(arguments) != 1:
        sys.exit(__doc__)
    client = Client(arguments[0], model.Model(folder))
    for line in sys.stdin:
        step = json.loads(line)
        try:
            answer = {"result": client.answer(step)}
        except NotInContract:
            answer = {"unknown": True}
        except TimeoutError as missing:
            answer = {"error": "runner", "message": f"there was no {missing}"}
        except dbus.DBusException as error:
            answer = {"error": error.get_dbus_name().replace(ERROR, ""),
                      "message": error.get_dbus_message()}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
