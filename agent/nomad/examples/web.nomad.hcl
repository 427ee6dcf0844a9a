# A web server with a port of the host and a volume.
job "web" {
  group "web" {
    network {
      mode = "bridge"
      port "http" {
        static = 8080
        to     = 80
      }
    }

    volume "data" {
      type      = "host"
      source    = "data"
      read_only = true
    }

    task "httpd" {
      driver = "mountd"

      volume_mount {
        volume      = "data"
        destination = "/srv/data"
        read_only   = true
      }

      config {
        image   = "dir:/srv/images/busybox"
        command = ["/bin/httpd", "-f", "-p", "80", "-h", "/srv/data"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
