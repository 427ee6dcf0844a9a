# SPDX-License-Identifier: LGPL-2.1-or-later
# One task that runs a shell's script. The test puts its words in place of NAME, TYPE and
# SCRIPT, and lines of its own in place of GROUP, TASK and CONFIG.
job "NAME" {
  type = "TYPE"

  # A failure stays a failure.
  reschedule {
    attempts  = 0
    unlimited = false
  }

  group "NAME" {
    restart {
      attempts = 2
      interval = "5m"
      delay    = "1s"
      mode     = "fail"
    }

    volume "usr" {
      type      = "host"
      source    = "usr"
      read_only = true
    }
    GROUP

    task "NAME" {
      driver = "mountd"

      volume_mount {
        volume      = "usr"
        destination = "/usr"
        read_only   = true
      }
      TASK

      config {
        image   = "dir:/var/lib/images/host"
        command = ["/bin/sh", "-c", <<-EOF
          SCRIPT
        EOF
        ]
        CONFIG
      }

      logs {
        max_files     = 3
        max_file_size = 1
      }

      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
