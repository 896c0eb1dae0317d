#!/usr/bin/env bash
# Measures what replication costs: nodes of a cluster beside a standalone server with appendfsync always, on one machine and
# one disk. Prints Markdown. The figures to look at are the ratios.
#
#     bench/replication.sh [throughput] [latency] [snapshot] [failover]    default: all
#
# throughput  decisions a second, in rounds that alternate
# latency     three nodes, open loop at half of their peak
# snapshot    a snapshot of KEYS keys on a node, decisions meanwhile, and a restart from it
# failover    kill -9 of the leader to the next decision, KILLS times
#
# SECONDS_EACH, ROUNDS, KEYS and KILLS make it shorter. RATE is the requests a second of latency. The data are in DATA, or in a folder in bench/.
set -euo pipefail
cd "$(dirname "$0")/.."

source bench/work.sh "${DATA:-bench}"
CGO_ENABLED=0 go build -o "$work/limitdb" ./cmd/limitdb
each=${SECONDS_EACH:-4} rounds=${ROUNDS:-3} keys=${KEYS:-5000000}
port=18930

# start NAME FLAGS… starts limitdb in a directory of its own, and sets server and port.
start() {
  local name=$1
  shift
  port=$((port + 1))
  mkdir -p "$work/$name"
  "$work/limitdb" --port $port --http-port 0 --bind 127.0.0.1 --dir "$work/$name" "$@" 2>>"$work/$name.log" &
  server=$!
  pids+=("$server")
}
ask() { redis-cli -p "$@" 2>/dev/null || true; }
answers() { # PORT COMMAND… until a decision is made
  until [[ $(ask "$1" RL.PEEK probe GCRA 1/s) =~ ^0 ]]; do
    kill -0 "$server" 2>/dev/null || { tail "$work"/*.log >&2; exit 1; }
    sleep 0.02
  done
}
# node NAME FLAGS… starts a node of a cluster.
node() {
  start "$1" --raft-addr 127.0.0.1:$((port + 101)) --raft-id "$1" "${@:2}"
}
standalone=() alone=() three=()
cluster() { # sets the ports of the servers to compare
  start always --appendonly yes --appendfsync always && standalone=$port && answers $port
  node one --raft-bootstrap yes && alone=$port && answers $port
  node a --raft-bootstrap yes && three=$port && answers $port
  local name
  for name in b c; do
    node $name
    until [[ $(ask "$three" RAFT SERVER ADD $name 127.0.0.1:$((port + 100))) == OK ]]; do sleep 0.1; done
  done
  until [[ $(ask "$three" INFO replication) == *connected_slaves:2* ]]; do sleep 0.1; done
}
load() { "$work/limitdb" bench -a "127.0.0.1:$1" -q --json "${@:2}"; }
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" | head -n 1; }
median() { sort -n | awk '{x[NR] = $1} END {print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2}'; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.2f", b - a}'; }
command=(CL.THROTTLE 'user:{key}' 100 100 360000)

throughput() {
  cluster
  local round name p
  local -A at=([always]=$standalone [one]=$alone [three]=$three)
  for name in always one three; do load "${at[$name]}" -c 50 -P 64 -d 2s -- "${command[@]}" >/dev/null; done
  for round in $(seq "$rounds"); do
    for p in '50 64' '64 1'; do
      for name in always one three; do
        set -- $p
        load "${at[$name]}" -c "$1" -P "$2" -d "${each}s" -- "${command[@]}" | field requests_per_second >>"$work/rate.$1.$2.$name"
      done
    done
  done
  echo "### Throughput"
  echo
  echo "Decisions a second, medians of $rounds rounds of $each s, and the ratio to the standalone server."
  echo
  echo "| | 50 connections, P=64 | 64 connections, P=1 |"
  echo "|---|---|---|"
  for name in always one three; do
    printf '| %s |' "$(label $name)"
    for p in 50.64 64.1; do
      awk -v r="$(median <"$work/rate.$p.$name")" -v base="$(median <"$work/rate.$p.always")" 'BEGIN {printf " %d (%.2f) |", r, r / base}'
    done
    echo
  done
  echo
}
label() {
  case $1 in
  always) echo 'standalone, appendfsync always' ;;
  one) echo 'one node' ;;
  three) echo 'three nodes on the machine' ;;
  esac
}

latency() {
  [[ -n ${three:-} ]] || cluster
  local peak json
  peak=$(load "$three" -c 50 -P 64 -d "${each}s" -- "${command[@]}" | field requests_per_second)
  local rate=${RATE:-$((${peak%.*} / 2))}
  json=$(load "$three" -c 50 -P 64 --rate "$rate" -w 1s -d "$((2 * each))s" -- "${command[@]}")
  echo "### Latency at half of the peak"
  echo
  echo "Three nodes, $rate requests a second, open loop: p50 $(ms "$json" p50), p99 $(ms "$json" p99), p99.9 $(ms "$json" p999), longest $(ms "$json" max)."
  echo
}
ms() { awk -v ns="$(field "$2" <<<"$1")" 'BEGIN {printf "%.1f ms", ns / 1e6}'; }

snapshot() {
  local at json began took
  node big --raft-bootstrap yes && at=$port && answers "$at"
  load "$at" -n "$keys" -r "$keys" -P 256 --distribution sequential -- CL.THROTTLE 'stay:{key}' 100 100 86400 >/dev/null
  json=$(load "$at" --rate 5000 -r 100000 -w 1s -d 5s -- CL.THROTTLE 'stay:{key}' 100 100 86400)
  echo "### A snapshot of $keys keys"
  echo
  echo "5 000 requests a second meanwhile, open loop. Idle: p99 $(ms "$json" p99), longest $(ms "$json" max)."
  (load "$at" --rate 5000 -r 100000 -d 8s -- CL.THROTTLE 'stay:{key}' 100 100 86400 >"$work/during") &
  local loader=$!
  sleep 1
  began=$(now)
  until [[ $(ask "$at" RAFT SNAPSHOT) == OK ]]; do
    sleep 0.1
    began=$(now) # one was under way
  done
  took=$(since "$began")
  wait $loader
  json=$(<"$work/during")
  echo "The snapshot took $took s: p99 $(ms "$json" p99), longest $(ms "$json" max)."
  kill -9 "$server"
  wait "$server" 2>/dev/null || true
  port=$((port - 1))
  began=$(now)
  node big --raft-bootstrap yes
  answers "$port"
  echo "A start from it, to the first decision: $(since "$began") s."
  echo
}

failover() {
  echo "### kill -9 of the leader"
  echo
  LIMITDB_KILLS=${KILLS:-30} LIMITDB_E2E=1 go test ./e2e -count=1 -run '^TestFailoverTimes$' -v -timeout 20m | sed -n 's/.*failover_test.go:[0-9]*: //p'
  echo
}

sections=("$@")
((${#sections[@]})) || sections=(throughput latency snapshot failover)
echo "On $(nproc) processors, $(date +%F)."
echo
for section in "${sections[@]}"; do "$section"; done
