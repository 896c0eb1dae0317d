#!/usr/bin/env bash
# Measures the collections that limiters keep, in limitdb and in Redis: the memory of a key, and the server's CPU
# for each command, 16 in a pipeline. Prints Markdown.
#
#     bench/collections.sh
#
# KEYS and REQUESTS make it shorter. It needs redis-benchmark, redis-cli and redis-server.
set -euo pipefail
cd "$(dirname "$0")/.."

keys=${KEYS:-20000} requests=${REQUESTS:-400000}
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/limitdb" ./cmd/limitdb

start() { # NAME PORT COMMAND…
  local port=$2
  mkdir -p "$work/$1.data"
  "${@:3}" --port "$port" --dir "$work/$1.data" --appendonly no --save "" >"$work/$1.log" 2>&1 &
  pids+=($!)
  until [[ $(redis-cli -p "$port" PING 2>/dev/null) == PONG ]]; do sleep 0.1; done
}
start limitdb 17981 "$work/limitdb" --bind 127.0.0.1 --http-port 0
start redis 17982 redis-server --bind 127.0.0.1

rss() { awk '$1 == "VmRSS:" {print $2 * 1024}' "/proc/$1/status"; }
ticks() {
  local stat
  stat=$(<"/proc/$1/stat")
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  echo $((${12} + ${13}))
}

# row NAME FILL COMMAND: the fill is a line for each key, whose number is KEY; empty: what the row before has filled.
row() {
  local out=() cpu=() i port before
  for i in 0 1; do
    port=$((17981 + i))
    before=$(rss "${pids[i]}")
    [[ -z $2 ]] || awk -v n="$keys" -v fill="$2" 'BEGIN {for (k = 0; k < n; k++) {s = fill; gsub(/KEY/, sprintf("%012d", k), s); print s}}' |
      redis-cli -p $port --pipe >/dev/null
    out+=("$(if [[ -n $2 ]]; then echo $((($(rss "${pids[i]}") - before) / keys)); fi)")
    before=$(ticks "${pids[i]}")
    # shellcheck disable=SC2086
    redis-benchmark -p $port -q -P 16 -c 50 -n "$requests" -r "$keys" ${3//KEY/__rand_int__} >/dev/null
    cpu+=("$(awk -v t=$(($(ticks "${pids[i]}") - before)) -v hz="$(getconf CLK_TCK)" -v n="$requests" 'BEGIN {printf "%.2f", t / hz / n * 1e6}')")
  done
  echo "| $1, \`${3//:KEY/}\` | ${cpu[0]} | ${cpu[1]} | ${out[0]} | ${out[1]} |"
}

times() { for ((i = 0; i < 50; i++)); do printf ' %s' "${@/N/17600000000$i}"; done; }
echo "| | CPU in limitdb, µs | in Redis | bytes a key in limitdb | in Redis |"
echo "|---|---|---|---|---|"
row "sliding log of 50 in a sorted set" "ZADD z:KEY$(times N N)" "ZADD z:KEY 1760000000049 1760000000049"
row "the same, what is too old" "" "ZREMRANGEBYSCORE z:KEY -inf 1"
row "the same, its length" "" "ZCARD z:KEY"
row "window in a hash of 3 fields" "HSET h:KEY start 1760000000 end 1760003600 count 1" "HINCRBY h:KEY count 1"
row "sliding log of 50 in a list" "RPUSH l:KEY$(times N)" "LTRIM l:KEY 0 49"
row "the same, the oldest" "" "LINDEX l:KEY -1"
