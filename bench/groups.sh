#!/usr/bin/env bash
# Measures clusters of several groups beside one group, all nodes on one machine, so that the ratios say what groups cost
# and not what more machines gain. Prints Markdown.
#
#     bench/groups.sh [cpu] [plain] [memory] [idle] [loss]    default: all
#
# cpu     time of the processor of all nodes for a decision, clients that know the slots: with as many requests under way
#         as one group has, and with as many for each of the three nodes that lead
# plain   decisions a second of a client that knows one node, which forwards, P=64
# memory  of a node whose groups are empty, resident
# idle    of a processor, a node with groups that nobody asks
# loss    kill -9 of each of five nodes in turn, under load: when its groups decide again, and whether the others wait
#
# GROUPS_MANY (16), CONNECTIONS ("50 800"), ROUNDS (3), SECONDS_EACH (4), IDLE (60 s), IDLE_GROUPS (64) and KILLS (10)
# change what is measured.
set -euo pipefail
cd "$(dirname "$0")/.."

source bench/work.sh "${DATA:-bench}"
CGO_ENABLED=0 go build -o "$work/limitdb" ./cmd/limitdb
many=${GROUPS_MANY:-16} connections=${CONNECTIONS:-50 800} rounds=${ROUNDS:-3} each=${SECONDS_EACH:-4}
port=18730
declare -A pid # of a port

ask() { redis-cli -p "$@" 2>/dev/null || true; }
median() { sort -n | awk '{x[NR] = $1} END {print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2}'; }
now() { date +%s%N; }
until_true() { # SECONDS COMMAND…
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    ((SECONDS < end)) || { echo "groups.sh: gave up: ${*:2}" >&2; tail -n 5 "$work"/*.log >&2; exit 1; }
    sleep 0.1
  done
}
start() { # DIRECTORY PORT FLAGS…
  mkdir -p "$work/$1"
  "$work/limitdb" --port "$2" --http-port 0 --bind 127.0.0.1 --dir "$work/$1" --raft-addr 127.0.0.1:$(($2 + 200)) --raft-id "n$2" "${@:3}" 2>>"$work/$1.log" &
  pid[$2]=$!
  pids+=("${pid[$2]}")
}

# cluster GROUPS [NODES] starts three nodes or more, and sets nodes to their ports.
cluster() {
  local first=$((port + 1)) groups=$1
  mapfile -t nodes < <(seq "$first" $((port + ${2:-3})))
  port=$((port + ${2:-3}))
  start $first $first --raft-bootstrap yes --raft-groups "$groups"
  until_true 30 decides $first
  local p
  for p in "${nodes[@]:1}"; do start "$p" "$p" --raft-join 127.0.0.1:$first; done
  until_true 120 settled "$groups"
}
decides() { [[ $(ask "$1" RL.PEEK probe GCRA 1/s) =~ ^[01] ]]; }
# settled reports whether each group has its replicas, and each node leads its part.
settled() {
  local groups=$1 p
  for p in "${nodes[@]}"; do decides "$p" || return 1; done
  if ((groups == 1)); then [[ $(ask "${nodes[0]}" INFO replication) == *connected_slaves:2* ]] && return; fi
  ((groups == 1)) && return 1
  [[ -z $(ask "${nodes[0]}" RAFT PLAN) ]] && (($(leads "${nodes[0]}" | wc -l) == (groups < ${#nodes[@]} ? groups : ${#nodes[@]})))
}
# leads prints, for each node that leads slots, its port and its first slot.
leads() { ask "$1" CLUSTER NODES | awk '/master/ && $9 != "" {split($2, a, "[:@]"); split($9, s, "-"); print a[2], s[1]}'; }
stop() {
  local p
  for p in "${nodes[@]}"; do kill -9 "${pid[$p]}" 2>/dev/null || true; done
  for p in "${nodes[@]}"; do wait "${pid[$p]}" 2>/dev/null || true; done
}
# ticks prints how long the processes of ports have had a processor, in ns.
ticks() {
  local p
  for p in "$@"; do sed 's/.*) //' "/proc/${pid[$p]}/stat"; done | awk -v hz="$(getconf CLK_TCK)" '{t += $12 + $13} END {printf "%.0f\n", t * 1e9 / hz}'
}
resident() { awk '/VmRSS/ {printf "%.1f\n", $2 / 1024}' "/proc/${pid[$1]}/status"; }
load() { "$work/limitdb" bench -a "127.0.0.1:$1" -q --json "${@:2}"; }
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" | head -n 1; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", a / b}'; }

cpu() {
  local one several thrice c p round name before n
  cluster 1 && one=("${nodes[@]}")
  cluster "$many" && several=("${nodes[@]}") && thrice=("${nodes[@]}")
  echo "### Processor for a decision, clients that know the slots"
  echo
  echo "\`limitdb bench --cluster\`, keys of all slots, medians of $rounds rounds of $each s: the time of three nodes together, µs. A client divides its P"
  echo "requests among the three nodes that lead; with P × 3, each of them has as many as the leader of one group."
  echo
  echo "| connections | P | one group | $many groups | ratio | $many groups, P × 3 | ratio |"
  echo "|---|---|---|---|---|---|---|"
  for c in $connections; do
    for p in 1 16 64; do
      for round in $(seq 0 "$rounds"); do # the first is not counted
        for name in one several thrice; do
          local -n at=$name
          before=$(ticks "${at[@]}")
          n=$(load "${at[0]}" --cluster -c "$c" -P "$([[ $name == thrice ]] && echo $((p * 3)) || echo "$p")" -d "${each}s" -- RL.TAKE 'user:{key}' GCRA 100/h | field requests)
          ((round == 0)) || awk -v t="$(($(ticks "${at[@]}") - before))" -v n="$n" 'BEGIN {printf "%.3f\n", t / n / 1e3}' >>"$work/cpu.$c.$p.$name"
        done
      done
      row "$c | $p" "$work/cpu.$c.$p" 3
    done
  done
  echo
  nodes=("${one[@]}") && stop
  nodes=("${several[@]}") && stop
}
# row LABEL FILES DIGITS prints a line of a table: the median of one group, and for what else was measured its median and the ratio.
row() {
  local one name value
  one=$(median <"$2.one")
  printf "| %s | %.$3f |" "$1" "$one"
  for name in several thrice; do
    [[ -e $2.$name ]] || continue
    value=$(median <"$2.$name")
    printf " %.$3f | %s |" "$value" "$(ratio "$value" "$one")"
  done
  echo
}

plain() {
  local one several c name round at
  cluster 1 && one=${nodes[1]}
  local first=("${nodes[@]}")
  cluster "$many" && several=${nodes[1]}
  echo "### A client that knows one node"
  echo
  echo "P=64, decisions a second, medians of $rounds rounds of $each s: through a follower of one group, and through a node of $many groups."
  echo
  echo "| connections | one group | $many groups | ratio |"
  echo "|---|---|---|---|"
  for c in $connections; do
    for round in $(seq 0 "$rounds"); do
      for name in one several; do
        at=${!name}
        load "$at" -c "$c" -P 64 -d "${each}s" -- RL.TAKE 'user:{key}' GCRA 100/h | field requests_per_second >"$work/rate"
        ((round == 0)) || cat "$work/rate" >>"$work/plain.$c.$name"
      done
    done
    row "$c" "$work/plain.$c" 0
  done
  echo
  stop
  nodes=("${first[@]}") && stop
}

memory() {
  local groups p
  echo "### Memory of empty groups"
  echo
  for groups in 1 "$many"; do
    cluster "$groups"
    sleep 60
    printf '%d groups: ' "$groups"
    for p in "${nodes[@]}"; do printf '%s MB ' "$(resident "$p")"; done
    echo 'resident in the three nodes.'
    stop
  done
  echo
}

idle() {
  local groups=${IDLE_GROUPS:-64} time=${IDLE:-60} p before=()
  cluster "$groups"
  sleep 30
  for p in "${nodes[@]}"; do before+=("$(ticks "$p")"); done
  sleep "$time"
  echo "### Groups that nobody asks"
  echo
  printf '%d groups, %d s: ' "$groups" "$time"
  for p in "${!nodes[@]}"; do
    awk -v t="$(($(ticks "${nodes[p]}") - before[p]))" -v s="$time" 'BEGIN {printf "%.2f ", t / 1e9 / s}'
  done
  printf 'of a processor, '
  for p in "${nodes[@]}"; do printf '%s MB ' "$(resident "$p")"; done
  echo 'resident in the three nodes.'
  echo
  stop
}

loss() {
  local kill round lost slot other calm began tag at lines
  echo "### kill -9 of each node in turn, 4 groups on 5 nodes"
  echo
  cluster 4 5
  for round in $(seq 0 $((${KILLS:-10} - 1))); do
    lost=${nodes[round % 5]}
    lines=$(leads "${nodes[(round + 1) % 5]}")
    slot=$(awk -v p="$lost" '$1 == p {print $2; exit}' <<<"$lines") # none, of the node that leads no group
    read -r other at < <(awk -v p="$lost" '$1 != p' <<<"$lines" | head -n 1)
    tag=$(tag_of "$other" "$at")
    calm=$(load "$other" --rate 5000 -c 20 -w 1s -d "${each}s" -- RL.TAKE "{$tag}user:{key}" GCRA 100/h | field p99)
    load "$other" --rate 5000 -c 20 -w 1s -d "${each}s" -- RL.TAKE "{$tag}user:{key}" GCRA 100/h >"$work/during" &
    kill=$!
    sleep 2
    [[ -z $slot ]] || tag=$(tag_of "$other" "$slot")
    began=$(now)
    kill -9 "${pid[$lost]}"
    wait "${pid[$lost]}" 2>/dev/null || true
    if [[ -n $slot ]]; then
      until [[ $(ask "$other" RL.TAKE "{$tag}" GCRA 1000000/s) =~ ^[01] ]]; do sleep 0.005; done
      echo $((($(now) - began) / 1000000)) >>"$work/loss.again"
    fi
    wait $kill
    echo "$calm" >>"$work/loss.calm"
    field p99 <"$work/during" >>"$work/loss.p99"
    field max <"$work/during" >>"$work/loss.max"
    start "$lost" "$lost" --raft-join "127.0.0.1:$other"
    until_true 120 settled 4
  done
  printf 'Groups of the lost node decide again after %.0f ms (median of %d; the longest %d ms). Requests of a group that another node leads, 5 000 a second: p99 %.2f ms undisturbed, %.2f ms meanwhile (%s ×), the longest %.1f ms.\n\n' \
    "$(median <"$work/loss.again")" "$(wc -l <"$work/loss.again")" "$(sort -n "$work/loss.again" | tail -n 1)" \
    "$(median <"$work/loss.calm" | awk '{print $1 / 1e6}')" "$(median <"$work/loss.p99" | awk '{print $1 / 1e6}')" "$(ratio "$(median <"$work/loss.p99")" "$(median <"$work/loss.calm")")" \
    "$(sort -n "$work/loss.max" | tail -n 1 | awk '{print $1 / 1e6}')"
  stop
}
# tag_of PORT SLOT prints a word whose slot lies in the same group of four.
tag_of() {
  local i=0
  until (($(ask "$1" CLUSTER KEYSLOT "t$i") * 4 / 16384 == $2 * 4 / 16384)); do i=$((i + 1)); done
  echo "t$i"
}

sections=("$@")
((${#sections[@]})) || sections=(cpu plain memory idle loss)
echo "On $(nproc) processors, $(date +%F)."
echo
for section in "${sections[@]}"; do "$section"; done
