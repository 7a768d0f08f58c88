#!/bin/sh
# Builds the programs of zarrs that make bench-shards measures, and prints the directory that has
# them in bin. DIR is a folder of $NCZARR_PEERS, or of $XDG_CACHE_HOME/nczarr/peers, named after
# the version in requirements.txt. Building needs cargo and a C compiler, and takes ten minutes or
# more on two cores; no test needs it. Messages go to standard error.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${NCZARR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/nczarr/peers}
die() { echo "install-zarrs.sh: $*" >&2; exit 1; }
version=$(sed -n 's/^# cargo zarrs_tools@//p' "$here/requirements.txt")
dir=$root/zarrs_tools-$version
[ ! -e "$dir/complete" ] || { echo "$dir"; exit 0; }
command -v cargo >/dev/null || die "no cargo"
mkdir -p "$dir"
nice -n 15 cargo install -q --locked --version "$version" --no-default-features --features benchmark --root "$dir" zarrs_tools >"$dir/cargo.log" 2>&1 ||
    die "cargo failed, see $dir/cargo.log"
: >"$dir/complete"
echo "$dir"
