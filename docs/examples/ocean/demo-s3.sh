#!/bin/sh
# Demonstrates nczctl on a bucket: starts a local S3 server, writes an artificial ocean dataset there, prints it, and
# copies it out and back.
# Usage: demo-s3.sh NCZCTL VERSITYGW [DIRECTORY]
set -eu
nczctl=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
server=$2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=${3:-$(mktemp -d)}
pid=
end() { [ -z "$pid" ] || { kill "$pid" && wait "$pid" || true; }; [ -n "${kept:-}" ] || rm -rf "$work"; }
kept=${3:-}
trap end EXIT
say() { printf '\n== %s\n' "$*"; }

say "generate the CDL text of the dataset"
(cd "$here" && go run . ) >"$work/ocean.cdl"
cd "$work"

# Like any S3 program, nczctl needs only the keys and the address. The script disables the user's
# own settings.
export AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo-secret AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
export AWS_CONFIG_FILE="$work/none" AWS_SHARED_CREDENTIALS_FILE="$work/none"
unset AWS_PROFILE AWS_SESSION_TOKEN || true
mkdir -p data/ocean-bucket/ours iam
: >"data/ocean-bucket/ours/server-$$" # distinguishes this server from others
port=17000
while [ "$port" -lt 17020 ]; do
    log=$work/server.log
    ROOT_ACCESS_KEY=demo ROOT_SECRET_KEY=demo-secret "$server" --port "127.0.0.1:$port" --region us-east-1 \
        --iam-dir "$work/iam" --quiet posix "$work/data" >"$log" 2>&1 &
    pid=$!
    export AWS_ENDPOINT_URL="http://127.0.0.1:$port"
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do # until this server answers, or ends because the port is taken
        "$nczctl" --isolation=inproc ls "s3://ocean-bucket/ours/server-$$" >/dev/null 2>answer && break 2
        tries=$((tries + 1)); sleep 0.1
    done
    kill "$pid" 2>/dev/null || true
    pid= port=$((port + 1))
done
[ -n "$pid" ] || { echo "no S3 server could be started:"; cat "$log"; exit 1; }
say "an S3 server (versitygw) listens at $AWS_ENDPOINT_URL and has the bucket ocean-bucket"

say "show how the URL is interpreted"
"$nczctl" url s3://ocean-bucket/ocean.zarr

say "write the dataset into the bucket"
"$nczctl" gen --stats --consolidated -o s3://ocean-bucket/ocean.zarr ocean.cdl

say "summarize the dataset, with one request because its metadata is consolidated"
"$nczctl" info --stats s3://ocean-bucket/ocean.zarr

say "print its header and coordinates"
"$nczctl" dump --stats -c s3://ocean-bucket/ocean.zarr | sed -n '1,40p'

say "copy it out of the bucket into an archive, and back with other chunks and another codec"
"$nczctl" copy --stats s3://ocean-bucket/ocean.zarr ocean.zip
"$nczctl" copy --stats -c time/4,lat/72,lon/144 --codec shuffle,zstd:level=7 ocean.zip s3://ocean-bucket/again.zarr

say "compare the dumps of all three"
n=0
for url in s3://ocean-bucket/ocean.zarr ocean.zip s3://ocean-bucket/again.zarr; do
    n=$((n + 1))
    "$nczctl" dump -n ocean "$url" >"$n.cdl"
done
cmp 1.cdl 2.cdl
cmp 3.cdl 2.cdl
echo "equal: $(wc -c <2.cdl) bytes of CDL each"
