#!/usr/bin/env bash
# Measures what needs a whole server: latency at half of the peak load compared with Redis and a GCRA script,
# memory for each key, and latency while the table grows to 10 M keys and while 5 M keys expire. Prints
# Markdown.
#
#     bench/server.sh [latency] [light] [memory] [growth] [expiry]    default: all
#     bench/server.sh churn                                   30 minutes
#     bench/server.sh holds                                   memory and start of 10 M live holds, or HOLDS
#     bench/server.sh ids                                     time of the processor for ids and holds beside takes, medians of 5 new servers, or
#                                                             IDS_RUNS; for 300000 ids, or IDS
#
# LATENCY_RATE=25000 sends that many requests a second to both servers, instead of half of the measured peak.
#
# The first two need redis-server and redis-cli. growth also writes bench/growth.svg.
set -euo pipefail
cd "$(dirname "$0")/.."

source bench/work.sh "${TMPDIR:-/tmp}"
go build -o "$work/limitdb" ./cmd/limitdb
port=${PORT:-17901} redis_port=17902

start_limitdb() {
  "$work/limitdb" --port $port --http-port 0 --bind 127.0.0.1 --dir "$work" --appendonly no 2>"$work/log" &
  server=$!
  pids+=("$server")
  until redis-cli -p $port PING >/dev/null 2>&1; do :; done
}
stop_limitdb() { kill "$server" && wait "$server" || true; }

# load PORT FLAGS… puts load on a server and prints the result as JSON.
load() {
  local to=$1
  shift
  "$work/limitdb" bench -a "127.0.0.1:$to" -q --json "$@"
}
# field NAME reads one number of a result.
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" | head -n 1; }
rss() { awk '/VmRSS/ {print $2 * 1024}' "/proc/$1/status"; }
us() { awk -v ns="$1" 'BEGIN {printf "%.0f", ns / 1000}'; }

throttle='CL.THROTTLE resi:{key} 100 100 360000'

latency() {
  start_limitdb
  redis-server --port $redis_port --bind 127.0.0.1 --save '' --appendonly no --daemonize no >/dev/null &
  pids+=("$!")
  until redis-cli -p $redis_port PING >/dev/null 2>&1; do :; done
  local sha peak half json i
  sha=$(redis-cli -p $redis_port SCRIPT LOAD "$(<bench/gcra.lua)")
  local lua="EVALSHA $sha 1 resi:{key} 100 100 360000"
  load $port -n 1000000 -P 64 --distribution sequential -- $throttle >/dev/null
  load $redis_port -n 1000000 -P 64 --distribution sequential -- $lua >/dev/null
  half=${LATENCY_RATE:-}
  if [[ -z $half ]]; then
    peak=$(load $redis_port -d 5s -- $lua | field requests_per_second)
    half=$(awk -v p="$peak" 'BEGIN {printf "%d", p / 2}')
  fi
  echo "### Latency at $half requests a second"
  echo
  echo "Open loop, 50 connections, not pipelined, 1 M resident keys; unless LATENCY_RATE is set, the rate is half of what Redis reaches with the script."
  echo "µs from when each request was due, three runs in turn."
  echo
  echo "| | p50 | p99 | p99.9 |"
  echo "|---|---|---|---|"
  for i in 1 2 3; do
    json=$(load $port -w 2s -d 10s --rate "$half" -- $throttle)
    echo "| limitdb | $(us "$(field p50 <<<"$json")") | $(us "$(field p99 <<<"$json")") | $(us "$(field p999 <<<"$json")") |"
    json=$(load $redis_port -w 2s -d 10s --rate "$half" -- $lua)
    echo "| Redis, GCRA in Lua | $(us "$(field p50 <<<"$json")") | $(us "$(field p99 <<<"$json")") | $(us "$(field p999 <<<"$json")") |"
  done
  echo
  stop_limitdb
}

# light compares latency at a load that leaves both servers idle most of the time: what comes between two
# requests, such as timers, sweeps and garbage collection, would show there.
light() {
  start_limitdb
  redis-server --port $redis_port --bind 127.0.0.1 --save '' --appendonly no --daemonize no >/dev/null &
  pids+=("$!")
  until redis-cli -p $redis_port PING >/dev/null 2>&1; do :; done
  local stay='CL.THROTTLE resi:{key} 100 100 36000000' soon='CL.THROTTLE soon:{key} 0 10 1' incr='INCR resi:{key}' i
  load $port -n 1000000 -P 64 --distribution sequential -- $stay >/dev/null
  load $redis_port -n 1000000 -P 64 --distribution sequential -- $incr >/dev/null
  echo "### Latency at 8 000 requests a second"
  echo
  echo "Open loop, 50 connections, not pipelined, 1 M keys; µs from when each request was due, runs of 4 s in turn."
  echo
  echo "| | p50 | p99 | p99.9 |"
  echo "|---|---|---|---|"
  for i in $(seq "${LIGHT_ROUNDS:-6}"); do
    light_row "limitdb, keys that stay" $port "$stay"
    light_row "limitdb, keys that expire after 0.1 s" $port "$soon"
    light_row "Redis, INCR" $redis_port "$incr"
  done
  echo
  stop_limitdb
}
light_row() {
  local json
  json=$(load "$2" -w 500ms -d 4s --rate 8000 -- $3)
  echo "| $1 | $(us "$(field p50 <<<"$json")") | $(us "$(field p99 <<<"$json")") | $(us "$(field p999 <<<"$json")") |"
}

memory() {
  start_limitdb
  local empty full
  empty=$(rss "$server")
  load $port -n 5000000 -r 5000000 -P 256 --distribution sequential -- CL.THROTTLE 'user:{key}' 1 1 86400 >/dev/null
  full=$(rss "$server")
  echo "### Memory"
  echo
  echo "5 M keys of 17 bytes, GCRA: $(awk -v a="$full" -v b="$empty" -v n="$(redis-cli -p $port DBSIZE)" 'BEGIN {printf "%.1f", (a - b) / n}') bytes of RSS each above an empty server ($((empty >> 20)) MB), $(redis-cli -p $port INFO limiter | tr -d '\r' | sed -n 's/^table_bytes://p') bytes counted for $(redis-cli -p $port DBSIZE) keys."
  echo
  stop_limitdb
}

# holds_row NAME KEYS EACH: memory for each of KEYS×EACH live holds and its key, and the time of a start with them.
holds_row() {
  rm -rf "$work"/data && mkdir "$work"/data
  local begin hold
  start_holds
  local empty full counted start taken
  empty=$(rss "$server")
  for ((hold = 0; hold < $3; hold++)); do
    load $port -n "$2" -r "$2" -c 1 -P 256 --distribution sequential -- RL.HOLD 'user:{key}' FIXED 1000000/30d COST 5 TTL 1h ID "req-$hold" >/dev/null
  done
  full=$(rss "$server")
  counted=$(redis-cli -p $port INFO limiter | tr -d '\r' | sed -n 's/^table_bytes://p')
  taken=$(redis-cli -p $port INFO stats | tr -d '\r' | sed -n 's/^holds_taken://p')
  if ((taken != $2 * $3)); then
    echo "$taken holds were taken" >&2
    exit 1
  fi
  stop_limitdb
  begin=$(date +%s%N)
  start_holds
  start=$((($(date +%s%N) - begin) / 1000000))
  stop_limitdb
  awk -v name="$1" -v keys="$2" -v each="$3" -v rss="$((full - empty))" -v counted="$counted" -v start="$start" \
    'BEGIN {n = keys * each; printf "| %s | %.1f | %.1f | %d ms |\n", name, rss / n, counted / n, start}'
}
start_holds() {
  "$work/limitdb" --port $port --http-port 0 --bind 127.0.0.1 --dir "$work/data" --appendonly yes --appendfsync no 2>"$work/log" &
  server=$!
  pids+=("$server")
  until [[ $(redis-cli -p $port PING 2>/dev/null) == PONG ]]; do sleep 0.02; done
}

holds() {
  echo "### Live holds"
  echo
  echo "| | RSS for a hold and its part of the key | counted | start |"
  echo "|---|---|---|---|"
  holds_row "$((${HOLDS:-10000000} / 10)) keys with 10 holds" $((${HOLDS:-10000000} / 10)) 10
  holds_row "${HOLDS:-10000000} keys with 1 hold" "${HOLDS:-10000000}" 1
  echo
}

# spent DEPTH N COMMAND… prints the ns of the processor, in user space and in the system, that the server takes for each of N commands,
# of which each has another {key}.
spent() {
  local depth=$1 n=$2 before after
  shift 2
  before=$(cpu)
  load $port -n "$n" -r "$n" -c 1 -P "$depth" --distribution sequential -- "$@" >/dev/null
  after=$(cpu)
  echo $(((after - before) / n))
}
cpu() { cat "/proc/$server"/task/*/schedstat | awk '{n += $1} END {printf "%.0f", n}'; }

# ids_row NAME KEY N [before]: what ids and holds take beside takes, for N ids, but at most 60000 one at a time. With before, each key has had
# another id, which is forgotten. One server may be twice as fast as the next, so the figures are medians, and the lowest and highest ratios stand behind.
ids_row() {
  local depth run n
  for depth in 1 16 64; do
    n=$((depth == 1 && $3 > 60000 ? 60000 : $3))
    for ((run = 0; run < ${IDS_RUNS:-5}; run++)); do
      ids_run $depth "$2" "$n" "${4-}"
    done >"$work/ids"
    awk -v name="$1" -v depth=$depth '
      function median(v, n,    i, j, x) { # which it sorts
        for (i = 2; i <= n; i++) {
          x = v[i]
          for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]
          v[j + 1] = x
        }
        return (v[int((n + 1) / 2)] + v[int((n + 2) / 2)]) / 2
      }
      {take[NR] = $1; once[NR] = $2; hold[NR] = $3; commit[NR] = $4; a[NR] = $2 / $1; b[NR] = ($3 + $4) / $1}
      END {
        once_takes = median(a, NR)
        hold_takes = median(b, NR)
        printf "| %s, pipelines of %d | %d | %d, %.2f × (%.2f to %.2f)", name, depth, median(take, NR), median(once, NR), once_takes, a[1], a[NR]
        printf " | %d + %d, %.2f × (%.2f to %.2f) |\n", median(hold, NR), median(commit, NR), hold_takes, b[1], b[NR]
      }' "$work/ids"
  done
}

# ids_run DEPTH KEY N [before] prints the ns of a take, of one with ONCE, of a hold and of its commit. Each of the two pairs has a new server.
ids_run() {
  local take once hold commit limit='FIXED 1000000000/30d COST 5'
  ids_start "$@"
  take=$(spent "$1" "$3" RL.TAKE "$2" $limit)
  once=$(spent "$1" "$3" RL.TAKE "$2" $limit ONCE 'request-{key}')
  stop_limitdb
  ids_start "$@"
  hold=$(spent "$1" "$3" RL.HOLD "$2" $limit TTL 1h ID 'request-{key}')
  commit=$(spent "$1" "$3" RL.COMMIT "$2" ID 'request-{key}' COST 3)
  stop_limitdb
  echo "$take $once $hold $commit"
}

# ids_start DEPTH KEY N [before] starts a server that has the keys.
ids_start() {
  local limit='FIXED 1000000000/30d COST 5' gone=2 # seconds, after which an earlier id is forgotten
  start_limitdb
  spent "$1" "$3" RL.TAKE "$2" $limit >/dev/null
  [[ -z ${4-} ]] || { spent 64 "$3" RL.HOLD "$2" $limit TTL 500ms ID 'earlier-{key}' >/dev/null && sleep $gone; }
}

ids() {
  echo "### Ids and holds"
  echo
  echo "ns of the processor in the server for each command, medians of ${IDS_RUNS:-5} new servers"
  echo
  echo "| | a take | with ONCE | a hold and its commit |"
  echo "|---|---|---|---|"
  ids_row "the first id of each key" 'user:{key}' "${IDS:-300000}"
  ids_row "an id of a key that has had one before" 'user:{key}' "${IDS:-300000}" before
  ids_row "new ids on one key" 'user' 50000
  echo
}

growth() {
  start_limitdb
  local i json
  for i in $(seq 20); do
    json=$(load $port -n 500000 -r 500000 -P 16 --rate 150000 --distribution sequential -- CL.THROTTLE "g$i:{key}" 1 1 86400)
    echo "$((i * 500)) $(field p50 <<<"$json") $(field p999 <<<"$json") $(field max <<<"$json")"
  done >"$work/growth"
  echo "### Growth from 0 to 10 M keys"
  echo
  echo "New keys only, open loop at 150 000 a second, pipelines of 16, 500 000 keys a point ([plot](growth.svg)):"
  awk '{p50 = $2 > p50 ? $2 : p50; p999 = $3 > p999 ? $3 : p999; max = $4 > max ? $4 : max}
    END {printf "over all points, p50 ≤ %.0f µs, p99.9 ≤ %.0f µs, longest %.0f µs, as a client sees them.\n\n", p50 / 1e3, p999 / 1e3, max / 1e3}' "$work/growth"
  awk '{x[NR] = $1 / 1000; y[NR] = $3 / 1000; if (y[NR] > top) top = y[NR]}
    END {
      top = int(top / 1000 + 1) * 1000
      print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 300\" font-family=\"sans-serif\" font-size=\"12\">"
      print "<rect width=\"640\" height=\"300\" fill=\"white\"/>"
      for (i = 0; i <= 4; i++) {
        gy = 250 - i * 50
        printf "<line x1=\"60\" y1=\"%d\" x2=\"620\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"52\" y=\"%d\" text-anchor=\"end\">%.1f</text>\n", gy, gy, gy + 4, top / 1000 * i / 4
      }
      for (i = 0; i <= 10; i += 2) printf "<text x=\"%d\" y=\"270\" text-anchor=\"middle\">%d</text>\n", 60 + i * 56, i
      printf "<polyline fill=\"none\" stroke=\"#06c\" stroke-width=\"2\" points=\""
      for (i = 1; i <= NR; i++) printf "%.1f,%.1f ", 60 + x[i] * 56, 250 - y[i] / top * 200
      print "\"/>"
      print "<text x=\"340\" y=\"290\" text-anchor=\"middle\">keys in the table, millions</text>"
      print "<text x=\"60\" y=\"30\">p99.9 of new keys as a client sees it, ms; open loop, 150 000 a second</text>"
      print "</svg>"
    }' "$work/growth" >bench/growth.svg
  stop_limitdb
}

expiry() {
  start_limitdb
  local empty full idle during left json
  empty=$(rss "$server")
  load $port -n 100000 -r 100000 -P 64 --distribution sequential -- CL.THROTTLE 'stay:{key}' 1000000 1000000 86400 >/dev/null
  local steady=(-r 100000 --rate 20000 -- CL.THROTTLE 'stay:{key}' 1000000 1000000 86400)
  # Every key expires 25 s after it was made; making all of them takes some seconds.
  load $port -n 5000000 -r 5000000 -P 256 --distribution sequential -- CL.THROTTLE 'gone:{key}' 0 1 25 >/dev/null
  full=$(rss "$server")
  idle=$(load $port -d 8s "${steady[@]}" | field p999)
  json=$(load $port -d 30s "${steady[@]}")
  during=$(field p999 <<<"$json")
  left=$(rss "$server")
  echo "### 5 M keys expire together"
  echo
  echo "20 000 requests a second on other keys, open loop: p99.9 $(us "$idle") µs before, $(us "$during") µs over the 30 s in which 5 M keys expire."
  echo "RSS $((empty >> 20)) MB empty, $((full >> 20)) MB full, $((left >> 20)) MB at the end of those 30 s; $(redis-cli -p $port DBSIZE) keys left."
  echo
  stop_limitdb
}

# churn keeps making keys that live for 5 s and watches RSS.
churn() {
  start_limitdb
  local i low=0 high=0 now
  echo "### RSS over $minutes minutes of churn"
  echo
  echo "20 000 new keys a second that live for 5 s; RSS in kB at the end of each minute:"
  echo
  for i in $(seq "$minutes"); do
    load $port -d 60s -P 8 -r 100000000 --rate 20000 --seed "$i" -- CL.THROTTLE 'churn:{key}' 0 1 5 >/dev/null
    now=$(($(rss "$server") / 1024))
    printf '%s ' "$now"
    if ((i == 2)); then low=$now high=$now; fi
    if ((i > 2)); then low=$((now < low ? now : low)) high=$((now > high ? now : high)); fi
  done
  printf '\n\nFrom the second minute on between %s and %s kB; %s keys now.\n\n' "$low" "$high" "$(redis-cli -p $port DBSIZE)"
  stop_limitdb
}
minutes=${CHURN_MINUTES:-30}

(($#)) || set -- latency light memory growth expiry
for part in "$@"; do
  case $part in
  latency | light | memory | holds | ids | growth | expiry | churn) "$part" ;;
  *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
  esac
done
