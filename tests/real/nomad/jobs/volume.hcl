# SPDX-License-Identifier: LGPL-2.1-or-later
id           = "files"
name         = "files"
type         = "csi"
plugin_id    = "csi-local"
capacity_min = "10MiB"
capacity_max = "20MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

parameters {
  kind = "directory"
}
