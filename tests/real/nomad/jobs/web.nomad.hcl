# SPDX-License-Identifier: LGPL-2.1-or-later
# A server behind a port of the host. It answers with a file of a volume that mountd mounts.
job "web" {
  group "web" {
    restart {
      attempts = 5
      interval = "5m"
      delay    = "1s"
    }

    network {
      mode = "bridge"
      port "http" {
        static = 28080
        to     = 80
      }
    }

    volume "usr" {
      type      = "host"
      source    = "usr"
      read_only = true
    }

    volume "data" {
      type   = "host"
      source = "data"
    }

    task "server" {
      driver       = "mountd"
      kill_signal  = "SIGTERM"
      kill_timeout = "10s"

      volume_mount {
        volume      = "usr"
        destination = "/usr"
        read_only   = true
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        image = "dir:/var/lib/images/host"
        command = ["/usr/bin/perl", "-MIO::Socket", "-e", <<-EOF
          $SIG{TERM} = sub { open my $f, ">", "/data/ended"; exit 0 };
          my $s = IO::Socket::INET->new(LocalPort => 80, Listen => 9, ReuseAddr => 1) or die;
          while (1) {
            my $c = $s->accept or next;
            while (my $line = <$c>) { last if $line =~ /^\r?$/ }
            open my $f, "<", "/data/greeting";
            print $c "HTTP/1.0 200 OK\r\n\r\n", <$f>;
            close $c;
          }
        EOF
        ]
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
