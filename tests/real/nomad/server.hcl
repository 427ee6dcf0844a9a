# SPDX-License-Identifier: LGPL-2.1-or-later
data_dir             = "/var/lib/nomad-server/data"
bind_addr            = "127.0.0.1"
disable_update_check = true

advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}

server {
  enabled          = true
  bootstrap_expect = 1
  # A killed client is not lost before it starts again.
  heartbeat_grace = "5m"
}
