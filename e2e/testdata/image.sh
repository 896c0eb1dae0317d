#!/bin/bash
# Builds the image of the Dockerfile with buildah, without a registry: the base
# image is made here, of the machine's own Go and busybox, under the name that
# the Dockerfile uses. Then runs the container.
#
#     image.sh WORK SOURCE PORT HTTP-PORT
#
# WORK is an empty folder for everything that is written. Prints the image's
# configuration to WORK/config.json, and the server's log to the standard output.
set -euo pipefail
work=$1 source=$2 port=$3 http=$4

export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot REGISTRY_AUTH_FILE=$work/auth.json
echo '{}' >"$REGISTRY_AUTH_FILE"
mkdir -p "$work/tmp" && export TMPDIR=$work/tmp
b() { buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"; }

# Nothing may stay mounted, or the folder cannot be removed.
cleanup() {
	b rm --all >/dev/null 2>&1 || true
	b rmi --all --force >/dev/null 2>&1 || true
}
trap cleanup EXIT

base=$(sed -n 's/^FROM \(.*\) AS build$/\1/p' "$source/Dockerfile")
container=$(b from scratch)
root=$(b mount "$container")
mkdir -p "$root"/{bin,dev,etc,proc,root,tmp,usr/local/go,go/pkg/mod,go/cache}
cp /bin/busybox "$root/bin/"
for tool in sh mkdir; do ln -s busybox "$root/bin/$tool"; done
b config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local \
	--env GOPROXY=off --env HOME=/root --env GOCACHE=/go/cache "$container"
b commit -q --rm "$container" "docker.io/library/$base"

# The toolchain, the modules and the build cache are lent, not copied.
b build --pull-never --isolation chroot --format docker --build-arg VERSION=9.8.7-e2e \
	--volume "$(go env GOROOT):/usr/local/go:ro" \
	--volume "$(go env GOMODCACHE):/go/pkg/mod" \
	--volume "$(go env GOCACHE):/go/cache" \
	--tag limitdb-e2e "$source" >&2
b inspect --type image --format '{{.Config}}' limitdb-e2e >"$work/config.json"

container=$(b from --pull-never limitdb-e2e)
root=$(b mount "$container")
cp "$root/limitdb" "$work/limitdb"
(cd "$root" && find . -mindepth 1 \( -path ./proc -o -path ./sys -o -path ./dev \) -prune -o -printf '%y %m %U:%G /%P\n') >"$work/files"

run() { b run --isolation chroot --env LIMITDB_PORT="$port" --env LIMITDB_HTTP_PORT="$http" "$container" -- "$@"; }
run /limitdb &
server=$!
until run /limitdb ping >"$work/ping" 2>&1; do
	kill -0 $server # it has not ended
	sleep 0.1
done
touch "$work/up"
# The test stops the server by SHUTDOWN.
wait $server
