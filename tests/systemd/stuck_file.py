# SPDX-License-Identifier: LGPL-2.1-or-later
"""A FUSE file system (fuse(4), linux/fuse.h) with one file. Its server never answers
writes to the file, as that of tests/support/servers/fuse_server.h, which serves the C++
tests."""
import ctypes
import errno
import os
import select
import struct

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 18, 25, 26, 36, 42
WRITEBACK_CACHE = 1 << 16
ROOT, FILE = 1, 2
MODES = {ROOT: 0o040755, FILE: 0o100666}
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def attributes(node):
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0,
                       MODES[node], 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """Returns the error and the answer to a request; None keeps the request waiting.

    The kernel reports written data by WRITE and the file's times by SETATTR. The
    process that closes the file last waits until the server has answered both.
    """
    if opcode in (FORGET, BATCH_FORGET, INTERRUPT, WRITE, SETATTR):
        return None
    if opcode == INIT:
        return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, WRITEBACK_CACHE, 64, 64,
                              4096, 1, 0, 0, 0)
    if opcode == LOOKUP:
        if body != b"file\0":
            return errno.ENOENT, b""
        return 0, struct.pack("<QQQQII", FILE, 0, 0, 0, 0, 0) + attributes(FILE)
    if opcode == GETATTR:
        return 0, struct.pack("<QII", 0, 0, 0) + attributes(node)
    if opcode == OPEN:
        return 0, bytes(16)
    return (0, b"") if opcode in (READ, RELEASE, FLUSH) else (errno.ENOSYS, b"")


def serve(device, until):
    """Serves until the file system is gone, or `until` reaches its end of file."""
    while True:
        ready = select.select([device, until], [], [])[0]
        if until in ready and not os.read(until, 1):
            return
        if device not in ready:
            continue
        try:
            request = os.read(device, 1 << 17)
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            answered = answer(opcode, node, request[40:])
            if answered is not None:
                error, out = answered
                os.write(device, struct.pack("<IiQ", 16 + len(out), -error, unique) + out)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            # The kernel had interrupted the request before the server read it (EINTR),
            # or before the server answered it (ENOENT).
            assert error.errno in (errno.EINTR, errno.ENOENT), error


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


class StuckFile:
    """Owns the mount at a directory and the server, a child process. Needs root.

    The server ends when the descriptor `until` does. No other process has the
    connection open, so the end of the server ends all waiting.
    """

    def __init__(self, directory, until):
        self.directory = directory
        self.path = directory + "/file"
        device = os.open("/dev/fuse", os.O_RDWR)
        options = (f"fd={device},rootmode=40000,user_id=0,group_id=0,"
                   "allow_other,default_permissions")
        check(LIBC.mount(b"mountd-test", directory.encode(), b"fuse",
                         MS_NOSUID | MS_NODEV, options.encode()), "mount of " + directory)
        self.server = os.fork()
        if self.server == 0:
            serve(device, until)
            os._exit(0)
        os.close(device)

    def wait(self):
        """Waits until the server has ended, and unmounts the file system."""
        os.waitpid(self.server, 0)
        check(LIBC.umount2(self.directory.encode(), MNT_DETACH),
              "umount of " + self.directory)
