# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Finds Rust, for scripts that source this file. Cargo keeps all that it fetches and builds
# in build/rust. It fetches crates of the exact versions that Cargo.toml names.
. "$ROOT/tests/real/go.sh" # skip, fail, fetched, at_least

need_rust() {
  local have
  command -v cargo >/dev/null || skip "there is no cargo: rustup.rs has it"
  have=$(cargo --version | cut -d' ' -f2)
  at_least "$have" 1.87 || skip "Rust 1.87 is needed, and this is $have"
  export CARGO_TARGET_DIR=$ROOT/build/rust/target
}

# rust_folder NAME FOLDER: goes to a copy of the crate in build/rust, because cargo writes
# Cargo.lock beside Cargo.toml.
rust_folder() {
  local copy=$ROOT/build/rust/$1
  mkdir -p "$copy"
  rm -rf "${copy:?}/src"
  cp -r "$2/Cargo.toml" "$2/src" "$copy"
  sed -i "s|path = \"../../../agent|path = \"$ROOT/agent|" "$copy/Cargo.toml"
  cd "$copy"
}
