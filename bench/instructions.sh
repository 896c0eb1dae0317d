#!/usr/bin/env bash
# Counts the instructions of Go benchmarks in user space, with callgrind, in this tree and in an earlier revision. Unlike times, the
# counts hardly depend on what else the machine does. Each is the difference of a run with twice as many operations and one with as
# many, so that the set-up does not count.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: bench/instructions.sh [-against REV] [option ...] [package]

Without an earlier revision, it counts what ids and holds cost beside a take. bench/server.sh ids measures the time of a server.

  -bench REGEX   which benchmarks (default: decisions and counters in pipelines,
                 checks, and redis_rate's script)
  -n N           operations (default 16000)
  -h             this text

The package defaults to ./server. It needs Debian's valgrind.
HELP
}

die() {
  echo "instructions.sh: $*" >&2
  exit 1
}

cd "$(dirname "$0")/.."
bench='Pipelines/(CL.THROTTLE100|RL.TAKEGCRA)/|Values/INCR$|Check/|KnownScripts/go-redis' n=16000 against='' package=./server
while (($#)); do
  option=${1/#--/-} # both spellings
  case $option in
    -h | -help)
      usage
      exit 0
      ;;
    -bench | -n | -against)
      (($# >= 2)) || die "$1 needs a value"
      declare "${option#-}=$2"
      shift 2
      ;;
    -*) die "unknown option '$1'; -h lists them" ;;
    *)
      package=$1
      shift
      ;;
  esac
done
[[ $n =~ ^[1-9][0-9]*$ ]] || die "-n needs a number above 0, not '$n'"
command -v valgrind >/dev/null || die "valgrind is missing: apt-get install valgrind"

work=$(mktemp -d)
trap 'git worktree remove --force "$work/before" 2>/dev/null; rm -rf "$work"' EXIT
export CGO_ENABLED=0
go test -c -o "$work/now.test" "$package"
if [[ -n $against ]]; then
  git worktree add --quiet --detach "$work/before" "$against" || die "there is no revision '$against'"
  (cd "$work/before" && go test -c -o "$work/before.test" "$package")
fi

# collected BUILD BENCHMARK OPERATIONS prints the instructions of a run. A Go program in valgrind sometimes crashes, so there are a few tries.
collected() {
  local try out
  for ((try = 0; try < 8; try++)); do
    out=$(cd "$package" && GODEBUG=asyncpreemptoff=1 GOGC=off GOMAXPROCS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
      "$work/$1.test" -test.run '^$' -test.bench "$2" -test.benchtime "${3}x" -test.cpu 1 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
    if [[ -n $out ]]; then
      echo "$out"
      return
    fi
  done
  die "$2 does not run in valgrind"
}

each() { # BUILD BENCHMARK: the instructions of one operation
  local once twice
  once=$(collected "$1" "$2" "$n")
  twice=$(collected "$1" "$2" $((2 * n)))
  echo $(((twice - once) / n))
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", b / a }'; }

if [[ -n $against ]]; then
  printf '| %s, instructions | %s | now | |\n|---|---|---|---|\n' "$package" "$against"
  (cd "$package" && "$work/now.test" -test.run '^$' -test.bench "$bench" -test.benchtime 1x -test.cpu 1) | sed -n 's/^\(Benchmark[^ \t]*\).*/\1/p' | while read -r name; do
    exact="^${name//\//\$\/^}\$"
    before=$(each before "$exact") now=$(each now "$exact")
    printf '| %s | %s | %s | %s × |\n' "${name#Benchmark}" "$before" "$now" "$(ratio "$before" "$now")"
  done
elif [[ $package == ./server ]]; then
  declare -A named=([keys]='one id a key' [first]='the first id of a key' [one]='thousands on one key')
  printf '| instructions | a take | with ONCE | | a hold and its commit | |\n|---|---|---|---|---|---|\n'
  for on in keys first one; do
    for depth in 1 16 64; do
      for op in take once pair; do
        declare "$op=$(each now "^BenchmarkHolds\$/^$on\$/^$op\$/^P=$depth\$")"
      done
      printf '| %s, pipelines of %s | %s | %s | %s × | %s | %s × |\n' "${named[$on]}" \
        $depth "$take" "$once" "$(ratio "$take" "$once")" "$pair" "$(ratio "$take" "$pair")"
    done
  done
fi
