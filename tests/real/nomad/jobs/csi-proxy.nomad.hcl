# SPDX-License-Identifier: LGPL-2.1-or-later
# The job of man mountd-csi-proxy.
job "csi-proxy" {
  type = "system"

  group "csi-proxy" {
    restart {
      attempts = 10
      interval = "5m"
      delay    = "1s"
    }

    task "proxy" {
      driver = "raw_exec"

      config {
        command = "/mnt/bin/mountd-csi-proxy"
        args    = ["--plugin", "csi-local"]
      }

      csi_plugin {
        id                     = "csi-local"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/var/lib/nomad/data/client/csi/monolith/csi-local"
      }

      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}
