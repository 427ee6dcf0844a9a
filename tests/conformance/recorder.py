# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records the calls that a client sends to mountd's socket.

Reads the handshake and the messages as the D-Bus Specification has them ("Authentication
Protocol", "Message Protocol"), in little endian. Passes file descriptors on, and keeps none.
"""
import os
import socket
import struct
import threading

FIXED = {"y": "B", "b": "I", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q",
         "d": "d", "h": "I"}
CALL = 1
MOST_FDS = 16


class Reader:
    """Reads values of D-Bus from bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def align(self, size):
        self.at += -self.at % size

    def text(self, kind):
        if kind == "g":
            size = self.data[self.at]
            self.at += 1
        else:
            size = self.fixed("u")
        value = self.data[self.at:self.at + size].decode()
        self.at += size + 1
        return value

    def fixed(self, kind):
        size = struct.calcsize("<" + FIXED[kind])
        self.align(size)
        value = struct.unpack_from("<" + FIXED[kind], self.data, self.at)[0]
        self.at += size
        return value

    def value(self, signature):
        """Returns the value of the first type, and the rest of the signature."""
        kind, rest = signature[0], signature[1:]
        if kind in "sog":
            return self.text(kind), rest
        if kind == "v":
            return self.value(self.text("g"))[0], rest
        if kind == "a":
            return self.array(rest)
        if kind in "({":
            self.align(8)
            parts = []
            while rest[0] not in ")}":
                part, rest = self.value(rest)
                parts.append(part)
            return tuple(parts), rest[1:]
        return self.fixed(kind), rest

    def array(self, signature):
        size = self.fixed("u")
        if signature[0] in "({xtd":
            self.align(8)
        end = self.at + size
        values, is_dict = [], signature[0] == "{"
        rest = signature[end_of_type(signature):]
        while self.at < end:
            values.append(self.value(signature)[0])
        return (dict(values) if is_dict else values), rest


def end_of_type(signature):
    at = 0
    while signature[at] == "a":
        at += 1
    depth = 0
    while True:
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(signature[at], 0)
        at += 1
        if depth == 0:
            return at


def message_of(data):
    """Returns (length, call) of the first message; None if it is not whole. The call is
    (interface, member, signature, arguments), or None for another kind of message."""
    if len(data) < 16:
        return None
    body, _, header = struct.unpack_from("<III", data, 4)
    begin = 16 + header + -header % 8
    if len(data) < begin + body:
        return None
    reader = Reader(data[:begin])
    reader.at = 12
    fields, _ = reader.value("a(yv)")
    named = dict(fields)
    if data[0:1] != b"l" or data[1] != CALL:
        return begin + body, None
    arguments, rest, reader = [], named.get(8, ""), Reader(data[begin:begin + body])
    while rest:
        value, rest = reader.value(rest)
        arguments.append(value)
    return begin + body, (named.get(2, ""), named[3], named.get(8, ""), arguments)


def pass_on(to, part, fds):
    """Sends the bytes, with the fds beside the first of them."""
    try:
        sent = socket.send_fds(to, [part], fds) if fds else 0
    finally:
        for fd in fds:
            os.close(fd)
    if part[sent:]:
        to.sendall(part[sent:])


class Recorder:
    """Listens beside mountd's socket, passes everything on, and keeps the calls."""

    def __init__(self, address, folder):
        self.target = address.removeprefix("unix:path=")
        self.address = f"unix:path={folder}/recorder"
        self.calls = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{folder}/recorder")
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            mountd = socket.socket(socket.AF_UNIX)
            try:
                mountd.connect(self.target)
            except OSError:
                client.close()
                continue
            for source, to, keep in ((client, mountd, True), (mountd, client, False)):
                threading.Thread(target=self.forward, args=(source, to, keep),
                                 daemon=True).start()

    def forward(self, source, to, keep):
        data, begun = b"", False
        while True:
            try:
                part, fds, _, _ = socket.recv_fds(source, 65536, MOST_FDS)
                pass_on(to, part, fds)
            except OSError:
                part = b""
            if not part:
                break
            if not keep:
                continue
            data += part
            if not begun and b"BEGIN\r\n" in data:
                data, begun = data.split(b"BEGIN\r\n", 1)[1], True
            while begun and (found := message_of(data)):
                data = data[found[0]:]
                if found[1]:
                    self.calls.append(found[1])
        for one in (source, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other direction was first
