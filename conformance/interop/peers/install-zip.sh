#!/bin/sh
# Builds a second netCDF4 peer, with a libnetcdf that supports zip, unlike the one in the wheel, and
# prints a directory whose venv/bin/python runs read.py, write.py and convert.py --with netcdf4
# --storage zip. Sources: the netcdf-src crate (the same libnetcdf release as the wheel's) and
# netCDF4's source package. The script is optional. It takes one to three minutes, and needs cargo,
# a C compiler and, unless the packages are installed, root with apt-get.
set -eu
crate=0.5.3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
netcdf4=$(sed -n 's/^netCDF4==//p' "$here/requirements.txt")
die() { echo "install-zip.sh: $*" >&2; exit 1; }
base=$(sh "$here/install.sh")
dir=$base/zip-$crate
[ ! -e "$dir/complete" ] || { echo "$dir"; exit 0; }
[ -x "$base/venv/bin/python" ] || die "the Python peers are absent"
command -v cargo >/dev/null || die "no cargo"
rm -rf "$dir"; mkdir -p "$dir/crate/src"

packages="cmake gcc make pkg-config libhdf5-dev libzip-dev libzstd-dev libblosc-dev libbz2-dev zlib1g-dev"
missing=$(for p in $packages; do dpkg -s "$p" >/dev/null 2>&1 || printf '%s ' "$p"; done)
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of names
    { apt-get -qq update && apt-get -qq -y --no-install-recommends install $missing; } >"$dir/apt.log" 2>&1 || die "apt-get failed, see $dir/apt.log"
fi
printf '[package]\nname = "sources"\nversion = "0.0.0"\n[dependencies]\nnetcdf-src = "=%s"\n' "$crate" >"$dir/crate/Cargo.toml"
: >"$dir/crate/src/lib.rs"
(cd "$dir/crate" && cargo vendor -q vendor) >"$dir/cargo.log" 2>&1 || die "cargo failed, see $dir/cargo.log"

off="" ; for o in DAP BYTERANGE S3 TESTS EXAMPLES LIBXML2; do off="$off -DNETCDF_ENABLE_$o=OFF"; done
# shellcheck disable=SC2086 # a list of options
{ cmake -S "$dir/crate/vendor/netcdf-src/source" -B "$dir/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON $off \
    -DNETCDF_BUILD_UTILITIES=OFF -DNETCDF_ENABLE_NCZARR=ON -DNETCDF_ENABLE_NCZARR_ZIP=ON -DNETCDF_ENABLE_PLUGINS=ON \
    -DCMAKE_INSTALL_PREFIX="$dir/inst" && cmake --build "$dir/build" --target install; } >"$dir/cmake.log" 2>&1 || die "cmake failed, see $dir/cmake.log"
hdf5=$(pkg-config --libs-only-L hdf5-serial | sed 's/^-L//; s/ *$//')
"$base/venv/bin/python" -m venv "$dir/venv"
pip() { "$dir/venv/bin/python" -m pip install --disable-pip-version-check -q -c "$here/requirements.txt" "$@"; }
{ pip Cython==3.3.1 setuptools==84.2.1 setuptools-scm==10.3.4 wheel==0.48.0 numpy cftime certifi &&
    HDF5_INCDIR=$(pkg-config --cflags-only-I hdf5-serial | sed 's/^-I//; s/ *$//') HDF5_LIBDIR=$hdf5 NETCDF4_DIR=$dir/inst USE_NCCONFIG=0 \
    LDFLAGS="-Wl,-rpath,$dir/inst/lib" pip --no-build-isolation --no-binary netCDF4 "netCDF4==$netcdf4"; } >"$dir/pip.log" 2>&1 || die "pip failed, see $dir/pip.log"
# Copy the plugins next to the module, which looks for them there. Copy only filters of real codecs,
# because the test plugins of the build would replace other filters.
to=$("$dir/venv/bin/python" -c 'import netCDF4, os; print(os.path.join(os.path.dirname(netCDF4.__file__), "plugins"))')
mkdir -p "$to"
for f in nch5blosc nch5bzip2 nch5deflate nch5fletcher32 nch5shuffle nch5szip nch5zstd nczhdf5filters nczstdfilters; do
    [ ! -e "$dir/build/plugins/lib__$f.so" ] || cp "$dir/build/plugins/lib__$f.so" "$to/"
done
found=$("$dir/venv/bin/python" -B "$here/versions.py" | tr -d '\n ')
case $found in *'"zip":true,"codecs":["blosc","bzip2","zlib","zstd"]'*) ;; *) die "the library was built but lacks zip or codecs: $found" ;; esac
rm -rf "$dir/build" "$dir/crate"
: >"$dir/complete"
echo "$dir"
