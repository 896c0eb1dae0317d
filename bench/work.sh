# Sourced by measurements that start servers, with a folder. $work is a new directory in it, which goes when the script ends, as do the
# processes of pids.
# shellcheck shell=bash

work=$(mktemp -d "$1/limitdb.XXXXXX")
work=$(cd "$work" && pwd)
pids=()
cleanup() {
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
