#!/bin/sh
# Demonstrates nczctl on an artificial ocean dataset: writes it as a zip archive and as a directory tree, copies one to
# the other with other chunks and another codec, and prints it as CDL. Usage: demo.sh NCZCTL [DIRECTORY]
set -eu
nczctl=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=${2:-$(mktemp -d)}
[ -n "${2:-}" ] || trap 'rm -rf "$work"' EXIT
say() { printf '\n== %s\n' "$*"; }
size() { du -sk "$1" | cut -f1; }

say "generate the CDL text of the dataset"
(cd "$here" && go run . ) >"$work/ocean.cdl"
echo "$work/ocean.cdl: $(size "$work/ocean.cdl") KiB of text"
cd "$work"
rm -rf ocean.zip ocean.zarr rechunked.zarr

say "write it as NCZarr in a zip archive"
"$nczctl" gen --stats -o ocean.zip ocean.cdl
echo "ocean.zip: $(size ocean.zip) KiB"

say "write it as NCZarr in a directory tree"
"$nczctl" gen --stats -o ocean.zarr ocean.cdl
echo "ocean.zarr: $(size ocean.zarr) KiB, $("$nczctl" ls -R ocean.zarr | wc -l) objects"

say "copy the archive to a tree, with other chunks and another codec"
"$nczctl" copy --stats -c time/4,lat/72,lon/144 --codec shuffle,zstd:level=7 ocean.zip rechunked.zarr
echo "rechunked.zarr: $(size rechunked.zarr) KiB, $("$nczctl" ls -R rechunked.zarr | wc -l) objects"

say "summarize the dataset"
"$nczctl" info rechunked.zarr

say "print it as CDL: header and coordinates"
"$nczctl" dump --stats -c rechunked.zarr | sed -n '1,60p'

say "compare the dumps of all three"
for store in ocean.zip ocean.zarr rechunked.zarr; do "$nczctl" dump -n ocean "$store" >"$store.cdl"; done
cmp ocean.zip.cdl ocean.zarr.cdl
cmp ocean.zip.cdl rechunked.zarr.cdl
echo "equal: $(wc -c <ocean.zip.cdl) bytes of CDL each"
