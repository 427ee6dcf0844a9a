# SPDX-License-Identifier: LGPL-2.1-or-later
"""Serves a directory over HTTP on IPv4 and IPv6: http_server.py PORT DIR."""
import functools
import http.server
import socket
import sys


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer.server_bind would ask the resolver for our own name.
        socket.socket.bind(self.socket, self.server_address)
        self.server_name = "job"
        self.server_port = self.server_address[1]


handler = functools.partial(http.server.SimpleHTTPRequestHandler,
                            directory=sys.argv[2])
Server(("::", int(sys.argv[1])), handler).serve_forever()
