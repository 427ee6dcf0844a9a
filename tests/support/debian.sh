# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Roots of a release of Debian, made of its packages by whatever Debian this
# machine is: for tests/debian13 and vagrant/. To be sourced.

# debian_sources RELEASE: Debian's repositories as apt knows them here, but of
# that release.
debian_sources() {
  local release=$1 codename
  codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
    sed -nE "\|/debian(-security)?/? $codename(-[a-z]+)* main\$|s| $codename| $release|p" |
    sort -u | sed 's/^/deb /'
}

# debian_root RELEASE DIRECTORY WORK OPTION...: the packages that mmdebstrap's
# options name, and what they need, installed into DIRECTORY. WORK gets the log,
# whose end is shown if that fails.
debian_root() {
  local release=$1 directory=$2 work=$3
  shift 3
  debian_sources "$release" >"$work/sources.list"
  [[ -s $work/sources.list ]] ||
    { echo "apt has no repository of Debian's here" >&2; return 1; }
  apt-config dump | grep -iE '^Acquire::https?::Proxy ' >"$work/apt.conf" || true
  # In a mount namespace, because what it mounts for installing is no business
  # of this machine's.
  unshare --mount --propagation private -- mmdebstrap \
    --quiet --mode=root --variant=minbase --format=directory \
    --aptopt="$work/apt.conf" --dpkgopt='force-unsafe-io' "$@" \
    "$release" "$directory" "$work/sources.list" </dev/null >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log" >&2; echo "mmdebstrap failed" >&2; return 1; }
}
