#!/usr/bin/env bash
# Makes cmd/limitdb/default.pgo, the profile by which the compiler chooses what to inline. It runs a server under a mix of
# decisions, checks, counters, scripts, ids and holds, at several pipeline depths, and profiles it meanwhile. Run it when the path of a decision has
# changed much, and compare the builds before and after with bench/pair.sh.
#
#     bench/profile.sh [SECONDS]     90 by default
#
# It needs redis-benchmark and redis-cli: Debian's redis-tools.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-90} port=17995
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2; }
work=$(mktemp -d)
stop() { # the server, the loop of loads, and the load that it waits for
  local children
  children=$([[ -z ${loads-} ]] || pgrep -P "$loads") || true
  # shellcheck disable=SC2046,SC2086
  kill $(jobs -p) $children 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap stop EXIT
cat >"$work/rules.yaml" <<'RULES'
version: 1
namespaces:
  three:
    - {name: second, key: [user], limit: 1000000/s}
    - {name: minute, key: [user], limit: 1000000/m}
    - {name: hour, key: [user], limit: 1000000/h}
RULES
go build -trimpath -pgo=off -o "$work/limitdb" ./cmd/limitdb
"$work/limitdb" --port $port --http-port $((port + 1)) --bind 127.0.0.1 --pprof yes --dir "$work/data" --rules-file "$work/rules.yaml" 2>"$work/log" &
until redis-cli -p $port PING 2>/dev/null | grep -q PONG; do sleep 0.1; done

# redis_rate's script runs as Go code.
text=$(sed -n '/^var allowN = /,/^`)/p' "$(go list -m -f '{{.Dir}}' github.com/go-redis/redis_rate/v10)/lua.go" | sed '1d;$d')
sum=$(redis-cli -p $port -x SCRIPT LOAD <<<$'\n'"$text")

load() {
  local depth key=key:__rand_int__
  while :; do
    for depth in 1 16 64; do
      for row in "CL.THROTTLE $key 100 100 360000 1" "RL.TAKE $key GCRA 100/s BURST 100" "INCR count:__rand_int__" \
        "RL.CHECK three 1 user $key" "EVALSHA $sum 1 rate:__rand_int__ 100 100 360000 1" \
        "RL.TAKE once:__rand_int__ GCRA 100/s BURST 100 ONCE __rand_int__ FOR 1s" "RL.HOLD hold:__rand_int__ GCRA 100/s BURST 100 COST 1 TTL 1s ID __rand_int__"; do
        # shellcheck disable=SC2086
        redis-benchmark -p $port -q -c 50 -P $depth -r 100000 -n $((depth == 1 ? 40000 : 200000)) $row >/dev/null 2>&1 || true
      done
    done
  done
}
load &
loads=$!
curl -sf -o "$work/cpu.pprof" "http://127.0.0.1:$((port + 1))/debug/pprof/profile?seconds=$seconds"
go tool pprof -proto "$work/cpu.pprof" >cmd/limitdb/default.pgo 2>/dev/null
ls -l cmd/limitdb/default.pgo
