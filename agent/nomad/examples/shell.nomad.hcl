# A task to enter with `nomad alloc exec`, which may write to a volume. It has the host's
# network, and a root file system that nothing can write to.
job "shell" {
  group "shell" {
    volume "data" {
      type   = "host"
      source = "data"
    }

    task "sleep" {
      driver = "mountd"

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        image          = "dir:/srv/images/busybox"
        command        = ["/bin/sleep", "86400"]
        read_only_root = true
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
