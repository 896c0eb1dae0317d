#!/usr/bin/env bash
# Compares two builds of limitdb: CPU time of the server for each operation. Both servers run side by side, and
# short bursts of load go to one and to the other in turn, so whatever else the machine does affects both. Both are started anew a few
# times, since where the kernel puts their memory is worth a few percent. A figure is the median of
# the ratios of many such pairs, with the quartiles, which say how sure it is.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: bench/pair.sh -before FILE [option ...]

  -before FILE   the limitdb binary to compare with
  -pairs N       pairs of bursts for each figure and start (default 7)
  -starts N      how often both servers start anew (default 3)
  -n N           requests in a burst (default 200000; an eighth of it at P=1)
  -depths LIST   pipeline depths (default 1,16,64,256)
  -rows LIST     of take, fixed, incr, check, rate (default all): CL.THROTTLE,
                 RL.TAKE FIXED, INCR, RL.CHECK of 3 rules, redis_rate's script
  -rights WORDS  what the default user of this build's server gets by ACL SETUSER:
                 "resetkeys ~user:*" measures a pattern, with LIMITDB as FILE, too
  -clients C     connections (default 50)
  -keys K        resident keys, drawn uniformly (default 1000000)
  -h             this text

The other binary is a build of this checkout, or LIMITDB. It needs redis-cli, and jq.
HELP
}

die() {
  echo "pair.sh: $*" >&2
  exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
before='' pairs=7 starts=3 n=200000 depths=1,16,64,256 rows=take,fixed,incr,check,rate rights='' clients=50 keys=1000000
command_line="bench/pair.sh $*"
while (($#)); do
  option=${1/#--/-} # both spellings
  case $option in
    -h | -help)
      usage
      exit 0
      ;;
    -before | -pairs | -starts | -n | -depths | -rows | -rights | -clients | -keys)
      (($# >= 2)) || die "$1 needs a value"
      declare "${option#-}=$2"
      shift 2
      ;;
    *) die "unknown option '$1'; -h lists them" ;;
  esac
done
[[ -n $before ]] || die "-before FILE is needed"
for tool in redis-cli jq; do command -v "$tool" >/dev/null || die "$tool is missing"; done

work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
now=${LIMITDB:-$work/limitdb}
[[ -n ${LIMITDB:-} ]] || (cd "$here/.." && CGO_ENABLED=0 go build -o "$now" ./cmd/limitdb)

cat >"$work/rules.yaml" <<'RULES'
version: 1
namespaces:
  three:
    - {name: a, key: [user], limit: fixed 1000000/h}
    - {name: b, key: [user], limit: fixed 1000000/h}
    - {name: c, key: [user], limit: fixed 1000000/h}
RULES

# serve BINARY sets addr to the socket of a new server.
serve() {
  addr=$work/${#pids[@]}.sock
  rm -rf "$addr" "$addr.d"
  mkdir "$addr.d"
  (cd "$addr.d" && exec "$1" --port 0 --http-port 0 --unixsocket "$addr" --save '' --appendonly no --rules-file "$work/rules.yaml") >"$addr.log" 2>&1 &
  pids+=($!)
  for _ in {1..100}; do
    [[ $(redis-cli -s "$addr" PING 2>/dev/null) != PONG ]] || return 0
    sleep 0.1
  done
  tail -n 5 "$addr.log" >&2
  die "$1 does not answer"
}

# A key that was loaded stays for hours, and is not limited in this run: no operation makes a key or is denied.
key={key}
text=$(cd "$here/.." && sed -n '/^var allowN = /,/^`)/p' "$(go list -m -f '{{.Dir}}' github.com/go-redis/redis_rate/v10)/lua.go" | sed '1d;$d')
text=$'\n'$text$'\n'
declare -A command=(
  [take]="CL.THROTTLE user:$key 100 100 360000" [fixed]="RL.TAKE user:$key FIXED 1000000/h" [incr]="INCR user:$key"
  [check]="RL.CHECK three 1 user user:$key" [rate]="EVALSHA $(printf %s "$text" | sha1sum | cut -d' ' -f1) 1 rate:user:$key 100 100 360000 1"
)

# burst ADDR DEPTH N ROW [OPTION ...] prints the CPU time of the server, in ns for each operation.
burst() {
  # shellcheck disable=SC2086
  "$now" bench -q --json -a "$1" -P "$2" -n "$3" -c "$clients" -r "$keys" "${@:5}" -- ${command[$4]} | jq .server_cpu_ns_per_request
}

cat <<HEAD
$(date -u '+%Y-%m-%d %H:%M') UTC, $(nproc) cores, $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n1), Linux $(uname -r), $(go version | cut -d' ' -f3)

    $command_line

CPU time for each operation, now / before: the median of $pairs pairs after each of $starts starts, the quartiles in parentheses, and what it is now, in ns.

HEAD
# measure ROW DEPTH appends the pairs of one figure to its file.
measure() {
  local each=$n i x y
  (($2 > 1)) || each=$(((n + 7) / 8))
  for ((i = 0; i < pairs; i++)); do
    if ((i % 2)); then
      x=$(burst "$a" "$2" "$each" "$1" --seed "$i") y=$(burst "$b" "$2" "$each" "$1" --seed "$i")
    else
      y=$(burst "$b" "$2" "$each" "$1" --seed "$i") x=$(burst "$a" "$2" "$each" "$1" --seed "$i")
    fi
    echo "$x $y" >>"$work/$1.$2"
  done
}

# may gives the default user of this build's server other rights, if rights are to be measured.
may() {
  # shellcheck disable=SC2086
  [[ -z $rights ]] || redis-cli -s "$a" ACL SETUSER default $1 | grep -q OK || die "ACL SETUSER default $1"
}

for ((start = 0; start < starts; start++)); do
  serve "$now" && a=$addr
  serve "$before" && b=$addr
  for s in "$a" "$b"; do redis-cli -s "$s" SCRIPT LOAD "$text" >/dev/null; done
  for row in ${rows//,/ }; do
    may allkeys
    for s in "$a" "$b"; do
      redis-cli -s "$s" FLUSHALL >/dev/null
    done
    may "$rights"
    for s in "$a" "$b"; do
      burst "$s" 64 "$keys" "$row" --distribution sequential >/dev/null
    done
    for depth in ${depths//,/ }; do measure "$row" "$depth"; done
  done
  kill "${pids[@]}"
  wait "${pids[@]}" || true
  pids=()
done

printf '| P='
printf '| %s ' ${depths//,/ }
printf '|\n|---'
printf '|---%.0s' ${depths//,/ }
printf '|\n'
for row in ${rows//,/ }; do
  printf '| %s |' "${command[$row]:0:40}"
  for depth in ${depths//,/ }; do
    jq -rnR '[inputs | split(" ") | map(tonumber) | {now: .[0], ratio: (.[0] / .[1])}] | def at(q): sort | .[((length - 1) * q | round)];
      (map(.ratio) | "\(at(0.5) * 1000 | round / 1000) (\(at(0.25) * 100 | round / 100) to \(at(0.75) * 100 | round / 100))") + " \(map(.now) | at(0.5))"' "$work/$row.$depth" |
      sed 's/^/ /; s/$/ |/' | tr -d '\n'
  done
  printf '\n'
done
