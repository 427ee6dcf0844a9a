# SPDX-License-Identifier: LGPL-2.1-or-later
# The test puts the cgroup's path in place of the word CGROUP.
data_dir             = "/var/lib/nomad/data"
bind_addr            = "127.0.0.1"
disable_update_check = true
log_level            = "DEBUG"
plugin_dir           = "/mnt/libexec/nomad/plugins"

ports {
  http = 4656
}

advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}

client {
  enabled           = true
  servers           = ["127.0.0.1:4647"]
  network_interface = "uplink0"
  cni_path          = "/mnt/libexec/nomad/cni"

  # mountd.toml has no volume with this path, so the runtime binds the path by itself.
  host_volume "usr" {
    path      = "/usr"
    read_only = true
  }

  # mountd mounts this volume.
  host_volume "data" {
    path = "/var/lib/data"
  }

  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"
  }
}

plugin "mountd" {
  config {
    image_directories = ["/var/lib/images"]
    state             = "/var/lib/nomad/mountd"
    cgroup            = "CGROUP"
    shim              = "/mnt/bin/mountd-task-shim"
  }
}

# For mountd-csi-proxy.
plugin "raw_exec" {
  config {
    enabled = true
  }
}
