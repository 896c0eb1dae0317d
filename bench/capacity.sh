#!/usr/bin/env bash
# Measures what keys of each kind cost: memory, disk and the time of a start. Prints a table in Markdown.
#
#     bench/capacity.sh            a million keys of 17 bytes each; for two kinds also 100 000 keys with 50 requests each
#     KEYS=100000 bench/capacity.sh
#
# Memory is RSS above that of an empty server. The log is that of one granted request, the snapshot what replaces it. A start is
# from the snapshot: the processor time of the server until it answers, of all its threads, which other load disturbs less than wall time.
set -euo pipefail
cd "$(dirname "$0")/.."

keys=${KEYS:-1000000} port=${PORT:-17379}
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$work/limitdb" ./cmd/limitdb

cli() { redis-cli -p "$port" "$@"; }
rss() { awk '/^VmRSS/ { print $2 * 1024 }' /proc/$server/status; }
cpu() { awk '{ print $14 + $15 }' /proc/$server/stat; } # in ticks of 10 ms

start() {
	"$work/limitdb" --port "$port" --http-port 0 --dir "$work/data" --auto-aof-rewrite-percentage 0 >>"$work/log" 2>&1 &
	server=$!
	until [[ $(cli PING 2>/dev/null) == PONG ]]; do
		kill -0 $server
		sleep 0.01
	done
}

stop() {
	kill $server
	wait $server || true
	server=
}

# row NAME KEYS REQUESTS COMMAND… prints the costs of KEYS keys with REQUESTS requests each.
row() {
	local name=$1 n=$2 requests=$3 empty memory log snapshot spent
	shift 3
	rm -rf "$work/data"
	start
	empty=$(rss)
	"$work/limitdb" bench -a "127.0.0.1:$port" -q -c 1 -P 256 -n $((n * requests)) -r "$n" --distribution sequential "$@" >"$work/bench" 2>&1 || cat "$work/bench" >&2
	[[ $(cli DBSIZE) == "$n" ]] || echo "$name: $(cli DBSIZE) keys" >&2
	sleep 2 # the last batch
	memory=$(($(rss) - empty))
	log=$(cat "$work"/data/log-* | wc -c)
	cli BGREWRITEAOF >/dev/null
	until [[ $(cli INFO persistence) == *aof_rewrite_in_progress:0* && $(ls "$work"/data/base-* 2>/dev/null | wc -l) == 1 ]]; do sleep 0.1; done
	snapshot=$(cat "$work"/data/base-* | wc -c)
	stop
	start
	spent=$(cpu)
	stop
	awk -v name="$name" -v n="$n" -v r="$requests" -v m="$memory" -v l="$log" -v s="$snapshot" -v c="$spent" \
		'BEGIN { printf "| %s | %d | %.1f | %.1f | %.1f | %.2f |\n", name, r, m / n, l / n / r, s / n, c / 100 / n * 1e6 }'
}

key=user:{key}
echo "| | requests for each key | memory, bytes a key | log, bytes a request | snapshot, bytes a key | start, CPU seconds for a million keys |"
echo "|---|---|---|---|---|---|"
for limit in "GCRA 1000/d" "TOKEN 1000/d" "LEAKY 1000/d" "QUEUE 1000/d" "WARMUP 1000/d" "FIXED 1000/d" "SLIDING 1000/d" "SEGMENTED 1000/d SEGMENTS 60" "LOG 1000/d"; do
	row "\`$limit\`" "$keys" 1 RL.TAKE $key $limit
done
row "a counter, \`INCR\`" "$keys" 1 INCR $key
row "\`RL.LEASE\`, one holder" "$keys" 1 RL.LEASE $key 10 1d ID worker-1
for limit in "SEGMENTED 1000/d SEGMENTS 60" "LOG 1000/d"; do
	row "\`$limit\`" $((keys / 10)) 50 RL.TAKE $key $limit
done
