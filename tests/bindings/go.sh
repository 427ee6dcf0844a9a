# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds Go programs with agent/bindings/go, for scripts that source this file. godbus
# comes from Debian's golang-dbus-dev, which has the pinned version and needs no network,
# or else from the proxy of this machine.
. "$ROOT/tests/real/go.sh"

DEBIAN_GODBUS=/usr/share/gocode/src/github.com/godbus/dbus

# need_module FOLDER NAME: goes to the folder of a Go module. Exports GOFLAGS, by which
# each go command there uses a go.mod of its own in build/go.
need_module() {
  local file=$ROOT/build/go/$2.mod
  need_go 1.19
  cd "$1"
  cp go.mod "$file"
  # A replacement by a relative path would be relative to the folder of the copy.
  sed -i "s|=> \.\./\.\./\.\./agent|=> $ROOT/agent|" "$file"
  if [[ -e $DEBIAN_GODBUS/go.mod ]]; then
    echo "replace github.com/godbus/dbus/v5 => $DEBIAN_GODBUS" >>"$file"
    export GOPROXY=off
  else
    cp go.sum "${file%.mod}.sum"
  fi
  export GOFLAGS="$GOFLAGS -mod=mod -modfile=$file"
  fetched go mod download
}
