#!/usr/bin/env bash
# Measures limitdb and its peers with redis-benchmark, one after the other in several rounds, and prints a
# Markdown table of throughput and of the server's CPU time for each operation.
#
# CPU time is the fair figure: load generator and server share the machine, and a faster machine affects all
# rows alike. Each round runs every row once, in the opposite order of the round before, so that a drift of
# the machine's speed affects all rows. A ratio is the median of the rounds' ratios.
set -euo pipefail

usage() {
  cat <<'HELP'
usage: bench/compare.sh [option ...]

  -n N           requests for each measurement (default 2000000; an eighth
                 of it at P=1)
  -rounds R      rounds; the median is printed (default 3)
  -depths LIST   pipeline depths (default 1,16,64,256)
  -clients C     connections (default 50)
  -keys K        resident keys, drawn uniformly (default 1000000)
  -peers LIST    of limitdb,redis,redis-cell,valkey,valkey-cell,throttlecrab,
                 dragonfly (default: those that are there)
  -scripts       add rows of scripts in limitdb: INCR, EXPIRE, the GCRA script,
                 which runs in Lua, and those of go-redis/redis_rate,
                 rate-limiter-flexible and rate-limit-redis, which run as Go
                 code; and of the same in Redis
  -tls           add rows over TLS: limitdb, and Redis' INCR
  -samples FILE  write every single measurement, tab-separated
  -quick         a look, not a result: 1 round, 200000 requests, P=1,64,
                 100000 keys (later options override)
  -h             this text

Binaries, by environment: REDIS_SERVER, VALKEY_SERVER, THROTTLECRAB, DRAGONFLY,
REDIS_CELL (libredis_cell.so, for Redis and Valkey), REDIS_BENCHMARK, REDIS_CLI;
LIMITDB, instead of a build of this checkout. Debian's redis-server and
redis-tools are enough for limitdb against INCR, PING and a GCRA script.
HELP
}

die() {
  echo "compare.sh: $*" >&2
  exit 1
}

note() { echo "$*" >&2; }

here=$(cd "$(dirname "$0")" && pwd)
requests=2000000 rounds=3 depths=1,16,64,256 clients=50 keys=1000000
peers='' samples='' tls='' scripts='' command_line="bench/compare.sh $*"

number() {
  [[ $2 =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number above 0, not '$2'"
  echo "$2"
}

while (($#)); do
  option=${1/#--/-} # both spellings
  case $option in
    -quick)
      requests=200000 rounds=1 depths=1,64 keys=100000
      shift
      continue
      ;;
    -tls)
      tls=yes
      shift
      continue
      ;;
    -scripts)
      scripts=yes
      shift
      continue
      ;;
    -h | -help)
      usage
      exit 0
      ;;
    -n | -rounds | -depths | -clients | -keys | -peers | -samples) ;;
    *) die "unknown option '$1'; -h lists them" ;;
  esac
  (($# >= 2)) || die "$1 needs a value"
  case $option in
    -n) requests=$(number "$1" "$2") ;;
    -rounds) rounds=$(number "$1" "$2") ;;
    -depths) depths=$2 ;;
    -clients) clients=$(number "$1" "$2") ;;
    -keys) keys=$(number "$1" "$2") ;;
    -peers) peers=$2 ;;
    -samples) samples=$2 ;;
  esac
  shift 2
done
IFS=, read -ra depth_list <<<"$depths"
for d in "${depth_list[@]}"; do number -depths "$d" >/dev/null; done

benchmark=${REDIS_BENCHMARK:-redis-benchmark}
cli=${REDIS_CLI:-redis-cli}
redis=${REDIS_SERVER:-redis-server}
for tool in "$benchmark" "$cli"; do
  command -v "$tool" >/dev/null || die "$tool is missing: apt-get install redis-tools"
done

# ---- the servers

work=$(mktemp -d)
pids=()
cleanup() {
  trap - EXIT INT TERM
  if ((${#pids[@]})); then
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

next_port=17300
# free_port sets port to one that nobody listens on.
free_port() {
  while (: <"/dev/tcp/127.0.0.1/$next_port") 2>/dev/null; do
    next_port=$((next_port + 1))
  done
  port=$next_port
  next_port=$((next_port + 1))
}

# For each row: its name, the server's process, the port, the options with which a client reaches that port, the row to
# compare with, and the command to measure. Each row has its own process, so that no row has the keys of another.
names=() row_pid=() row_port=() row_secure=() row_rss=() row_bytes=() base=() measured=() preloads=()

# The certificate of the rows over TLS. Clients do not check it: checking happens once a connection, not once a request.
secure=() tls_files=()
if [[ -n $tls ]]; then
  command -v openssl >/dev/null || die "-tls needs openssl"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
  tls_files=(--tls-cert-file "$work/cert.pem" --tls-key-file "$work/key.pem" --tls-ca-cert-file "$work/cert.pem"
    --tls-auth-clients no)
fi

# serve NAME COMMAND... starts a server that listens on $port, and sets pid.
serve() {
  local name=$1
  shift
  mkdir -p "$work/$port"
  (cd "$work/$port" && exec "$@") >"$work/$port/log" 2>&1 &
  pid=$!
  pids+=("$pid")
  local try
  for ((try = 0; try < 100; try++)); do
    kill -0 "$pid" 2>/dev/null || break
    # An error counts as an answer, too: not every peer knows PING.
    if "$cli" -p "$port" "${secure[@]}" PING >/dev/null 2>&1; then
      return
    fi
    sleep 0.1
  done
  tail -n 5 "$work/$port/log" >&2
  die "$name does not answer on port $port"
}

# rss PID prints the resident memory of a process in kB.
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }

# row NAME KIND BASE PRELOAD COMMAND starts the server of a row. BASE is the name of the limitdb row to
# compare with; PRELOAD is the command that makes a key resident, or - for none.
row() {
  free_port
  local quiet=(--port "$port" --bind 127.0.0.1 --save '' --appendonly no)
  secure=()
  if [[ $2 == *-tls ]]; then
    quiet=(--port 0 --tls-port "$port" "${tls_files[@]}" "${quiet[@]:2}")
    secure=(--tls --insecure)
  fi
  case ${2%-tls} in
    limitdb) serve "$1" "$limitdb" "${quiet[@]}" --http-port 0 ;;
    redis) serve "$1" "$redis" "${quiet[@]}" ;;
    redis-cell) serve "$1" "$redis" "${quiet[@]}" --loadmodule "$REDIS_CELL" ;;
    valkey) serve "$1" "$VALKEY_SERVER" "${quiet[@]}" ;;
    valkey-cell) serve "$1" "$VALKEY_SERVER" "${quiet[@]}" --loadmodule "$REDIS_CELL" ;;
    throttlecrab) serve "$1" "$THROTTLECRAB" --redis --redis-host 127.0.0.1 --redis-port "$port" ;;
    dragonfly) serve "$1" "$DRAGONFLY" --bind 127.0.0.1 --port "$port" --dbfilename '' ;;
  esac
  row_secure+=("${secure[*]}")
  row_rss+=("$(rss "$pid")") row_bytes+=('')
  names+=("$1") row_pid+=("$pid") row_port+=("$port") base+=("$3") preloads+=("$4") measured+=("$5")
}

there() { # PEER: whether it was asked for, or is there and nothing was
  if [[ -n $peers ]]; then
    [[ ,$peers, == *,$1,* ]]
    return
  fi
  case $1 in
    limitdb) ;;
    redis) command -v "$redis" >/dev/null ;;
    redis-cell) [[ -n ${REDIS_CELL:-} ]] && command -v "$redis" >/dev/null ;;
    valkey) [[ -n ${VALKEY_SERVER:-} ]] ;;
    valkey-cell) [[ -n ${VALKEY_SERVER:-} && -n ${REDIS_CELL:-} ]] ;;
    throttlecrab) [[ -n ${THROTTLECRAB:-} ]] ;;
    dragonfly) [[ -n ${DRAGONFLY:-} ]] ;;
  esac
}

known=,limitdb,redis,redis-cell,valkey,valkey-cell,throttlecrab,dragonfly,
for p in ${peers//,/ }; do
  [[ $known == *,$p,* ]] || die "unknown peer '$p'; -h lists them"
done

needs() { # PEER VARIABLE
  [[ -n ${!2:-} ]] || die "$1: its path is needed, in $2"
}
for p in ${peers//,/ }; do
  case $p in
    redis-cell) needs "$p" REDIS_CELL ;;
    valkey) needs "$p" VALKEY_SERVER ;;
    valkey-cell) needs "$p" VALKEY_SERVER && needs "$p" REDIS_CELL ;;
    throttlecrab) needs "$p" THROTTLECRAB ;;
    dragonfly) needs "$p" DRAGONFLY ;;
  esac
done

# A key that was loaded stays for hours, longer than any run, and is not limited before 71 more requests. So a measured
# operation neither inserts a key nor is denied.
key=resi:__rand_int__
throttle="$key 100 100 360000"
taken='100 100 360000 30'
script=$(<"$here/gcra.lua")
sha=$(printf %s "$script" | sha1sum | cut -d' ' -f1)

# script_row NAME KIND BASE TEXT LOAD ARGS adds the row of a published script; LOAD are the arguments that make a key
# resident, ARGS those that are measured.
script_row() {
  local sum
  sum=$(printf %s "$4" | sha1sum | cut -d' ' -f1)
  row "$1" "$2" "$3" "EVALSHA $sum 1 KEY $5" "EVALSHA $sum 1 $key $6"
  [[ $("$cli" -p "$port" SCRIPT LOAD "$4") == "$sum" ]] || die "$1: the script is not loaded"
}

# redis_rate NAME KIND adds the row of redis_rate's script, whose text is in its module.
redis_rate() {
  local text
  text=$(cd "$here/.." && sed -n '/^var allowN = /,/^`)/p' "$(go list -m -f '{{.Dir}}' github.com/go-redis/redis_rate/v10)/lua.go" | sed '1d;$d')
  script_row "$1, redis_rate's script" "$2" rate $'\n'"$text"$'\n' '100 100 360000 30' '100 100 360000 1' # burst, rate, period, cost
}

# published NAME KIND adds the rows of scripts of published limiters, whose texts are in their packages.
published() {
  local text node=$here/../e2e/clients/node/node_modules
  redis_rate "$1" "$2"
  [[ -d $node/rate-limiter-flexible ]] || die "scripts/install-test-tools installs $node"
  text=$(cd "$node" && node -p "fs.readFileSync('rate-limiter-flexible/lib/RateLimiterRedis.js', 'utf8').match(/incrTtlLuaScript = (\`[^\`]*\`)/)[1]" | node -p 'eval(fs.readFileSync(0, "utf8")) + "."')
  script_row "$1, rate-limiter-flexible's script" "$2" flexible "${text%.}" '1 360000' '1 360000' # points, seconds
  text=$(cd "$node" && node -p "fs.readFileSync('rate-limit-redis/dist/index.cjs', 'utf8').match(/increment: \`([^\`]*)\`/)[1].replace(/^\\s+/gm, '').trim()")
  script_row "$1, rate-limit-redis' script" "$2" hits "$text" 360000000 360000000 # ms
}

# lua_and_counters NAME KIND adds the rows of a server that runs scripts.
lua_and_counters() {
  row "$1, GCRA in Lua" "$2" decide "EVALSHA $sha 1 KEY $taken" "EVALSHA $sha 1 $throttle"
  [[ $("$cli" -p "$port" SCRIPT LOAD "$script") == "$sha" ]] ||
    die "$1 does not load gcra.lua under the name $sha"
  row "$1, INCR" "$2" decide 'INCR KEY' "INCR $key"
  row "$1, PING" "$2" ping - PING
}

if there limitdb; then
  limitdb=${LIMITDB:-$work/limitdb}
  if [[ -z ${LIMITDB:-} ]]; then
    note "building limitdb"
    (cd "$here/.." && CGO_ENABLED=0 go build -o "$limitdb" ./cmd/limitdb)
  fi
  row 'limitdb, CL.THROTTLE' limitdb decide "CL.THROTTLE KEY $taken" "CL.THROTTLE $throttle"
  row 'limitdb, PING' limitdb ping - PING
  if [[ -n $tls ]]; then
    row 'limitdb, CL.THROTTLE, TLS' limitdb-tls decide-tls "CL.THROTTLE KEY $taken" "CL.THROTTLE $throttle"
  fi
fi
if there limitdb && [[ -n $scripts ]]; then
  row 'limitdb, INCR' limitdb count 'INCR KEY' "INCR $key"
  row 'limitdb, EXPIRE' limitdb expire 'SET KEY 1' "EXPIRE $key 360000"
  row 'limitdb, GCRA in Lua' limitdb lua "EVALSHA $sha 1 KEY $taken" "EVALSHA $sha 1 $throttle"
  [[ $("$cli" -p "$port" SCRIPT LOAD "$script") == "$sha" ]] || die "limitdb does not load gcra.lua"
  published limitdb limitdb
fi
if there redis-cell; then
  row 'Redis + redis-cell, CL.THROTTLE' redis-cell decide "CL.THROTTLE KEY $taken" "CL.THROTTLE $throttle"
fi
if there valkey-cell; then
  row 'Valkey + redis-cell, CL.THROTTLE' valkey-cell decide "CL.THROTTLE KEY $taken" "CL.THROTTLE $throttle"
fi
if there throttlecrab; then
  row 'throttlecrab, THROTTLE' throttlecrab decide "THROTTLE KEY $taken" "THROTTLE $throttle"
fi
if there dragonfly; then
  row 'Dragonfly, CL.THROTTLE' dragonfly decide "CL.THROTTLE KEY $taken" "CL.THROTTLE $throttle"
fi
if there redis; then
  lua_and_counters Redis redis
  if [[ -n $scripts ]]; then
    row 'Redis, EXPIRE' redis expire 'SET KEY 1' "EXPIRE $key 360000"
    published Redis redis
  fi
  if [[ -n $tls ]]; then row 'Redis, INCR, TLS' redis-tls decide-tls 'INCR KEY' "INCR $key"; fi
fi
if there valkey; then lua_and_counters Valkey valkey; fi
((${#names[@]})) || die "nothing to measure: apt-get install redis-server, or name a peer's binary"

# ---- measuring

# preload ROW makes every key resident with one take.
preload() {
  local port=${row_port[$1]} text=${preloads[$1]} report
  read -ra secure <<<"${row_secure[$1]}"
  [[ $text != - ]] || return 0
  "$cli" -p "$port" "${secure[@]}" FLUSHALL >/dev/null 2>&1 || true
  if [[ $("$cli" -p "$port" "${secure[@]}" ECHO there 2>/dev/null) != there ]]; then
    # redis-cli --pipe ends with ECHO. A peer without ECHO gets random keys, often enough that 99 of 100 are
    # there.
    # shellcheck disable=SC2086
    "$benchmark" -p "$port" "${secure[@]}" -c 50 -P 64 -n $((keys * 5)) -r "$keys" -q ${text/KEY/$key} >/dev/null
    return
  fi
  report=$(awk -v text="$text" -v keys="$keys" 'BEGIN {
    args = split(text, arg, " ")
    for (i = 0; i < keys; i++) {
      printf "*%d\r\n", args
      for (a = 1; a <= args; a++) {
        v = arg[a] == "KEY" ? sprintf("resi:%012d", i) : arg[a]
        printf "$%d\r\n%s\r\n", length(v), v
      }
    }
  }' | "$cli" -p "$port" "${secure[@]}" --pipe)
  [[ $report == *"errors: 0, replies: $keys"* ]] || die "${names[$1]}: preloading failed: $report"
  if [[ -z ${row_bytes[$1]} ]]; then
    row_bytes[$1]=$((($(rss "${row_pid[$1]}") - row_rss[$1]) * 1024 / keys))
  fi
}

# cpu_ticks PID prints the user and system time of all threads of a process, including ended ones. The name in
# field 2 may contain blanks.
cpu_ticks() {
  local stat
  stat=$(<"/proc/$1/stat")
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  echo $((${12} + ${13}))
}

data=$work/samples
ticks=$(getconf CLK_TCK)
# measure ROUND DEPTH ROW appends: round, depth, row, CPU in µs, thousands a second.
measure() {
  local n=$requests pid=${row_pid[$3]} before after out rps
  (($2 > 1)) || n=$(((requests + 7) / 8))
  read -ra secure <<<"${row_secure[$3]}"
  before=$(cpu_ticks "$pid")
  # shellcheck disable=SC2086
  out=$("$benchmark" -p "${row_port[$3]}" "${secure[@]}" -n "$n" -r "$keys" -c "$clients" -P "$2" --csv ${measured[$3]} 2>&1) ||
    die "${names[$3]}: redis-benchmark failed: ${out: -300}"
  after=$(cpu_ticks "$pid") || die "${names[$3]}: the server is gone"
  rps=$(awk -F'","' 'END { print $2 }' <<<"$out")
  [[ $rps =~ ^[0-9.]+$ ]] || die "${names[$3]}: no figure in redis-benchmark's output: ${out: -300}"
  awk -v OFS='\t' -v round="$1" -v depth="$2" -v row="$3" -v t="$((after - before))" -v hz="$ticks" -v n="$n" -v rps="$rps" \
    'BEGIN { print round, depth, row, t / hz * 1e6 / n, rps / 1000 }' >>"$data"
}

load_before=$(cut -d' ' -f1-3 /proc/loadavg)
for ((round = 1; round <= rounds; round++)); do
  for r in "${!names[@]}"; do
    note "round $round of $rounds: loading ${names[$r]}"
    preload "$r"
  done
  order=("${!names[@]}")
  if ((round % 2 == 0)); then
    mapfile -t order < <(printf '%s\n' "${!names[@]}" | sort -rn)
  fi
  for d in "${depth_list[@]}"; do
    for r in "${order[@]}"; do
      note "round $round of $rounds, P=$d: ${names[$r]}"
      measure "$round" "$d" "$r"
    done
  done
done

# ---- the table

for r in "${!names[@]}"; do printf '%s\t%s\t%s\n' "$r" "${base[$r]}" "${names[$r]}"; done >"$work/rows"
if [[ -n $samples ]]; then
  awk -F'\t' -v OFS='\t' 'NR == FNR { name[$1] = $3; next }
    FNR == 1 { print "round", "P", "row", "cpu_us", "krps" }
    { $3 = name[$3]; print }' "$work/rows" "$data" >"$samples"
fi

cat <<HEAD
$(date -u '+%Y-%m-%d %H:%M') UTC, $(nproc) cores, $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n1), Linux $(uname -r), $(go version 2>/dev/null | cut -d' ' -f3 || echo 'no Go'), $("$benchmark" --version)

    $command_line

Each cell: thousands of operations a second / server CPU, µs for each operation
(CPU ratio to limitdb in the same round: above 1, limitdb needs less). $clients
connections, $keys resident keys, $rounds rounds, medians; $requests requests each
($(((requests + 7) / 8)) at P=1).

HEAD

awk -F'\t' -v depths="$depths" -v rounds="$rounds" '
  function median(list, n,    i, j, x) {
    for (i = 2; i <= n; i++) {
      x = list[i]
      for (j = i - 1; j >= 1 && list[j] > x; j--) list[j + 1] = list[j]
      list[j + 1] = x
    }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
  }
  function cell(r, p,    k, c, s, q) {
    for (k = 1; k <= rounds; k++) { c[k] = cpu[k, p, r]; s[k] = rps[k, p, r] }
    q = sprintf("%.0f / %s", median(s, rounds), digits(median(c, rounds)))
    if (c[1] > 0 && (c[rounds] - c[1]) / c[1] > spread) { spread = (c[rounds] - c[1]) / c[1]; where = names[r] ", P=" p }
    if (base[r] in own && own[base[r]] != r) {
      for (k = 1; k <= rounds; k++) { if (cpu[k, p, own[base[r]]] <= 0) return q; c[k] = cpu[k, p, r] / cpu[k, p, own[base[r]]] }
      q = q sprintf(" (%.2f ×)", median(c, rounds))
    }
    return q
  }
  function digits(v) { return v >= 10 ? sprintf("%.1f", v) : sprintf("%.2f", v) }
  NR == FNR { base[$1] = $2; names[$1] = $3; rows = $1; if ($3 ~ /^limitdb/) own[$2] = $1; next }
  { cpu[$1, $2, $3] = $4; rps[$1, $2, $3] = $5 }
  END {
    n = split(depths, ds, ",")
    head = "| |"; rule = "|---|"
    for (i = 1; i <= n; i++) { head = head " P=" ds[i] " |"; rule = rule "---|" }
    print head; print rule
    for (r = 0; r <= rows; r++) {
      line = "| " names[r] " |"
      for (i = 1; i <= n; i++) line = line " " cell(r, ds[i]) " |"
      print line
    }
    if (rounds > 1) printf "\nLargest spread of CPU between rounds: %.0f %% (%s).\n", spread * 100, where
  }' "$work/rows" "$data"
printf 'Memory for each key, in bytes of RSS:'
for r in "${!names[@]}"; do
  if [[ -n ${row_bytes[$r]} ]]; then printf ' %s %s;' "${names[$r]}" "${row_bytes[$r]}"; fi
done
echo
echo "Load average before and after: $load_before; $(cut -d' ' -f1-3 /proc/loadavg). Without persistence; a process of its own for each row."
