# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Finds Go, for tests that source this file. Go keeps all that it fetches and builds in
# build/go. It fetches modules from the proxy of this machine (GOPROXY), and accepts only
# modules with the sums that are committed here.

# skip WHY: exits with 77, by which ctest knows a skipped test.
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# need_go MAJOR.MINOR: puts a Go on PATH that is at least that version, or fetches it.
need_go() {
  local dir have
  command -v go >/dev/null || for dir in /usr/local/go/bin /usr/lib/go/bin; do
    [[ ! -x $dir/go ]] || { PATH=$PATH:$dir; break; }
  done
  command -v go >/dev/null || skip "there is no go: cmake/install-deps gets one"
  export GOPATH=$ROOT/build/go GOCACHE=$ROOT/build/go/cache
  export GOMODCACHE=$ROOT/build/go/mod GOFLAGS="-modcacherw -buildvcs=false"
  mkdir -p "$GOCACHE" "$GOMODCACHE"
  have=$(GOTOOLCHAIN=local go env GOVERSION)
  have=${have#go}
  at_least "$have" "$1" && return
  # Since 1.21 Go itself fetches a newer Go, as a module.
  at_least "$have" 1.21 || skip "Go $1 is needed, and this is Go $have"
  export GOTOOLCHAIN=auto
}

# at_least HAVE WANTED: succeeds if version HAVE is not older than WANTED.
at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n1) == "$2" ]]; }

# fetched COMMAND...: runs the command up to three times. A failure fails the test in CI,
# which must have a network, and skips the test elsewhere.
fetched() {
  local try
  for try in 1 2 3; do
    "$@" && return
    sleep $((try * 2))
  done
  [[ ${CI:-} == true ]] && fail "cannot fetch: $*"
  skip "cannot fetch: $*"
}
