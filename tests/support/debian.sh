# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Makes roots of a release of Debian from its packages, on any Debian machine.
# tests/debian13 and vagrant/ source this file.

# debian_sources RELEASE: prints the repositories of this machine's apt, with that
# release in place of this machine's.
debian_sources() {
  local release=$1 codename
  codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
    sed -nE "\|/debian(-security)?/? $codename(-[a-z]+)* main\$|s| $codename| $release|p" |
    sort -u | sed 's/^/deb /'
}

# debian_root RELEASE DIRECTORY WORK OPTION...: installs the packages that
# mmdebstrap's options name, and their dependencies, into DIRECTORY. WORK gets the
# log, whose end is printed after a failure.
debian_root() {
  local release=$1 directory=$2 work=$3
  shift 3
  debian_sources "$release" >"$work/sources.list"
  [[ -s $work/sources.list ]] ||
    { echo "apt has no repository of Debian's here" >&2; return 1; }
  apt-config dump | grep -iE '^Acquire::https?::Proxy ' >"$work/apt.conf" || true
  # A mount namespace of its own, because the mounts of the installation must
  # not appear on this machine.
  unshare --mount --propagation private -- mmdebstrap \
    --quiet --mode=root --variant=minbase --format=directory \
    --aptopt="$work/apt.conf" --dpkgopt='force-unsafe-io' "$@" \
    "$release" "$directory" "$work/sources.list" </dev/null >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log" >&2; echo "mmdebstrap failed" >&2; return 1; }
}
