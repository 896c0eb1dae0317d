#!/usr/bin/env bash
# Measures what the append-only log and snapshots cost. Prints Markdown.
#
#     bench/durability.sh [policies] [always] [load] [snapshot] [script]    default: all
#
# policies  server CPU for each decision, without a log and at each appendfsync,
#           beside Redis with INCR and the same policy
# always    latency under appendfsync always, 50 connections, not pipelined
# load      starting with 10 M keys: from a snapshot, and from a log
# snapshot  latency and RSS while 10 M keys are saved
# script    40 of a burst of 50 at 5 a second, a restart, and what is left
#
# REQUESTS, KEYS and ROUNDS make it shorter. It needs redis-benchmark, redis-cli and redis-server. The data
# are in DATA, or in a folder in bench/.
set -euo pipefail
cd "$(dirname "$0")/.."

source bench/work.sh "${DATA:-bench}"
CGO_ENABLED=0 go build -o "$work/limitdb" ./cmd/limitdb
requests=${REQUESTS:-2000000} keys=${KEYS:-10000000} rounds=${ROUNDS:-3}
next_port=17930

# start NAME FLAGS… starts limitdb in a directory of its own, and sets server and port.
start() {
  local name=$1
  shift
  port=$next_port
  next_port=$((next_port + 1))
  mkdir -p "$work/$name"
  "$work/limitdb" --port $port --http-port 0 --bind 127.0.0.1 --dir "$work/$name" "$@" 2>>"$work/$name.log" &
  server=$!
  pids+=("$server")
}
ready() {
  until [[ $(redis-cli -p $port PING 2>/dev/null) == PONG ]]; do
    kill -0 "$server" 2>/dev/null || { cat "$work"/*.log >&2; exit 1; }
    sleep 0.05 # who asks all the time takes a processor away from who loads
  done
}
stop() { kill "$server" && wait "$server" || true; }

# cpu PID prints the CPU time of a process so far, in ticks.
cpu() {
  local stat
  stat=$(<"/proc/$1/stat")
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  echo $((${12} + ${13}))
}
hz=$(getconf CLK_TCK)
median() { sort -n | awk '{x[NR] = $1} END {print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2}'; }
rss() { awk -v want="$2" '$1 == want":" {print $2 * 1024}' "/proc/$1/status"; }
load() {
  local to=$1
  shift
  "$work/limitdb" bench -a "127.0.0.1:$to" -q --json "$@"
}
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" | head -n 1; }
throttle='CL.THROTTLE resi:__rand_int__ 100 100 360000'

policies() {
  local name round before p r
  local -A pid at command
  local names=(none no everysec always 'Redis INCR, none' 'Redis INCR, everysec' 'Redis INCR, always')
  for name in "${names[@]}"; do
    case $name in
    none) start "$name" --appendonly no && ready ;;
    Redis*)
      port=$next_port
      next_port=$((next_port + 1))
      mkdir -p "$work/$port"
      p=${name##*, }
      if [[ $p == none ]]; then
        redis-server --port $port --bind 127.0.0.1 --save '' --appendonly no --dir "$work/$port" >/dev/null &
      else
        redis-server --port $port --bind 127.0.0.1 --save '' --appendonly yes --appendfsync "$p" --dir "$work/$port" >/dev/null &
      fi
      server=$!
      pids+=("$server")
      ready
      ;;
    *) start "$name" --appendonly yes --appendfsync "$name" && ready ;;
    esac
    pid[$name]=$server at[$name]=$port command[$name]=$throttle
    [[ $name != Redis* ]] || command[$name]='INCR resi:__rand_int__'
    # shellcheck disable=SC2086
    redis-benchmark -p $port -n 3000000 -r 1000000 -c 50 -P 256 -q ${command[$name]} >/dev/null
  done
  for round in $(seq "$rounds"); do
    for p in 1 16 64 256; do
      for name in "${names[@]}"; do
        local n=$requests
        ((p > 1)) || n=$((requests / 16))
        before=$(cpu "${pid[$name]}")
        # shellcheck disable=SC2086
        r=$(redis-benchmark -p "${at[$name]}" -n "$n" -r 1000000 -c 50 -P $p --csv ${command[$name]} | awk -F'","' 'END {print $2}')
        awk -v t=$(($(cpu "${pid[$name]}") - before)) -v hz="$hz" -v n="$n" 'BEGIN {print t / hz * 1e6 / n}' >>"$work/cpu.$p.$name"
        echo "$r" >>"$work/rps.$p.$name"
        sync # what one has left to be written would take the disk from the next
      done
    done
  done
  echo "### What a log costs"
  echo
  echo "Thousands of decisions a second / server CPU, µs each (ratio to no log). redis-benchmark, 50 connections, 1 M keys, $requests requests ($((requests / 16)) at P=1), medians of $rounds rounds."
  echo
  echo "| | P=1 | P=16 | P=64 | P=256 |"
  echo "|---|---|---|---|---|"
  for name in "${names[@]}"; do
    printf '| %s |' "$name"
    local base=none
    [[ $name != Redis* ]] || base='Redis INCR, none'
    for p in 1 16 64 256; do
      awk -v r="$(median <"$work/rps.$p.$name")" -v c="$(median <"$work/cpu.$p.$name")" -v b="$(median <"$work/cpu.$p.$base")" \
        'BEGIN {printf " %.0f / %.2f (%.2f ×) |", r / 1000, c, c / b}'
    done
    echo
  done
  echo
  for server in "${pid[@]}"; do kill "$server" && wait "$server" || true; done
}

always() {
  local i json redis_port
  sync # or what the build has written competes for the disk
  start lat --appendonly yes --appendfsync always && ready
  redis_port=$next_port
  next_port=$((next_port + 1))
  mkdir -p "$work/redis-lat"
  redis-server --port $redis_port --bind 127.0.0.1 --save '' --appendonly yes --appendfsync always --dir "$work/redis-lat" >/dev/null &
  pids+=("$!")
  until redis-cli -p $redis_port PING >/dev/null 2>&1; do :; done
  echo "### Latency under appendfsync always"
  echo
  echo "Closed loop, 50 connections, not pipelined, three runs in turn; the disk takes $(disk) µs for 4 kB and its sync (p50). µs:"
  echo
  echo "| | requests/s | p50 | p99 |"
  echo "|---|---|---|---|"
  for i in 1 2 3; do
    json=$(load $port -c 50 -d 5s -r 1000000 -- CL.THROTTLE 'resi:{key}' 100 100 360000)
    awk -v r="$(field requests_per_second <<<"$json")" -v a="$(field p50 <<<"$json")" -v b="$(field p99 <<<"$json")" 'BEGIN {printf "| limitdb | %.0f | %.0f | %.0f |\n", r, a / 1000, b / 1000}'
    json=$(load $redis_port -c 50 -d 5s -r 1000000 -- INCR 'resi:{key}')
    awk -v r="$(field requests_per_second <<<"$json")" -v a="$(field p50 <<<"$json")" -v b="$(field p99 <<<"$json")" 'BEGIN {printf "| Redis, INCR | %.0f | %.0f | %.0f |\n", r, a / 1000, b / 1000}'
  done
  echo
  stop
}

# disk prints the median time of appending 4 kB and syncing it, in µs.
disk() { python3 - "$work/disk" <<'PY'
import os, sys, time
f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
took = []
for _ in range(500):
    begin = time.perf_counter()
    os.write(f, b"x" * 4096)
    os.fdatasync(f)
    took.append(time.perf_counter() - begin)
print(round(sorted(took)[250] * 1e6))
PY
}

# fill makes KEYS keys of 17 bytes that live for a day.
fill() { load $port -n "$keys" -r "$keys" -P 256 --distribution sequential -- CL.THROTTLE 'user:{key}' 1 1 86400 >/dev/null; }

# reload NAME FLAGS… starts the server with the saved data and prints how long that takes.
reload() {
  local begin end
  begin=$(date +%s%N)
  start "$@"
  ready
  end=$(date +%s%N)
  awk -v ns=$((end - begin)) -v n="$(redis-cli -p $port DBSIZE)" -v peak="$(rss "$server" VmHWM)" -v now="$(rss "$server" VmRSS)" \
    'BEGIN {printf "%d keys in %.2f s, %.1f M a second; RSS %d MB at its peak, %d MB afterwards (%.2f ×)\n", n, ns / 1e9, n / ns * 1e3, peak / 1048576, now / 1048576, peak / now}'
}

load_part() {
  local flags=(--appendonly yes --appendfsync everysec --auto-aof-rewrite-percentage 0 --save '')
  echo "### Starting with $keys keys"
  echo
  start full "${flags[@]}"
  ready
  fill
  stop
  printf -- '- from a log: '
  reload full "${flags[@]}"
  redis-cli -p $port BGREWRITEAOF >/dev/null
  until redis-cli -p $port INFO persistence | grep -q 'aof_rewrite_in_progress:0'; do sleep 0.1; done
  stop
  printf -- '- from a snapshot: '
  reload full "${flags[@]}"
  stop
  echo
}

snapshot() {
  local steady=(-r 1000000 --rate 20000 -- CL.THROTTLE 'stay:{key}' 1000000 1000000 86400) i json idle before most now saver
  start snap --appendonly yes --appendfsync everysec --auto-aof-rewrite-percentage 0 --save ''
  ready
  fill
  load $port -n 1000000 -r 1000000 -P 64 --distribution sequential -- CL.THROTTLE 'stay:{key}' 1000000 1000000 86400 >/dev/null
  echo "### Saving $keys keys"
  echo
  echo "20 000 requests a second, open loop, 50 connections; µs as a client sees them."
  echo
  echo "| | p50 | p99 | p99.9 | longest | RSS, MB |"
  echo "|---|---|---|---|---|---|"
  row() { # NAME JSON RSS
    awk -v name="$1" -v a="$(field p50 <<<"$2")" -v b="$(field p99 <<<"$2")" -v c="$(field p999 <<<"$2")" -v d="$(field max <<<"$2")" -v m="$3" \
      'BEGIN {printf "| %s | %.0f | %.0f | %.0f | %.0f | %d |\n", name, a / 1e3, b / 1e3, c / 1e3, d / 1e3, m / 1048576}'
  }
  json=$(load $port -w 2s -d 10s "${steady[@]}")
  row idle "$json" "$(rss "$server" VmRSS)"
  for i in 1 2 3; do
    # Saves go on, one after the other, as long as the load does.
    : >"$work/saving"
    (while [[ -e $work/saving ]]; do redis-cli -p $port SAVE >/dev/null; echo >>"$work/saves.$i"; done) &
    saver=$!
    most=0
    (while sleep 0.05; do rss "$server" VmRSS; done >"$work/rss.$i") &
    watcher=$!
    json=$(load $port -d 10s "${steady[@]}")
    rm "$work/saving"
    wait $saver
    kill $watcher && wait $watcher 2>/dev/null || true
    most=$(sort -n "$work/rss.$i" | tail -n 1)
    row "saving, $(wc -l <"$work/saves.$i") times" "$json" "$most"
  done
  echo
  stop
}

# script spends 40 of a burst of 50, at 5 a second, and asks again after a restart.
script() {
  local i left
  echo "### 40 calls, then a restart"
  echo
  start cell --appendonly yes --appendfsync always && ready
  for i in $(seq 40); do redis-cli -p $port CL.THROTTLE user 49 5 1 >/dev/null; done
  left=$(redis-cli -p $port CL.THROTTLE user 49 5 1 0 | sed -n 3p)
  stop
  sleep 6
  start cell --appendonly yes --appendfsync always && ready
  echo "5 a second, 50 at once: $left left after 40 calls; 6 s and a restart later $(redis-cli -p $port CL.THROTTLE user 49 5 1 0 | sed -n 3p) of 50, 30 having come back."
  echo
  stop
}

(($#)) || set -- policies always load snapshot script
for part in "$@"; do
  case $part in
  load) load_part ;;
  policies | always | snapshot | script) "$part" ;;
  *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
  esac
done
