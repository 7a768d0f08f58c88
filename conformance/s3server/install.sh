#!/bin/sh
# Builds the S3 server of the tests outside the tree, once, and prints its path. Its
# version is pinned by versitygw.mod next to this file, which is not part of the
# library's module. The binary is in a folder of $NCZARR_PEERS, or of
# $XDG_CACHE_HOME/nczarr/peers, named after the pins and the Go used. Messages go to
# standard error.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${NCZARR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/nczarr/peers}
go=${GO:-go}
pins=$(cat "$here/versitygw.mod" "$here/versitygw.sum" | cksum | cut -d' ' -f1)
dir=$root/versitygw-$pins-$("$go" env GOVERSION)
[ ! -x "$dir/versitygw" ] || { echo "$dir/versitygw"; exit 0; }
mkdir -p "$dir"
if command -v flock >/dev/null; then exec 9>"$dir/lock"; flock 9; fi
[ ! -x "$dir/versitygw" ] || { echo "$dir/versitygw"; exit 0; }
cd "$here/../.."
new=$dir/versitygw.$$
trap 'rm -f "$new"' EXIT
CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off "$go" build -modfile=conformance/s3server/versitygw.mod \
    -trimpath -ldflags='-s -w' -o "$new" github.com/versity/versitygw/cmd/versitygw >&2
mv "$new" "$dir/versitygw"
echo "$dir/versitygw"
