# A task that ends by itself. `nomad alloc logs` prints what it has written.
job "batch" {
  type = "batch"

  group "batch" {
    task "date" {
      driver = "mountd"

      config {
        image   = "dir:/srv/images/busybox"
        command = ["/bin/date"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
