#!/bin/sh
# Installs the peers of the interop tests outside the tree and prints the directory they
# are in: DIR/venv/bin/python runs the tools here, DIR/node has zarrita.js,
# DIR/versions.json maps each peer to its version, or to the reason why it is absent.
# DIR is a folder of $NCZARR_PEERS, or of $XDG_CACHE_HOME/nczarr/peers, named after the
# pins and the Python used. $NCZARR_PYTHON names the Python to use (3.11 or newer).
# Messages go to standard error.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=${NCZARR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/nczarr/peers}
say() { echo "install.sh: $*" >&2; }

candidates() {
    [ -z "${NCZARR_PYTHON:-}" ] || { echo "$NCZARR_PYTHON"; return; }
    printf '%s\n' python3.14 python3.13 python3.12
    ! command -v pyenv >/dev/null || ls -d "$(pyenv root)"/versions/3.1[234].*/bin/python 2>/dev/null | sort -rV
    printf '%s\n' python3 python3.11
}
probe='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
python=$(candidates | while read -r p; do "$p" -c "$probe" 2>/dev/null && echo "$p" && break; done) || python=
version=$([ -z "$python" ] || "$python" -V | cut -d' ' -f2)
dir=$root/$(cat "$here/requirements.txt" "$here/versions.py" | cksum | cut -d' ' -f1)-${version:-none}
mkdir -p "$dir"
if command -v flock >/dev/null; then exec 9>"$dir/lock"; flock 9; fi
[ ! -e "$dir/complete" ] || { echo "$dir"; exit 0; }
rm -f "$dir/versions.json"

packages="netcdf-bin ferret-datasets zip unzip" why_not=
missing=$(for p in $packages; do dpkg -s "$p" >/dev/null 2>&1 || printf '%s ' "$p"; done)
if [ -n "$missing" ] && ! command -v apt-get >/dev/null; then why_not="no apt-get"
elif [ -n "$missing" ] && [ "$(id -u)" != 0 ]; then why_not="not root"
elif [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of names
    { apt-get -qq update && apt-get -qq -y --no-install-recommends install $missing; } >"$dir/apt.log" 2>&1 || why_not="apt-get failed, see $dir/apt.log"
fi
[ -z "$why_not" ] || say "skipped $missing: $why_not"

if [ -z "$python" ]; then
    say "skipped the Python peers: no Python 3.11 or newer with venv"
    printf '{"python": {"absent": "no Python 3.11 or newer with venv"}}\n' >"$dir/versions.json"
    echo "$dir"; exit 0
fi
if [ ! -e "$dir/venv/complete" ]; then
    { "$python" -m venv --clear "$dir/venv" &&
        "$dir/venv/bin/python" -m pip install --disable-pip-version-check -q --no-deps -r "$here/requirements.txt" &&
        : >"$dir/venv/complete"; } >"$dir/pip.log" 2>&1 || say "pip failed, see $dir/pip.log"
fi
if [ ! -e "$dir/node/complete" ]; then
    mkdir -p "$dir/node"
    # shellcheck disable=SC2046 # a list of packages
    { npm install --no-fund --no-audit --ignore-scripts --prefix "$dir/node" $(sed -n 's/^# npm //p' "$here/requirements.txt") &&
        : >"$dir/node/complete"; } >"$dir/npm.log" 2>&1 || say "npm failed, see $dir/npm.log"
fi
PEERS_WHY_NOT=$why_not PEERS_NODE=$dir/node "$dir/venv/bin/python" "$here/versions.py" >"$dir/versions.json.new"
mv "$dir/versions.json.new" "$dir/versions.json"
if grep -q '"absent"' "$dir/versions.json"; then say "some are absent, see $dir/versions.json"; else : >"$dir/complete"; fi
echo "$dir"
