# A Nomad client, and a server for trying it, without root.

# Nomad makes a directory alloc_mounts beside this one. The parent is the user nomad's.
data_dir  = "/var/lib/nomad/data"
bind_addr = "127.0.0.1"

advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}

# One machine alone. In a cluster, servers are other machines: leave this block out, and
# name the servers in client.servers or client.server_join.
server {
  enabled          = true
  bootstrap_expect = 1
}

# The directory of mountd's task driver. Its file is named as the block plugin below.
plugin_dir = "/usr/libexec/mountd/nomad/plugins"

client {
  enabled = true

  # mountd-cni under the names of the plugins that Nomad runs for mode "bridge".
  cni_path = "/usr/libexec/mountd/nomad/cni"

  # Nomad 1.10 or later: "nomad volume create" makes host volumes by mountd. docs/nomad.md says
  # which rule they need.
  # host_volume_plugin_dir = "/usr/libexec/mountd/nomad/host_volumes"

  # The host volume "data" of mountd.toml has the same path, so mountd mounts it.
  host_volume "data" {
    path      = "/srv/data"
    read_only = false
  }
}

plugin "mountd" {
  config {
    # Tasks have images of these directories alone.
    image_directories = ["/srv/images"]

    # The cgroup of nomad.service. Without this line tasks have no limits.
    cgroup = "/sys/fs/cgroup/system.slice/nomad.service"
  }
}
