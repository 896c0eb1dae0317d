#!/usr/bin/env bash
# Runs the Go benchmarks of all packages and prints benchstat's summary. With -against REV it also runs the
# same benchmarks of that revision, in alternating rounds, so that a drift of the machine's speed affects
# both.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: bench/micro.sh [option ...] [package ...]

  -count N       rounds (default 6, the least that benchstat calls significant)
  -bench REGEX   which benchmarks (default .)
  -benchtime T   how long each (default 0.5s)
  -against REV   compare with a revision, such as HEAD~1 or a tag
  -out DIR       where the figures are kept (default .cache/bench)
  -h             this text

Packages default to all that have benchmarks.
HELP
}

die() {
  echo "micro.sh: $*" >&2
  exit 1
}

cd "$(dirname "$0")/.."
count=6 bench=. benchtime=0.5s against='' out=.cache/bench packages=()
while (($#)); do
  option=${1/#--/-} # both spellings
  case $option in
    -h | -help)
      usage
      exit 0
      ;;
    -count | -bench | -benchtime | -against | -out)
      (($# >= 2)) || die "$1 needs a value"
      declare "${option#-}=$2"
      shift 2
      ;;
    -*) die "unknown option '$1'; -h lists them" ;;
    *)
      packages+=("$1")
      shift
      ;;
  esac
done
[[ $count =~ ^[1-9][0-9]*$ ]] || die "-count needs a number above 0, not '$count'"

if ((!${#packages[@]})); then
  mapfile -t packages < <(git grep -l --untracked '^func Benchmark' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')
fi
((${#packages[@]})) || die "no package has benchmarks"

mkdir -p "$out"
out=$(cd "$out" && pwd)
: >"$out/new.txt"

# measure DIR FILE appends one round. It leaves out packages that the revision does not have.
measure() {
  local p there=()
  for p in "${packages[@]}"; do
    if [[ -d $1/$p ]]; then there+=("$p"); fi
  done
  ((${#there[@]})) || die "none of ${packages[*]} is in $1"
  (cd "$1" && go test -run '^$' -bench "$bench" -benchtime "$benchtime" -benchmem -count 1 "${there[@]}") |
    tee -a "$2" >&2
}

if [[ -n $against ]]; then
  old=$(mktemp -d)
  trap 'rm -rf "$old"' EXIT
  git rev-parse --verify --quiet "$against^{commit}" >/dev/null || die "no revision '$against'"
  git archive "$against" | tar -x -C "$old"
  : >"$out/old.txt"
fi
for ((round = 1; round <= count; round++)); do
  echo "round $round of $count" >&2
  if [[ -n $against ]]; then measure "$old" "$out/old.txt"; fi
  measure . "$out/new.txt"
done

if [[ -n $against ]]; then
  go tool benchstat "$against=$out/old.txt" "this=$out/new.txt"
else
  go tool benchstat "$out/new.txt"
fi
